"""Reads the GPUs at intervals and acts on it: ends leftover processes, warns, ends adopted
leases."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import structlog

from tgpu.core.errors import Unavailable
from tgpu.core.model.events import Event, NodeSet
from tgpu.core.state.cluster_state import Entry, State
from tgpu.devices.api import STALE, Snapshot
from tgpu.service.commands.gpu_choice import gpu_word
from tgpu.service.hardware.adoption import ProcessAdoption
from tgpu.service.hardware.job_watch import JobWatch, WatchRules
from tgpu.service.hardware.machines import Machine, hardware_of
from tgpu.service.hardware.memory_history import MemoryHistory
from tgpu.service.hardware.node_hardware import Hardware
from tgpu.service.hardware.sweep import Sweeper
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.observer import Observer
from tgpu.service.recording.writer import Writer
from tgpu.store.api import Store, StoreUnavailable

_log = structlog.get_logger("gpu_scheduler.devices")

# While something is being stopped, or an adopted process may end, people wait for its GPU.
_SOON_SECONDS = 1.0


class GpuMonitor:
    def __init__(
        self,
        state: State,
        machines: Sequence[Machine],
        writer: Writer,
        *,
        clock: Clock,
        observer: Observer,
        rules: WatchRules | None = None,
        grace_seconds: float = 10.0,
        others: Callable[[], Sequence[Hardware]] = list,
    ) -> None:
        """`machines` are read from here; `others` are read elsewhere and told to us.

        `grace_seconds` are what a process that outlives its job has between TERM and KILL.
        """
        self._state = state
        self._machines = machines
        self._others = others
        self._writer = writer
        self._clock = clock
        self._observer = observer
        self._sweepers = [
            (each, Sweeper(each.node_processes, grace_seconds))
            for each in hardware_of(machines)
            if each.node_processes is not None
        ]
        self.adoption = ProcessAdoption(
            self.known_hardware, writer, clock, first=machines[0].hardware.node_id
        )
        self.jobs = JobWatch(self.known_hardware, rules)
        self.memory_history = MemoryHistory(self.known_hardware)

    def known_hardware(self) -> list[Hardware]:
        """Of every node that readings come from."""
        return [*hardware_of(self._machines), *self._others()]

    async def open(self, store: Store) -> None:
        for hardware in hardware_of(self._machines):
            await hardware.open(store)
        await self.adoption.open(store)
        await self.memory_history.open(store)

    async def look(self) -> None:
        """Read the GPUs, record what has changed, and act on it."""
        await self._read_all()
        for hardware, sweeper in self._sweepers:
            await sweeper.sweep(hardware.survivors())
        await self.adoption.watch(self._state)
        self.jobs.adopted = self.adoption.job_ids
        await self.jobs.observe(self._state, self._writer, self._clock)
        await self.memory_history.observe(self._state, self._writer)

    def pause_seconds(self, usual: float) -> float:
        """How long until the next look."""
        hurry = self.adoption.job_ids or any(each.survivors() for each, _ in self._sweepers)
        return min(usual, _SOON_SECONDS) if hurry else usual

    def problems(self) -> list[str]:
        """What an operator should know of the GPUs."""
        return [
            problem
            for hardware in self.known_hardware()
            if hardware.node_id in self._state.ledger.nodes
            for problem in self._problems_of(hardware)
        ]

    def _problems_of(self, hardware: Hardware) -> list[str]:
        ledger, snapshot, found = self._state.ledger, hardware.snapshot, []
        driver = snapshot.problem if snapshot is not None else None
        if driver:
            of = f" of {hardware.node_id}" if ledger.has_several_nodes else ""
            found.append(f"GPU driver{of}: {driver}")
        for gpu in ledger.nodes[hardware.node_id].node.gpus:
            if driver and gpu.problem and gpu.problem.startswith(STALE):
                continue  # it is the driver, and said once
            name = gpu_word(ledger, hardware.node_id, gpu.index)
            if gpu.problem and gpu.problem != driver:
                found.append(f"GPU {name}: {gpu.problem}")
            elif gpu.index in hardware.slow:
                found.append(f"GPU {name}: {hardware.slow[gpu.index]}")
        return found

    # -- the end of attempts -----------------------------------------------------------------------

    async def before_ends(self) -> None:
        """Know who is on the GPUs while the jobs that end still have them, and how those fared."""
        busy = [machine for machine in self._machines if not _is_known_empty(machine)]
        if not busy:
            return
        with contextlib.suppress(StoreUnavailable, Unavailable):
            await asyncio.gather(*map(self._read, busy))

    def cause_of(self, entry: Entry) -> str | None:
        causes = (hardware.cause_of(self._state, entry) for hardware in self.known_hardware())
        return next((cause for cause in causes if cause is not None), None)

    def quarantine(self, state: State, moves: Sequence[Event], now: int) -> list[NodeSet]:
        return [
            event
            for hardware in self.known_hardware()
            for event in hardware.quarantine(state, moves, now)
        ]

    async def _read_all(self) -> None:
        """At once: a driver that hangs on one machine holds up nobody elsewhere."""
        await asyncio.gather(*map(self._read, self._machines))

    async def _read(self, machine: Machine) -> None:
        snapshot = await machine.watch.read()
        self._tell_of_breaker(machine)
        self._observer.measured(machine.hardware.node_id, snapshot)
        await machine.hardware.observe(snapshot, self._writer, self._clock)

    def _tell_of_breaker(self, machine: Machine) -> None:
        breaker, node = machine.watch.breaker, machine.hardware.node_id
        if breaker.is_closed == machine.told.is_well:
            return
        machine.told = breaker.state
        self._observer.breaker_changed("driver", breaker.state)
        if breaker.is_closed:
            _log.info("the GPU driver answers again", node=node)
        else:
            problem = str(breaker.problem)
            _log.error(
                "the GPU driver fails: no jobs start until it answers", node=node, problem=problem
            )


def _is_known_empty(machine: Machine) -> bool:
    """Nobody is on its GPUs, and that is known already."""
    snapshot = machine.watch.at_once()
    return snapshot is not None and snapshot is machine.hardware.snapshot and _is_empty(snapshot)


def _is_empty(snapshot: Snapshot) -> bool:
    return not any(gpu.processes for gpu in snapshot.gpus)
