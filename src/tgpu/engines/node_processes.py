"""The port of a node's processes: who is on its GPUs, whether they still run, and ending them.

Given by whatever sits on the node. Where nothing does, whose a process is stays unknown, and none
can be adopted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from signal import Signals
from typing import NamedTuple, Protocol

from tgpu.engines.api import JobMark


@dataclass(frozen=True, slots=True)
class Who:
    """A process. What the kernel does not tell us is None."""

    pid: int
    user: str | None = None
    command: str | None = None
    started_at: int | None = None  # ms since the epoch; None: we cannot see this process at all
    ancestors: tuple[int, ...] = ()  # the nearest first
    mark: JobMark | None = None

    @property
    def is_seen(self) -> bool:
        return self.started_at is not None


class Boot(NamedTuple):
    """When a node was started, as its clock had it when we first asked."""

    boot_id: str  # another one whenever it was started
    at: int


class NodeProcesses(Protocol):
    """The processes of one node, by the numbers that they have there."""

    async def look_up(self, pids: Iterable[int], known: Mapping[int, Who]) -> dict[int, Who]:
        """Each of them. Where the node does not tell now, one is who it was when last `known`."""

    def may_run(self, who: Who) -> bool:
        """Whether this very process may still run, told at once.

        Only what is known to be gone is: else a GPU would be free because we could not look.
        """

    async def send(self, who: Who, number: Signals) -> bool:
        """Signal exactly this process; False if it is gone or not ours to signal."""

    async def boot(self) -> Boot:
        """Tells whether a process of before may be the same, also where the clock was set since."""
