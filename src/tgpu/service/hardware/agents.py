"""Machines that report through `tgpu agent`: their hardware, readings and last report.

As nodes of the scheduling state: `agent_nodes.py`.
"""

import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import structlog

from tgpu.core.errors import Conflict, InvalidRequest, NotFound
from tgpu.core.model.events import Event
from tgpu.core.state.cluster_state import State
from tgpu.devices.api import GpuReading
from tgpu.service.commands.tenants import NAME_RULE
from tgpu.service.recording.clock import WallClock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store

_log = structlog.get_logger("gpu_scheduler.agents")

_KIND: Final = "agent"  # of the documents
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class ProcessOwner:
    """What the agent's machine knows of a process on a GPU."""

    user: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Readings:
    """How an agent's GPUs feel."""

    gpus: tuple[GpuReading, ...]
    problem: str | None = None
    owners: Mapping[int, ProcessOwner] = field(default_factory=dict)  # by process id


@dataclass(frozen=True, slots=True)
class Registration:
    """What an agent says its machine is."""

    name: str
    version: str
    provider: str
    simulated: bool
    cpu_cores: int
    memory_mib: int
    gpus: tuple[GpuReading, ...]  # without measurements
    address: str = ""
    registered_at: int = 0


@dataclass(slots=True)
class Agent:
    """One machine as it is known now."""

    registration: Registration
    readings: Readings
    instance: str = ""  # which run of the agent speaks for it; empty before one does
    last_seen_at: int | None = None  # on the wall's clock, for people; None since our own start
    heard_at: float = float("-inf")  # on the monotonic clock
    streams: int = 0  # open heartbeat streams of this instance
    was_online: bool = False


class Agents:
    def __init__(
        self,
        writer: Writer,
        store: Store,
        offline_after_seconds: float,
        now: Callable[[], float] = time.monotonic,
        own: Collection[str] = (),
    ) -> None:
        """`own` are the names of machines that the service reads itself."""
        self._own = own
        self._opened = now()
        self.offline_after_seconds = offline_after_seconds
        self._writer = writer
        self._store = store
        self._now = now
        self._wall = WallClock()  # a machine falls silent in real time, whatever clock jobs have
        self._agents: dict[str, Agent] = {}

    async def open(self) -> None:
        """Know again those that registered before; they are offline until they are heard."""
        for body in (await self._store.documents(_KIND)).values():
            known = msgspec.json.decode(body, type=Registration)
            self._agents[known.name] = Agent(known, Readings(known.gpus))

    def all(self) -> list[Agent]:
        """By name."""
        return [self._agents[name] for name in sorted(self._agents)]

    def get(self, name: str) -> Agent:
        found = self._agents.get(name)
        if found is None:
            raise _unknown(name)
        return found

    def find(self, name: str) -> Agent | None:
        return self._agents.get(name)

    def is_online(self, agent: Agent) -> bool:
        online = self._now() - agent.heard_at <= self.offline_after_seconds
        if agent.was_online and not online:
            agent.was_online = False
            _log.warning("a node is silent", node=agent.registration.name)
        return online

    def is_silent(self, agent: Agent) -> bool:
        """Not heard for long, also since we began: nobody could be heard before."""
        return self._now() - max(agent.heard_at, self._opened) > self.offline_after_seconds

    async def register(self, registration: Registration, instance: str) -> None:
        """Take a machine in, or back. Conflict while another agent speaks under its name."""
        name = registration.name
        if name in self._own or not _NAME.fullmatch(name):
            but = "".join(f", and not {one!r}" for one in sorted(self._own))
            raise InvalidRequest("name", name, f"a node's name is {NAME_RULE}{but}")
        if not instance:
            raise InvalidRequest("instance", instance, "must not be empty")
        self._refuse_second(name, instance)
        registration = replace(
            registration,
            gpus=tuple(gpu.unmeasured(gpu.problem) for gpu in registration.gpus),
            registered_at=self._wall.now(),
        )
        known = self._agents.get(name)
        if known is not None and _is_same(known.registration, registration):
            registration = known.registration
        else:
            offline = Agent(registration, Readings(registration.gpus))
            await self._record(
                name,
                msgspec.json.encode(registration),
                lambda: self._agents.setdefault(name, offline),
            )
            self._refuse_second(name, instance)  # another may have come during the commit
            known = self._agents.get(name)
        if known is None or known.instance != instance:
            known = Agent(registration, Readings(registration.gpus), instance)
            self._agents[name] = known
        known.registration = registration
        self._hear(known)
        _log.info("a node registered", node=name, gpus=len(registration.gpus))

    def hear(self, name: str, instance: str, readings: Readings | None) -> None:
        """A sign of life. NotFound for who is not registered: it must do so (again)."""
        agent = self._speaking(name, instance)
        if readings is not None:
            agent.readings = readings
        self._hear(agent)

    @contextlib.contextmanager
    def streaming(self, name: str, instance: str) -> Iterator[None]:
        """While a heartbeat stream is open: nobody else can take the name then."""
        agent = self._speaking(name, instance)
        agent.streams += 1
        try:
            yield
        finally:
            agent.streams -= 1

    async def forget(self, name: str, events: Sequence[Event] = ()) -> None:
        """Drop a machine that is gone for good. Conflict while it is online. The `events` are
        recorded with it."""
        if self.is_online(self.get(name)):
            raise Conflict(
                f"node {name} is online; stop its agent first", [{"name": name, "state": "online"}]
            )
        await self._record(name, None, lambda: self._agents.pop(name, None), events)

    def _hear(self, agent: Agent) -> None:
        agent.heard_at = self._now()
        agent.last_seen_at = self._wall.now()
        agent.was_online = True

    def _speaking(self, name: str, instance: str) -> Agent:
        agent = self._agents.get(name)
        if agent is None or agent.instance != instance:
            raise _unknown(name)
        return agent

    def _refuse_second(self, name: str, instance: str) -> None:
        known = self._agents.get(name)
        # One whose stream broke may be the same machine starting anew, and is let in at once.
        if known is None or known.instance == instance or not known.streams:
            return
        if self.is_online(known):
            raise Conflict(
                f"node {name} is online through another agent; choose another name with --name",
                [{"name": name, "address": known.registration.address}],
            )

    async def _record(
        self,
        name: str,
        body: bytes | None,
        applied: Callable[[], object],
        events: Sequence[Event] = (),
    ) -> None:
        def decide(_: State) -> Decision[None]:
            documents = {(_KIND, name): body}
            return Decision(None, list(events), documents=documents, applied=applied)

        # Job ids have no colon, so this waits for no job's command.
        await self._writer.do(decide, [f"agent:{name}"])


def _is_same(before: Registration, after: Registration) -> bool:
    return before == replace(after, registered_at=before.registered_at)


def _unknown(name: str) -> NotFound:
    return NotFound("node", name, "`tgpu nodes` shows those there are; an agent registers its own")
