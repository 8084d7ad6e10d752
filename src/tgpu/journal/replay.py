"""Replays a past cycle: the state before it, what it decides, and what was recorded.

All rows of a cycle have the number of its decision; the state before the first of them is what the
cycle saw. Rows of older versions have none: `unnumbered` tells which of those belong together.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tgpu.core.model.events import BookingRemoved, ClockStepped, Event, JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.node import Placement
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.units import GPU
from tgpu.core.prediction.runtimes import Predictor
from tgpu.core.state.cluster_state import State
from tgpu.journal.lines import Journal, JournalLine
from tgpu.journal.rebuild import TELL_EVERY, Rebuilt, Tell
from tgpu.journal.unnumbered import RowGroup
from tgpu.store.api import Decider

# Whoever asks may have a clock that is ahead of the one of the journal.
_SKEW_MS: Final = 60_000


class _Taken(NamedTuple):
    row: JournalLine
    event: Event


Promises = Sequence[BackfillReservation]
# What a cycle on this state at this instant promises, given what the one before it did.
Promise = Callable[[Rebuilt, int, Promises], Promises]


@dataclass(slots=True)
class Step:
    """One row, or all rows of a recorded cycle. The state is that before the first of them."""

    at: int
    is_cycle: bool
    rows: list[_Taken] = field(default_factory=list)
    run: RowGroup | None = None  # of rows without a number

    @property
    def first_seq(self) -> int:
        return self.rows[0].row.seq

    @property
    def last_seq(self) -> int:
        return self.rows[-1].row.seq

    @property
    def comes_at(self) -> int:
        """On the clock as it was until then."""
        first = self.rows[0].event
        return self.at - first.by if isinstance(first, ClockStepped) else self.at

    def events(self) -> list[Event]:
        return [taken.event for taken in self.rows]

    def moves(self, *wanted: Move) -> list[JobMoved]:
        return [
            event for event in self.events() if isinstance(event, JobMoved) and event.move in wanted
        ]


class JournalWalk:
    """Goes through a journal cycle by cycle: `rebuilt` is the state before the step it gives."""

    def __init__(
        self,
        journal: Journal,
        predictor: Predictor | None = None,
        tell: Tell | None = None,
        promise: Promise | None = None,
    ) -> None:
        self.rebuilt = Rebuilt(journal, predictor)
        self.journal = journal
        self.promises: Promises = ()
        self.began_at: int | None = None  # from here on it is known how things stood
        self._tell = tell
        self._promise = promise
        self._at: int | None = None  # of the last step, where no cycle followed it yet
        self._looked_at: int | None = None  # of the last step

    def steps(self) -> Iterator[Step]:
        """Each before it is applied; it is when the next is asked for."""
        step: Step | None = None
        for row in self._told(self.journal.rows()):
            if not row.seq:
                self.rebuilt.take(row)
                continue
            event = self.journal.event(row)
            if step is not None and self._belongs(row, event, step):
                step.rows.append(_Taken(row, event))
                continue
            if step is not None:
                yield from self._over(step)
            step = self._begun(row, event)
        if step is not None:
            yield from self._over(step)

    def _begun(self, row: JournalLine, event: Event) -> Step:
        rows = [_Taken(row, event)]
        if row.decision is not None:
            return Step(event.at, row.decision.by is Decider.CYCLE, rows)
        run = RowGroup(event, self.rebuilt.state)
        return Step(event.at, run.is_cycle, rows, run)

    def _belongs(self, row: JournalLine, event: Event, step: Step) -> bool:
        """To the cycle whose rows came before it."""
        if row.decision is not None:
            return step.is_cycle and row.decision == step.rows[-1].row.decision
        if step.run is None or not step.run.takes(event, self.rebuilt.state):
            return False
        step.is_cycle = step.run.is_cycle
        return True

    def _over(self, step: Step) -> Iterator[Step]:
        """What no cycle wrote down was followed by one all the same, before time went on."""
        if self._at is not None and step.comes_at > self._at:
            self._keep_promises(self._at)
        if self._looked_at is not None and step.comes_at > self._looked_at:
            self._look(step.comes_at)
        yield step
        if step.is_cycle:
            self._keep_promises(step.at)
        for row, event in step.rows:
            self.rebuilt.take(row, event)
        if step.comes_at != step.at:  # a step of the clock: all that was before goes along with it
            self._at = self._looked_at = step.at
            return
        self._at = None if step.is_cycle else max(step.at, self._at or 0)
        self._looked_at = max(step.at, self._looked_at or 0)

    def _look(self, now: int) -> None:
        """Time passed with every cycle, also those in which nothing was decided."""
        assert self._looked_at is not None
        self.rebuilt.pass_time(self._looked_at)
        every = self.rebuilt.cycles_every_ms()
        if every is not None and now - every > self._looked_at:
            self.rebuilt.pass_time(now - every)

    def _keep_promises(self, at: int) -> None:
        if self._promise is not None:
            self.promises = self._promise(self.rebuilt, at, self.promises)

    def _told(self, rows: Iterable[JournalLine]) -> Iterator[JournalLine]:
        for count, row in enumerate(rows, 1):
            yield row
            if self._tell is not None and not count % TELL_EVERY:
                self._tell(TELL_EVERY)


# -- where to stop -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A moment: behind an event, at an instant (ms), or when a job started first."""

    seq: int | None = None
    at: int | None = None
    start_of: JobId | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The state there, and the cycle that was recorded there if there was one."""

    rebuilt: Rebuilt
    seq: int  # the last event before it
    at: int
    cycle: Step | None
    promises: Promises  # of the cycle before


def find(walk: JournalWalk, target: ReplayTarget) -> Moment | None:
    """None where the journal has no such moment."""
    for step in walk.steps():
        if walk.rebuilt.seq == walk.journal.header.after and _is_before(walk, target, step):
            return None
        if step.is_cycle and _is_it(target, step):
            return _moment(walk, step.at, step)
        is_past_seq = target.seq is not None and step.first_seq > target.seq
        if is_past_seq or (target.at is not None and step.at > target.at):
            return _moment(walk, target.at or walk.rebuilt.at, None)
    if target.at is not None and walk.rebuilt.seq:
        return None if _is_behind(walk, target.at) else _moment(walk, target.at, None)
    if target.seq is not None and target.seq == walk.rebuilt.seq:
        return _moment(walk, walk.rebuilt.at, None)
    return None


def _is_before(walk: JournalWalk, target: ReplayTarget, first: Step) -> bool:
    """Whether the journal begins later; `first` is its first step."""
    after = walk.journal.header.after
    walk.began_at = walk.rebuilt.at if after else first.at
    if target.seq is not None:
        return target.seq <= after
    return target.at is not None and target.at < walk.began_at


def _is_behind(walk: JournalWalk, at: int) -> bool:
    """Whether nobody can know what happened by then; an old journal does not say when it ends."""
    exported_at = walk.journal.header.exported_at
    return bool(exported_at) and at > max(walk.rebuilt.at, exported_at) + _SKEW_MS


def _is_it(target: ReplayTarget, step: Step) -> bool:
    if target.seq is not None:
        return step.first_seq <= target.seq <= step.last_seq
    if target.at is not None:
        return step.at == target.at
    return any(event.job_id == target.start_of for event in step.moves(Move.START))


def _moment(walk: JournalWalk, at: int, cycle: Step | None) -> Moment:
    walk.rebuilt.pass_time(at)
    return Moment(walk.rebuilt, walk.rebuilt.seq, at, cycle, walk.promises)


# -- what was decided ----------------------------------------------------------------------------

Decisions = dict[str, dict[str, str]]  # by what, and to whom: in words that can be compared


def recorded(step: Step, state: State) -> Decisions:
    """What the rows of a cycle say. The state is that before them."""
    found: Decisions = {name: {} for name in _NAMES}
    for event in step.events():
        if isinstance(event, BookingRemoved):
            found["released"][event.booking_id] = event.cause
        elif isinstance(event, JobMoved):
            _note(found, event, state)
    return found


def _note(found: Decisions, event: JobMoved, state: State) -> None:
    job_id, progress = event.job_id, event.progress
    match event.move:
        case Move.START:
            found["starts"][job_id] = place_text(progress.placement)
        case Move.NOMINATE:
            found["claims"][job_id] = place_text(progress.claim)
        case Move.STOP if progress.gives_way_to is not None:  # else its budget is used up
            found["preemptions"][job_id] = str(progress.gives_way_to)
        case Move.PREEMPT:  # a lease, which is gone at once
            found["preemptions"][job_id] = ""
        case Move.COMPLETE:
            found["expired"][job_id] = ""
        case Move.CANCEL if _waits(state, job_id):  # else it is a lease without a budget
            found["given_up"][job_id] = state.unsatisfiable_cause(job_id) or ""


def _waits(state: State, job_id: JobId) -> bool:
    entry = state.entry(job_id)
    return entry is not None and entry.progress.state is JobState.PENDING


def decided(plan: Plan, state: State) -> Decisions:
    """What a plan says, in the same words."""

    def is_new(job_id: JobId, placement: Placement) -> bool:
        entry = state.entry(job_id)
        return entry is None or entry.progress.claim != placement

    def is_lease(job_id: JobId) -> bool:
        entry = state.entry(job_id)
        return entry is not None and entry.job.options.lease

    return {
        "starts": {one.job_id: place_text(one.placement) for one in plan.starts},
        "preemptions": {
            one.victim: "" if is_lease(one.victim) else str(one.to)
            for one in plan.preemptions
            if not _is_stopping(state, one.victim)
        },
        "claims": {
            one.job_id: place_text(one.placement)
            for one in plan.nominations
            if is_new(one.job_id, one.placement)
        },
        "expired": dict.fromkeys(plan.expired, ""),
        "given_up": dict(plan.unsatisfiable),
        "released": dict(plan.released),
    }


_NAMES: Final = ("starts", "preemptions", "claims", "expired", "given_up", "released")


def _is_stopping(state: State, job_id: JobId) -> bool:
    entry = state.entry(job_id)
    return entry is not None and entry.progress.stopping


def place_text(placement: Placement | None) -> str:
    """Where a job is, in words: `n1:0,1 n2:0(500)`."""
    if placement is None:
        return ""
    return " ".join(
        f"{part.node_id}:"
        + ",".join(
            f"{share.gpu_index}" if share.millis == GPU else f"{share.gpu_index}({share.millis})"
            for share in part.shares
        )
        for part in placement.parts()
    )


class Difference(NamedTuple):
    """Something that the record and the cycle as it is made now do not agree on."""

    what: str  # "starts", "preemptions", …
    job_id: str
    recorded: str | None  # None: nothing
    decided: str | None


def differences(on_record: Decisions, now: Decisions) -> list[Difference]:
    found = []
    for name in _NAMES:
        for job_id in sorted({*on_record[name], *now[name]}):
            was, now_is = on_record[name].get(job_id), now[name].get(job_id)
            if was != now_is:
                found.append(Difference(name, job_id, was, now_is))
    return found
