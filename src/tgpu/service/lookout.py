"""Looks at the GPUs now and then, and does what follows: sweeps, warns, gives adopted GPUs back."""

import contextlib
from collections.abc import Sequence

import structlog

from tgpu.core.breaker import BreakerState
from tgpu.core.errors import Unavailable
from tgpu.core.events import Event, NodeSet
from tgpu.core.state import Entry, State
from tgpu.devices.api import STALE, Snapshot
from tgpu.devices.watch import DeviceWatch
from tgpu.service.adoption import Adoption
from tgpu.service.clock import Clock
from tgpu.service.hardware import Hardware
from tgpu.service.job_watch import JobWatch, WatchRules
from tgpu.service.observer import Observer
from tgpu.service.peaks import Peaks
from tgpu.service.sweep import Sweeper
from tgpu.service.writer import Writer
from tgpu.store.api import Store, StoreUnavailable

_log = structlog.get_logger("gpu_scheduler.devices")

# While something is being ended, or an adopted process may end, people wait for its GPU.
_SOON_SECONDS = 1.0


class Lookout:
    def __init__(
        self,
        state: State,
        hardware: Hardware,
        watch: DeviceWatch,
        writer: Writer,
        *,
        clock: Clock,
        observer: Observer,
        rules: WatchRules | None = None,
        grace_seconds: float = 10.0,
    ) -> None:
        """`grace_seconds` are what a process that outlives its job has between TERM and KILL."""
        self._state = state
        self._hardware = hardware
        self._watch = watch
        self._writer = writer
        self._clock = clock
        self._observer = observer
        self._sweeper = Sweeper(grace_seconds)
        self.adoption = Adoption(hardware, writer, clock)
        self.jobs = JobWatch(hardware, rules)
        self.peaks = Peaks(hardware)
        self._told = BreakerState.CLOSED  # of the driver's breaker

    async def open(self, store: Store) -> None:
        await self._hardware.open(store)
        await self.adoption.open(store)
        await self.peaks.open(store)

    async def look(self) -> None:
        """Read the GPUs, record what has changed, and act on it."""
        snapshot = await self._read()
        self._sweeper.sweep(self._hardware.survivors())
        await self.adoption.watch(self._state)
        self.jobs.adopted = self.adoption.job_ids
        if snapshot.problem is None:  # else it is an old one: nobody is idle by that
            await self.jobs.observe(self._state, self._writer, self._clock)
            await self.peaks.observe(self._state, self._writer)

    def pause_seconds(self, usual: float) -> float:
        """How long until the next look."""
        hurry = self._hardware.survivors() or self.adoption.job_ids
        return min(usual, _SOON_SECONDS) if hurry else usual

    def problems(self) -> list[str]:
        """What an operator should know of the GPUs."""
        snapshot, found = self._hardware.snapshot, []
        driver = snapshot.problem if snapshot is not None else None
        if driver:
            found.append(f"GPU driver: {driver}")
        use = self._state.ledger.nodes.get(self._hardware.node_id)
        for gpu in use.node.gpus if use is not None else ():
            if driver and gpu.problem and gpu.problem.startswith(STALE):
                continue  # it is the driver, and said once
            if gpu.problem and gpu.problem != driver:
                found.append(f"GPU {gpu.index}: {gpu.problem}")
            elif gpu.index in self._hardware.slow:
                found.append(f"GPU {gpu.index}: {self._hardware.slow[gpu.index]}")
        return found

    # -- the end of attempts -----------------------------------------------------------------------

    async def before_ends(self) -> None:
        """Know who is on the GPUs while the jobs that end still have them, and how those fared."""
        snapshot = self._watch.at_once()
        if snapshot is not None and snapshot is self._hardware.snapshot and _is_empty(snapshot):
            return  # nobody is on the GPUs, and that is known already
        with contextlib.suppress(StoreUnavailable, Unavailable):
            await self._read()

    def cause_of(self, entry: Entry) -> str | None:
        return self._hardware.cause_of(entry)

    def quarantine(self, state: State, moves: Sequence[Event], now: int) -> list[NodeSet]:
        return self._hardware.quarantine(state, moves, now)

    async def _read(self) -> Snapshot:
        snapshot = await self._watch.read()
        self._tell_of_breaker()
        self._observer.measured(self._hardware.node_id, snapshot)
        await self._hardware.observe(snapshot, self._writer, self._clock)
        return snapshot

    def _tell_of_breaker(self) -> None:
        breaker = self._watch.breaker
        if breaker.is_closed == self._told.is_well:
            return
        self._told = breaker.state
        self._observer.breaker_changed("driver", breaker.state)
        if breaker.is_closed:
            _log.info("the GPU driver answers again")
        else:
            problem = str(breaker.problem)
            _log.error("the GPU driver fails: no jobs start until it answers", problem=problem)


def _is_empty(snapshot: Snapshot) -> bool:
    return not any(gpu.processes for gpu in snapshot.gpus)
