"""Notices and their recipients, as values."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tgpu.core.model.ids import JobId, NodeId, TenantId


class NoticeKind(StrEnum):
    START = "start"
    END = "end"  # however it ended
    FAILURE = "failure"
    PREEMPTION = "preemption"
    IDLE = "idle"
    GPU = "gpu"
    DEADLINE = "deadline"
    BUDGET = "budget"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to be told. Its id is the same each time it is sent: who got it knows it again."""

    notice_id: str
    kind: NoticeKind
    at: int
    title: str
    text: str  # lines
    job_id: JobId | None = None
    name: str = ""  # of the job
    user: str = ""
    tenant_id: TenantId | None = None
    state: str | None = None
    exit_code: int | None = None
    cause: str | None = None
    failure: str | None = None
    node: NodeId | str | None = None
    gpus: tuple[int, ...] = ()  # indexes on `node`
    gpu_names: tuple[str, ...] = ()  # of all its workers, as "b/3"


@dataclass(frozen=True, slots=True)
class Letter:
    """A notice, and for mail whom it goes to: the target's own readers, and those of the job."""

    notice: Notice
    to_readers: bool = True
    to_owner: tuple[str, ...] = ()


class NotSent(Exception):
    """It did not get there and may the next time; `after_seconds` is what the server asks for."""

    def __init__(self, problem: str, after_seconds: float = 0.0) -> None:
        super().__init__(problem)
        self.after_seconds = after_seconds


class NoticeTarget(Protocol):
    """Where notices go. `where` shows no secret; `most` letters go into one message."""

    where: str
    most: int
    secrets: tuple[str, ...]

    async def send(self, letters: Sequence[Letter]) -> list[str]:
        """Send all of them; what the other side refused for good, in words. NotSent: try again."""

    async def close(self) -> None: ...
