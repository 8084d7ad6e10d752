"""Carries out decisions: launches and stops attempts, and records their results.

Every step may be lost to a crash: decisions are on record before they are carried out, launches
and stops may be repeated, and an end is forgotten by the engine only once it is on record here.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from tgpu.accounts.api import Account
from tgpu.core.model import lifecycle
from tgpu.core.model.cause import NO_EVIDENCE, Evidence
from tgpu.core.model.events import Event, JobMoved, NodeSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import PLACED, JobState, Move
from tgpu.core.model.node import Node
from tgpu.core.state.cluster_state import Entry, State
from tgpu.engines.api import (
    NO_LIMITS,
    AttemptKey,
    AttemptLimits,
    Engine,
    EngineUnavailable,
    Launch,
    Observation,
    Phase,
    Place,
    PreemptionNotice,
)
from tgpu.service.accounting.receipts import Receipt, Receipts
from tgpu.service.attempt_key import attempt_key, current_key
from tgpu.service.execution.absence import ABSENT, Absences
from tgpu.service.execution.fencing import CannotFence, GpuFences
from tgpu.service.execution.launch import inherited, launch_of
from tgpu.service.execution.outcome import conclude
from tgpu.service.execution.reconciler import beliefs, classify
from tgpu.service.execution.strangers import Strangers
from tgpu.service.identity.run_as import NOT_SHARED, JobUsers, RunAsRules, UidsInUse, is_themselves
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.service.secrets.evidence_secrets import without_secrets
from tgpu.service.secrets.sealing import CannotUnseal, Sealer
from tgpu.store.api import JobQuery, Store, StoredJob, StoreUnavailable

_log = structlog.get_logger("gpu_scheduler.attempts")

_RETRY_SECONDS = 1.0  # between tries when the store or the engine is out of reach
_LAUNCH_GROUP = 256
_SAME_MS = 5  # two clocks that are read one after the other and rounded
_RAN = (Phase.EXITED, Phase.LOST)
_STANDING = (Phase.TAKEN, Phase.UNREACHABLE)


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    grace_ms: int
    home: str
    default_environment: Mapping[str, str]  # for jobs submitted without one
    checkpoint_ms: int = 60_000  # from a job's checkpoint signal until TERM, when it is preempted
    run_as: RunAsRules = NOT_SHARED
    script_folders: tuple[str, ...] = ()  # that the scripts of jobs must lie in; none: anywhere
    limits: AttemptLimits = NO_LIMITS
    multiplexer: str = ""  # all jobs in sessions: of "screen" or "tmux"
    time_limit_ms: int | None = None  # for jobs that ask for none
    log_limit_mib: int | None = None  # of each log, for jobs that ask for less or none
    absent_seconds: float = 15.0  # before an engine that forgets is asked about one it lacks


class EndCheck(Protocol):
    """What the hardware has to say when attempts end."""

    async def before_ends(self) -> None:
        """Read the GPUs while the jobs that end still have them."""

    def cause_of(self, entry: Entry) -> str | None:
        """An error of its GPUs since the job started."""

    def quarantine(self, state: State, moves: Sequence[Event], now: int) -> list[NodeSet]:
        """To be recorded with the moves: GPUs on which something of these attempts still runs."""


class Attempts:
    def __init__(
        self,
        state: State,
        writer: Writer,
        store: Store,
        engine: Engine,
        *,
        clock: Clock,
        settings: LaunchSettings,
        run_as: JobUsers,
        receipts: Receipts,
        gpu_monitor: EndCheck | None = None,
        sealer: Sealer,
        high_water: Callable[[], tuple[int, int]] = lambda: (0, 0),
        fences: GpuFences | None = None,
    ) -> None:
        """`high_water` is the last number of the journal, and that of the jobs."""
        self._high_water = high_water
        self._marked = (0, 0)
        self._state = state
        self._writer = writer
        self._store = store
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._receipts = receipts
        self._gpu_monitor = gpu_monitor
        self._sealer = sealer
        self._fences = fences
        self._to_launch: dict[AttemptKey, None] = {}  # a set that keeps its order
        self._to_stop: dict[AttemptKey, PreemptionNotice | None] = {}
        self._to_pause: dict[AttemptKey, bool] = {}  # False: to go on
        self._work = asyncio.Event()
        self._environments: dict[str, Mapping[str, str]] = {}
        self._run_as = run_as
        self._uids = UidsInUse()
        self.epoch = 0  # of this service, once it has taken the engine over
        self.trouble: str | None = None  # why the engine is out of reach
        self.strangers = Strangers(state, store)
        self._absences = Absences(settings.absent_seconds)
        # What the engine says of attempts that it has and that do not run, and where they are that
        # it has bound itself. Not recorded: it is asked again and again.
        self._standing: dict[JobId, Observation] = {}
        self._places: dict[JobId, tuple[AttemptKey, Place]] = {}

    async def open(self) -> None:
        """Learn as whom the jobs run that the books have running."""
        placed = [entry.job.job_id for entry in self._state.placed()]
        for first in range(0, len(placed), _LAUNCH_GROUP):
            some = tuple(placed[first : first + _LAUNCH_GROUP])
            for stored in await self._store.jobs(JobQuery(job_ids=some, limit=len(some))):
                self._hold_uid(stored)

    # -- from the writer ------------------------------------------------------------------------

    def follow(self, events: Sequence[Event]) -> None:
        """Note what recorded events ask of the engine. Called after they are applied."""
        for event in events:
            if not isinstance(event, JobMoved):
                continue
            if event.progress.state not in PLACED:
                self._uids.give(event.job_id)
                self._standing.pop(event.job_id, None)
                self._places.pop(event.job_id, None)
            entry = self._state.entry(event.job_id)
            if entry is None:
                continue
            key = attempt_key(entry.job, event.progress.attempt)
            if event.move is Move.START:
                if not entry.job.options.lease:
                    self._to_launch[key] = None
            elif event.move is Move.STOP:
                self._to_stop[key] = self._notice(entry)
            elif event.move in (Move.PAUSE, Move.RESUME):
                self._to_pause[key] = event.move is Move.PAUSE
        if self._to_launch or self._to_stop or self._to_pause:
            self._work.set()

    # -- towards the engine ----------------------------------------------------------------------

    async def carry_out(self) -> None:
        """Launch and stop, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._launch_and_stop()
                self.trouble = None
            except (EngineUnavailable, StoreUnavailable) as error:
                self.trouble = str(error)
                _log.warning("cannot carry out decisions; trying again", problem=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                self._work.set()

    async def _launch_and_stop(self) -> None:
        while self._to_launch:
            keys = list(self._to_launch)[:_LAUNCH_GROUP]
            await self._launch(keys)
            for key in keys:
                self._to_launch.pop(key, None)
        while self._to_pause:
            paused = next(iter(self._to_pause.values()))
            keys = [key for key, theirs in self._to_pause.items() if theirs is paused]
            await self._engine.pause(keys, paused=paused)
            for key in keys:
                if self._to_pause.get(key) is paused:  # else it was told otherwise meanwhile
                    self._to_pause.pop(key, None)
        while self._to_stop:
            notice = next(iter(self._to_stop.values()))
            keys = [key for key, theirs in self._to_stop.items() if theirs == notice]
            await self._engine.stop(keys, notice, epoch=self.epoch)
            for key in keys:
                if self._to_stop.get(key) == notice:  # else it was cancelled meanwhile
                    self._to_stop.pop(key, None)

    def _notice(self, entry: Entry | None) -> PreemptionNotice | None:
        """What a job gets before TERM: only one that is preempted and asked for another signal."""
        if entry is None or entry.progress.gives_way_to is None:
            return None
        number = entry.job.options.checkpoint_signal
        if number is None or number == signal.SIGTERM:
            return None
        return PreemptionNotice(number, self._settings.checkpoint_ms)

    async def _launch(self, keys: list[AttemptKey]) -> None:
        wanted = {JobId(key.job_id): key for key in keys}
        query = JobQuery(job_ids=tuple(wanted), limit=len(wanted))
        launches = []
        refused = []
        for stored in await self._store.jobs(query):
            progress = stored.progress
            if wanted[stored.job.job_id] != attempt_key(stored.job, progress.attempt):
                continue
            if progress.state is JobState.SCHEDULED and not progress.stopping:
                account = await self._account(stored.detail.uid)
                try:
                    launch = await self._launch_of(stored, account)
                except CannotUnseal as error:
                    key = attempt_key(stored.job, progress.attempt)
                    refused.append(self._not_started(key, _unreadable(error)))
                    continue
                except CannotFence as error:
                    key = attempt_key(stored.job, progress.attempt)
                    refused.append(self._not_started(key, str(error)))
                    continue
                problem = self._refusal(stored, account)
                if problem is not None:
                    refused.append(self._not_started(launch.key, problem))
                    continue
                self._hold_uid(stored)
                launches.append(launch)
        if launches:
            await self._hand_over(launches)
        if refused:
            await self.record(refused)

    async def _hand_over(self, launches: list[Launch]) -> None:
        """Only as the one who writes the database, and never ahead of what is on record there."""
        await self._store.ping()
        mark = self._high_water()
        if mark != self._marked:
            await self._engine.mark(*mark)
            self._marked = mark
        await self._engine.launch(launches, epoch=self.epoch)

    async def _account(self, uid: int | None) -> Account | None:
        """In a thread: the list of users may be on another machine."""
        return None if uid is None else await asyncio.to_thread(self._run_as.accounts.by_uid, uid)

    def _hold_uid(self, stored: StoredJob) -> None:
        is_own = is_themselves(stored.detail)
        self._uids.take(stored.job.job_id, stored.detail.uid, stored.job.tenant_id, is_own=is_own)

    def _refusal(self, stored: StoredJob, account: Account | None) -> str | None:
        """Again: since it was queued, users and tenants may have changed."""
        return self._run_as.refusal(stored.job.tenant_id, stored.detail, account, self._uids)

    async def _launch_of(self, stored: StoredJob, account: Account | None) -> Launch:
        fences = self._fences
        launch = launch_of(
            stored.job,
            self._sealer.unsealed(stored.detail),
            stored.progress,
            await self._environment(stored.detail.env_id),
            grace_ms=self._settings.grace_ms,
            home=self._settings.home,
            account=account,
            nodes=self._nodes_of(stored),
            limits=self._settings.limits,
            multiplexer=self._settings.multiplexer,
            script_folders=self._settings.script_folders,
            log_limit_mib=self._settings.log_limit_mib,
            binding=self._engine.capabilities.binding,
        )
        if fences is None or not self._engine.capabilities.local_processes:
            return launch
        fence = await fences.of(stored.progress)
        return launch if fence is None else replace(launch, fence=fence)

    def _on_our_time(self, batch: Sequence[Observation]) -> Sequence[Observation]:
        """The engine's clock was never set, ours was wherever the wall clock was: what it saw is
        as long ago here as it is there."""
        by = 0 if self._clock.manual else self._clock.now() - self._engine.now()
        if abs(by) <= _SAME_MS:
            return batch
        return [
            replace(
                seen,
                at=seen.at + by,
                started_at=None if seen.started_at is None else seen.started_at + by,
            )
            for seen in batch
        ]

    def _not_started(self, key: AttemptKey, cause: str) -> Observation:
        return Observation(key, Phase.NOT_STARTED, self._seen_now(), cause=cause, retry=False)

    def _seen_now(self) -> int:
        """For observations of our own, as if the engine had made them."""
        return self._clock.now() if self._clock.manual else self._engine.now()

    def _nodes_of(self, stored: StoredJob) -> list[Node]:
        placement, known = stored.progress.placement, self._state.ledger.nodes
        parts = () if placement is None else placement.parts()
        named = dict.fromkeys(part.node_id for part in parts)
        return [known[node_id].node for node_id in named if node_id in known]

    async def _environment(self, env_id: str | None) -> Mapping[str, str]:
        if env_id is None:
            return self._settings.default_environment
        cached = self._environments.get(env_id)
        if cached is None:
            found = inherited(self._sealer.opened(await self._store.environment(env_id)))
            if len(self._environments) >= 256:
                self._environments.clear()
            cached = self._environments[env_id] = found
        return cached

    # -- from the engine -------------------------------------------------------------------------

    async def observe(self) -> None:
        """Record what the engine reports, for ever."""
        async for batch in self._engine.changes():
            await self.record(batch)

    async def record(self, batch: Sequence[Observation]) -> None:
        """Put observations on record; tries until it can, for nothing of them may be lost."""
        batch, strange = await self._take_out(batch)
        await self._forget([seen.key for seen in strange if seen.is_over])
        if not batch:
            return
        if self._gpu_monitor is not None and any(s.phase in _RAN for s in batch):
            await self._gpu_monitor.before_ends()
        self._note_standing(batch)
        evidence = await self._engine.evidence(batch)
        evidence = await without_secrets(evidence, self._store, self._sealer)
        while True:
            try:
                await self._writer.do(
                    lambda state: self._decide(state, batch, evidence),
                    {seen.key.job_id for seen in batch},
                )
                break
            except StoreUnavailable as error:
                if self._writer.breaker.is_closed and not self._writer.is_stuck:  # else it is said
                    _log.error("cannot record what jobs did; trying again", problem=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
        await self._forget([seen.key for seen in batch if seen.is_over])

    async def _take_out(
        self, batch: Sequence[Observation]
    ) -> tuple[list[Observation], list[Observation]]:
        while True:
            try:
                return await self.strangers.take_out(batch)
            except StoreUnavailable as error:
                _log.error("cannot tell whose attempts these are", problem=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _forget(self, keys: list[AttemptKey]) -> None:
        if not keys:
            return
        # Out of reach, it will report them again, and they are on record.
        with contextlib.suppress(EngineUnavailable):
            await self._engine.forget(keys)

    def _decide(
        self,
        state: State,
        batch: Sequence[Observation],
        evidence: Mapping[AttemptKey, Evidence],
    ) -> Decision[None]:
        now = self._clock.now()
        events: list[Event] = []
        receipts: list[Receipt] = []
        done: set[str] = set()
        telling = [seen for seen in batch if seen.phase not in _STANDING]
        for seen in self._on_our_time(_newest(telling)):
            entry = state.entry(JobId(seen.key.job_id))
            if entry is None or entry.job.identity != seen.key.identity:
                continue
            if seen.key.job_id in done:
                continue
            hardware = self._gpu_monitor.cause_of(entry) if self._gpu_monitor is not None else None
            moves = conclude(entry, seen, now, hardware, evidence.get(seen.key, NO_EVIDENCE))
            events += moves
            if moves:
                done.add(seen.key.job_id)
            receipts += self._receipt(entry, moves)
        if self._gpu_monitor is not None:
            events += self._gpu_monitor.quarantine(state, events, now)
        return Decision(None, events, documents=self._receipts.documents(receipts))

    def _receipt(self, entry: Entry, moves: Sequence[JobMoved]) -> list[Receipt]:
        """Complete by now: what the preemption has cost in the end."""
        if not moves or moves[0].move is not Move.PREEMPT:
            return []
        before, after = entry.progress, moves[0].progress
        lost = after.lost_gpu_millis_ms - before.lost_gpu_millis_ms
        made = self._receipts.gone(entry.job.job_id, before.attempt, moves[0].at, lost)
        if made is None:
            return []
        self._receipts.keep([made])  # if this cannot be recorded now, it is tried until it is
        return [made]

    # -- both ways ---------------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Compare the books with the engine and mend every difference."""
        # Taken before the engine is asked: what starts meanwhile is not missing.
        believed = beliefs(self._state.placed())
        observed = {seen.key: seen for seen in await self._engine.observe()}
        # Nor is it an orphan, or a leftover: what the books have by now is somebody's.
        for key in beliefs(self._state.placed()):
            if key not in believed:
                observed.pop(key, None)
        _, strange = await self._take_out(
            [seen for key, seen in observed.items() if key not in believed]
        )
        for seen in strange:
            del observed[seen.key]
        await self._forget([seen.key for seen in strange if seen.is_over])
        self._note_standing(observed.values())
        buckets = classify(believed, observed, forgets=self._engine.capabilities.forgets)
        for key in buckets.to_launch:
            self._to_launch[key] = None
        for key in buckets.to_stop:
            self._to_stop[key] = self._notice(self._state.entry(JobId(key.job_id)))
        for key in buckets.orphans:
            self._to_stop[key] = None
        for entry in self._state.placed():
            self._say_pause_again(entry)
        await self._rule_out(buckets.missing)
        lost = [self._lost(key) for key in buckets.lost]
        if buckets.changed or lost:
            await self.record([*buckets.changed, *lost])
        await self._forget(buckets.leftovers)
        if buckets.orphans:
            _log.warning("ending attempts that no job asks for", attempts=buckets.orphans)
        if self._to_launch or self._to_stop or self._to_pause:
            self._work.set()

    async def _rule_out(self, missing: Sequence[AttemptKey]) -> None:
        """Have the engine say that what it does not know does not run. On record first: else its
        answer would be taken for that to a cancel."""
        absent = self._absences.absent(missing, asyncio.get_running_loop().time())
        if not absent:
            return
        _log.warning("the engine no longer knows attempts that should run", attempts=absent)
        about = {key.job_id for key in absent}
        with contextlib.suppress(StoreUnavailable):  # then at the next look
            await self._writer.do(lambda state: self._absent(state, absent), about)
            self._to_stop.update(dict.fromkeys(absent))

    def _absent(self, state: State, absent: Sequence[AttemptKey]) -> Decision[None]:
        now = self._clock.now()
        events: list[Event] = []
        for key in absent:
            entry = state.entry(JobId(key.job_id))
            if entry is None or current_key(entry) != key or entry.progress.stopping:
                continue
            if entry.progress.state is JobState.RUNNING and entry.progress.cause != ABSENT:
                noted = lifecycle.note(entry.job.job_id, entry.progress, ABSENT)
                events.append(JobMoved(now, entry.job.job_id, Move.NOTE, noted))
        return Decision(None, events)

    def standing_of(self, entry: Entry) -> Observation | None:
        """What the engine says of an attempt that it has taken and not started, or cannot reach."""
        seen = self._standing.get(entry.job.job_id)
        return seen if seen is not None and seen.key == current_key(entry) else None

    def place_of(self, entry: Entry) -> Place | None:
        """Where the engine has bound an attempt; None where it is where we placed it."""
        key, place = self._places.get(entry.job.job_id, (None, None))
        return place if key == current_key(entry) else None

    def _note_standing(self, seen: Iterable[Observation]) -> None:
        for each in seen:
            job_id = JobId(each.key.job_id)
            if each.place is not None and not each.is_over:
                self._places[job_id] = each.key, each.place
            if each.phase in _STANDING:
                self._standing[job_id] = each
            elif (known := self._standing.get(job_id)) is not None and known.key == each.key:
                del self._standing[job_id]

    def _say_pause_again(self, entry: Entry) -> None:
        """We may have been killed between the record and the engine; told twice changes nothing."""
        progress = entry.progress
        if progress.stopping or progress.state is not JobState.RUNNING:
            return
        if progress.paused_at is not None or progress.paused_ms:
            key = attempt_key(entry.job, progress.attempt)
            self._to_pause[key] = progress.paused_at is not None

    def _lost(self, key: AttemptKey) -> Observation:
        cause = "the engine does not know it"
        return Observation(key, Phase.LOST, self._seen_now(), cause=cause)


def _newest(batch: Sequence[Observation]) -> list[Observation]:
    """One observation for each attempt, the last: a start and its end may come together."""
    return list({seen.key: seen for seen in batch}.values())


def _unreadable(error: CannotUnseal) -> str:
    return f"its environment or command cannot be read, so it was not started: {error}"
