"""An engine without processes, for tests of what uses engines: the test says what happens.

It keeps the contract of `Engine`, and the same suite runs on it as on the real ones.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tgpu.core.model.cause import Evidence
from tgpu.engines.api import (
    AttemptKey,
    Capabilities,
    EngineCapacity,
    EngineUnavailable,
    Launch,
    NoLog,
    Observation,
    Overtaken,
    Pairing,
    Phase,
    PreemptionNotice,
    ProcessUsage,
    Traced,
)
from tgpu.engines.log_files import LogFiles
from tgpu.engines.log_piece import Piece
from tgpu.engines.placing import placed

# As those of the local engine: it makes up numbers of processes.
LIKE_LOCAL: Final = Capabilities(local_processes=True)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class FakeEngine:
    """Attempts start when launched and end when the test says so, or when they are stopped.

    With `starts=False` an attempt stays unstarted until `start` or `refuse`; with `stops=False` a
    stop is only noted in `stopped`, as if the attempt took its time to end. `logs` is the folder
    a test writes log files to; the engine itself writes none.
    """

    name = "fake"

    def __init__(
        self,
        *,
        clock: Callable[[], int] = _wall_clock_ms,
        starts: bool = True,
        stops: bool = True,
        logs: str | None = None,
        capabilities: Capabilities = LIKE_LOCAL,
    ) -> None:
        self.capabilities = capabilities
        self.launched: list[Launch] = []  # each attempt once, in order, as it was placed
        self.stopped: list[AttemptKey] = []  # every key it was told to stop, in order
        self.notices: dict[AttemptKey, PreemptionNotice | None] = {}  # with which, at last
        self.forgotten: list[AttemptKey] = []
        self.paused: set[AttemptKey] = set()  # those that stand still
        self.paired: Pairing | None = None  # a test that wants partners sets one
        self.epoch = 0  # the highest it has seen
        self.starts = starts
        self.stops = stops
        self.found: dict[AttemptKey, Evidence] = {}  # that a test wants found of those that fail
        self._logs = logs
        self._files = LogFiles(self.find_logs)
        self._clock = clock
        self._is_open = False
        self._is_available = True
        self._known: dict[AttemptKey, Observation | None] = {}  # None: taken, not started
        self._ever: set[AttemptKey] = set()
        self._ends: dict[AttemptKey, Observation] = {}  # of those that were forgotten
        self._pids = itertools.count(1001)
        self._news: list[Observation] = []
        self._wake = asyncio.Event()

    async def open(self) -> None:
        self._check_available()
        if not self._is_open:
            self._is_open = True
            self._tell_everything()

    async def launch(self, launches: Sequence[Launch], *, epoch: int = 0) -> None:
        self._check_open()
        self._check_epoch(epoch)
        for launch in launches:
            if launch.key in self._ever:
                self._tell_again(launch.key)
                continue
            self._ever.add(launch.key)
            self._known[launch.key] = None
            self.launched.append(placed(launch, log_dir=self.log_dir(launch.key)))
            if self.starts:
                self.start(launch.key)

    async def stop(
        self,
        keys: Sequence[AttemptKey],
        notice: PreemptionNotice | None = None,
        *,
        epoch: int = 0,
    ) -> None:
        self._check_open()
        self._check_epoch(epoch)
        self.stopped += keys
        self.notices.update(dict.fromkeys(keys, notice))
        for key in keys:
            if self.stops and key not in self._ever:
                self._ever.add(key)
                self.refuse(key, "stopped", retry=False)
            elif self.stops and key in self._known:
                self._stop(key)
            else:
                self._tell_again(key)

    async def pause(self, keys: Sequence[AttemptKey], *, paused: bool) -> None:
        self._check_open()
        for key in keys:
            (self.paused.add if paused else self.paused.discard)(key)

    async def observe(self) -> list[Observation]:
        self._check_open()
        return [seen for seen in self._known.values() if seen is not None]

    async def capacity(self) -> EngineCapacity | None:
        self._check_open()
        return None

    async def forget(self, keys: Sequence[AttemptKey]) -> None:
        self._check_open()
        for key in keys:
            seen = self._known.get(key)
            if seen is not None and seen.is_over:
                self._drop(key, seen)
                self.forgotten.append(key)

    async def changes(self) -> AsyncIterator[list[Observation]]:
        while True:
            if self._news:
                batch, self._news = self._news, []
                yield batch
            elif not self._is_open:
                return
            else:
                self._wake.clear()
                await self._wake.wait()

    def traced(self, pid: int) -> Traced:
        return Traced(pids=(pid,), is_whole=True)  # it has no processes, so this is none of its own

    def now(self) -> int:
        return self._clock()

    async def read_log(self, key: AttemptKey, stream: str, offset: int, limit: int) -> Piece:
        if self._logs is None:
            raise NoLog(f"the {self.name} engine keeps no logs here")
        return await self._files.read(key, stream, offset, limit)

    def log_dir(self, key: AttemptKey) -> str | None:
        return None if self._logs is None else f"{self._logs}/{key.job_id}/{key.attempt}"

    def find_logs(self, key: AttemptKey) -> str:
        return self.log_dir(key) or ""

    @property
    def stuck_reads(self) -> int:
        return self._files.stuck

    async def evidence(self, ends: Sequence[Observation]) -> Mapping[AttemptKey, Evidence]:
        return {seen.key: self.found[seen.key] for seen in ends if seen.key in self.found}

    async def pairing(self) -> Pairing | None:
        return self.paired

    async def pair(self, pairing: Pairing) -> None:
        self.paired = replace(pairing, is_new=False)

    async def mark(self, seq: int, number: int) -> None:
        if self.paired is not None:
            self.paired = replace(self.paired, seq=seq, number=number)

    async def close(self) -> None:
        self._is_open = False
        self._wake.set()

    # What a test makes happen.

    def start(self, key: AttemptKey) -> None:
        now = self._clock()
        running = Observation(key, Phase.RUNNING, now, next(self._pids), started_at=now)
        self._see(running)

    def refuse(self, key: AttemptKey, cause: str, *, retry: bool = True) -> None:
        """The attempt cannot be started."""
        self._see(Observation(key, Phase.NOT_STARTED, self._clock(), cause=cause, retry=retry))

    def finish(
        self,
        key: AttemptKey,
        exit_code: int = 0,
        *,
        cause: str | None = None,
        usage: ProcessUsage | None = None,
    ) -> None:
        """The attempt's command ends with this code; above 128 by a signal, as in a shell."""
        self._see(
            replace(
                self._running(key),
                phase=Phase.EXITED,
                at=self._clock(),
                exit_code=exit_code,
                signal=exit_code - 128 if exit_code > 128 else None,
                cause=cause,
                usage=usage or ProcessUsage(),
            )
        )

    def lose(self, key: AttemptKey, cause: str) -> None:
        """The attempt is gone and nobody knows how it ended."""
        self._see(replace(self._running(key), phase=Phase.LOST, at=self._clock(), cause=cause))

    def vanish(self, key: AttemptKey) -> None:
        """The engine no longer knows the attempt, as if its records were gone."""
        self._known.pop(key, None)
        self._ever.discard(key)

    def break_down(self) -> None:
        """Until `recover`, every call raises EngineUnavailable."""
        self._is_available = False

    def recover(self) -> None:
        """Reachable again; `changes` tells everything, as after a reconnect."""
        self._is_available = True
        self._tell_everything()

    def _drop(self, key: AttemptKey, end: Observation) -> None:
        del self._known[key]
        self._ends[key] = end

    def _tell_again(self, key: AttemptKey) -> None:
        """Of one that was forgotten, what became of it."""
        if key in self._ends and key not in self._known:
            self._see(self._ends[key])

    def _stop(self, key: AttemptKey) -> None:
        seen = self._known[key]
        if seen is None:
            self.refuse(key, "stopped", retry=False)
        elif seen.phase is Phase.RUNNING:
            self.finish(key, 143, cause="stopped")

    def _running(self, key: AttemptKey) -> Observation:
        seen = self._known.get(key)
        if seen is None or seen.phase is not Phase.RUNNING:
            raise AssertionError(f"{key} is not running: {seen}")
        return seen

    def _see(self, seen: Observation) -> None:
        self._known[seen.key] = seen
        self._news.append(seen)
        self._wake.set()

    def _tell_everything(self) -> None:
        self._news += [seen for seen in self._known.values() if seen is not None]
        self._wake.set()

    def _check_available(self) -> None:
        if not self._is_available:
            raise EngineUnavailable("the fake engine was told to break down")

    def _check_epoch(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise Overtaken(epoch, self.epoch)
        self.epoch = epoch

    def _check_open(self) -> None:
        self._check_available()
        if not self._is_open:
            raise EngineUnavailable("the fake engine is not open")
