"""Nodes of agents in the state: what they report, and whether they are offline.

Where no engine runs jobs, such a node is shown and never chosen (`Ledger.reporting`).
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

from tgpu.core.errors import Conflict, Unavailable
from tgpu.core.model.events import NodeSet
from tgpu.core.model.ids import NodeId
from tgpu.core.model.node import gone
from tgpu.core.model.units import CPU
from tgpu.devices.api import Snapshot
from tgpu.engines.node_processes import Who
from tgpu.service.hardware.agents import Agent, Agents, Readings
from tgpu.service.hardware.node_hardware import Hardware, HardwareRules
from tgpu.service.recording.audit import by_itself
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.observer import Observer
from tgpu.service.recording.writer import Writer
from tgpu.store.api import Store, StoreUnavailable


class AgentNodes:
    def __init__(
        self,
        agents: Agents,
        writer: Writer,
        store: Store,
        clock: Clock,
        *,
        observer: Observer,
        engine_of: Callable[[str], str],
        rules: HardwareRules | None = None,
    ) -> None:
        """`engine_of` a node is the name of what runs jobs there, "" where nothing does."""
        self._agents = agents
        self._writer = writer
        self._store = store
        self._clock = clock
        self._observer = observer
        self._engine_of = engine_of
        self._rules = rules
        self._hardware: dict[str, Hardware] = {}

    def all(self) -> list[Hardware]:
        return [self._hardware[name] for name in sorted(self._hardware)]

    def get(self, name: str) -> Hardware | None:
        return self._hardware.get(name)

    async def look(self) -> None:
        """Take all of them in as they are now: who has fallen silent, where an engine runs jobs."""
        for agent in self._agents.all():
            hardware = self._hardware.get(agent.registration.name)
            engine = self._engine_of(agent.registration.name)
            # What an agent says is taken in as it comes: there is more to do about few of them.
            if hardware is None or hardware.engine != engine or not self._agents.is_online(agent):
                await self._observe(agent, is_news=False)
                await asyncio.sleep(0)  # there may be thousands

    async def observe(self, name: str) -> None:
        """Take in what the agent of this name said last."""
        await self._observe(self._agents.get(name), is_news=True)

    async def forget(self, name: str) -> None:
        """Drop a machine that is gone for good, and its node."""
        use = self._writer.state.ledger.nodes.get(NodeId(name))
        if use is not None and use.holdings:
            jobs = sorted(use.holdings)
            raise Conflict(
                f"node {name} has jobs: {', '.join(jobs[:3])}; end them first",
                [{"name": name, "jobs": jobs}],
            )
        await self._agents.forget(name, [NodeSet(self._clock.now(), gone(NodeId(name)))])
        self._hardware.pop(name, None)
        self._observer.measured(NodeId(name), Snapshot("", ()))  # nothing is there any more

    # -- the clock is set --------------------------------------------------------------------------

    def step_documents(self, by: int) -> dict[tuple[str, str], bytes | None]:
        made: dict[tuple[str, str], bytes | None] = {}
        for hardware in self.all():
            made |= hardware.step_documents(by)
        return made

    def step(self, by: int) -> None:
        for hardware in self.all():
            hardware.step(by)

    # -- how ---------------------------------------------------------------------------------------

    async def _observe(self, agent: Agent, *, is_news: bool) -> None:
        hardware = await self._hardware_of(agent)
        known = self._writer.state.ledger.known_node(hardware.node_id)
        online, silent = self._agents.is_online(agent), self._agents.is_silent(agent)
        is_recorded = known is not None and known.engine == hardware.engine
        if not online and not silent and is_recorded:
            return  # nobody was heard since the service began: what is on record may well hold
        readings = _silent(agent) if silent and not online else agent.readings
        snapshot = Snapshot(agent.registration.provider, readings.gpus, readings.problem)
        if is_news or (not online and snapshot != hardware.snapshot):
            self._observer.measured(hardware.node_id, snapshot)
        told = {pid: Who(pid, who.user, who.command) for pid, who in readings.owners.items()}
        # Nobody asked for it; what cannot be recorded now, the next look records.
        with by_itself(), contextlib.suppress(StoreUnavailable, Unavailable):
            await hardware.observe(snapshot, self._writer, self._clock, told)

    async def _hardware_of(self, agent: Agent) -> Hardware:
        said = agent.registration
        hardware = self._hardware.get(said.name)
        if hardware is None:
            hardware = Hardware(
                NodeId(said.name),
                said.cpu_cores * CPU,
                said.memory_mib,
                simulated=said.simulated,
                rules=self._rules,
            )
            await hardware.open(self._store)
            hardware = self._hardware.setdefault(said.name, hardware)
        hardware.cpu_millis, hardware.mem_mib = said.cpu_cores * CPU, said.memory_mib
        hardware.simulated = said.simulated
        hardware.engine = self._engine_of(said.name)
        return hardware


def _silent(agent: Agent) -> Readings:
    """What there is, and that nobody knows how it is."""
    problem = "its node does not report"
    gpus = tuple(gpu.unmeasured(problem) for gpu in agent.registration.gpus)
    return Readings(tuple(replace(gpu, xids=()) for gpu in gpus), problem)
