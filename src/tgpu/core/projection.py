"""The queue played forward: who starts when, if every job runs as long as one says it does.

Virtual time goes from end to end, with the cycle of the service at each. Nobody new arrives.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from tgpu.core import lifecycle
from tgpu.core.cycle import schedule
from tgpu.core.events import BookingRemoved, JobMoved, TimePassed
from tgpu.core.ids import JobId
from tgpu.core.job import Job, JobClass
from tgpu.core.lifecycle import JobState, Move
from tgpu.core.plan import Plan, Preemption, Reservation, Start
from tgpu.core.policy import (
    ChoicePolicy,
    OrderPolicy,
    Policy,
    goes_by_rounds,
    is_ranking,
)
from tgpu.core.predict import Confidence, weaker
from tgpu.core.rules import PLAIN, Rules
from tgpu.core.stages.hold import FAR
from tgpu.core.state import Entry, State


class Run(NamedTuple):
    """How long a job runs in all."""

    ms: int
    is_known: bool = True  # false: nothing is, and somebody guessed
    by: Confidence | None = None  # what that rests on


Runs = Callable[[Job, int], Run]  # of a job that has run for so long, in ms

# Cycles at one instant: each is made because jobs gave way in the one before.
_MOST_ROUNDS: Final = 32
# Of a queue longer than this nobody wants to know it to the second: there, ends that lie no further
# apart than one part in so many of the way are taken together, or many jobs would be many cycles.
_LONG: Final = 200
_NEARLY: Final = 64
# Where time alone makes running jobs give way, somebody looks this often.
_TICK_MS: Final = 60_000
# Beyond this nobody believes an instant: windows that come round for ever end there.
_HORIZON_MS: Final = 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class Deciding:
    """How the service decides: its order and its rules, and what it last promised and refused."""

    policy: Policy
    rules: Rules = PLAIN
    policies: Mapping[str, OrderPolicy] = field(default_factory=dict)
    promises: Sequence[Reservation] = ()
    closed: Collection[JobClass] = frozenset()

    def asking_nobody(self) -> "Deciding":
        """An order that only another package knows may count how often it is asked: the oldest
        take its place."""
        if not isinstance(self.policy, ChoicePolicy):
            return self
        oldest = ChoicePolicy(self.policy.name, lambda _, jobs: jobs[0] if jobs else None)
        return Deciding(oldest, self.rules, self.policies, self.promises, self.closed)


class _End(NamedTuple):
    at: int
    job_id: JobId
    attempt: int
    is_known: bool
    by: Confidence | None


class Projection:
    """One run into the future, step by step, on a state that is its own. `starts` grows, and with
    it `rests_on`: the least sure of all that ended before."""

    def __init__(self, state: State, now: int, deciding: Deciding, runs: Runs) -> None:
        """The state is changed: it should be a snapshot."""
        self.starts: dict[JobId, int] = {}
        self.rests_on: dict[JobId, Confidence | None] = {}
        self._least_sure: Confidence | None = None
        self.steps = 0
        self.guessed_from: int | None = None  # from here on, ends that somebody guessed count
        self._state = state
        self._began = self._now = now
        self._is_long = state.pending_count() > _LONG
        self._until = now + _HORIZON_MS
        self._deciding = deciding.asking_nobody()
        self.promises = tuple(deciding.promises)  # of the last cycle
        self._runs = runs
        self._ends: list[_End] = []
        for entry in state.placed():
            self._ends.append(self._end_of(entry, now))
        heapify(self._ends)
        self._ticks = _changes_with_time(self._deciding.policy, state, now)
        self._next: int | None = now

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more, or nothing more will happen."""
        return self._next is None

    @property
    def reached(self) -> int:
        """The instant up to which all starts are known."""
        return self._now

    def step(self) -> None:
        """On to the next instant at which something ends or is due."""
        due = self._next
        if due is None:
            return
        self.steps += 1
        until = due + (due - self._began) // _NEARLY if self._is_long else due
        now = self._now = self._end(due, until)
        self._state.apply(TimePassed(now))
        for _ in range(_MOST_ROUNDS):
            plan = self._decide(now)
            self._carry_out(plan, now)
            if not plan.preemptions:
                break
        self._next = self._next_instant() if self._state.pending_count() else None

    def _decide(self, now: int) -> Plan:
        deciding = self._deciding
        plan = schedule(
            self._state,
            now,
            deciding.policy,
            deciding.closed,
            rules=deciding.rules,
            policies=deciding.policies,
            promises=self.promises,
        )
        self.promises = plan.reservations
        return plan

    def _next_instant(self) -> int | None:
        found = self._ends[0].at if self._ends else None
        wakes_at = self._state.wakes_at()
        if wakes_at is not None and wakes_at > self._now:
            found = wakes_at if found is None else min(found, wakes_at)
        if self._ticks and found is not None:
            found = min(found, self._now - self._now % _TICK_MS + _TICK_MS)
        if found is None:
            kept = (one.at for one in self.promises if self._now < one.at < FAR)
            found = min(kept, default=None)
        return None if found is None or found > self._until else found

    def _end_of(self, entry: Entry, now: int) -> "_End":
        job, progress = entry.job, entry.progress
        began = now if progress.started_at is None else min(now, progress.started_at)
        stood = lifecycle.paused_ms(progress, now)
        ms, is_known, by = Run(0) if progress.stopping else self._runs(job, now - began - stood)
        if not progress.stopping:  # else it is woken to end
            # One that stands still goes on now at the earliest, and nobody knows when.
            ms, is_known = ms + stood, is_known and progress.paused_at is None
        limit = job.options.time_limit_ms
        if limit is not None and ms >= limit:
            ms, is_known = limit, is_known or progress.paused_at is not None
        # Nothing is over that is not: at the earliest in a moment.
        at = max(now + 1, began + ms)
        return _End(at, job.job_id, progress.attempt, is_known, by)

    def _end(self, now: int, until: int) -> int:
        """All that is over by then; the instant of the last of them."""
        while self._ends and self._ends[0].at <= until:
            end = heappop(self._ends)
            now = max(now, end.at)
            entry = self._state.entry(end.job_id)
            if entry is None or entry.progress.attempt != end.attempt:
                continue
            if not self._state.is_placed(end.job_id):
                continue  # it gave way meanwhile
            if not end.is_known and self.guessed_from is None:
                self.guessed_from = now
            self._least_sure = weaker(self._least_sure, end.by)
            self._finish(entry, JobState.COMPLETED, now)
        return now

    def _finish(self, entry: Entry, to: JobState, now: int) -> None:
        job_id = entry.job.job_id
        ended = lifecycle.end(job_id, entry.progress, to, now)
        move = Move.COMPLETE if to is JobState.COMPLETED else Move.CANCEL
        self._state.apply(JobMoved(now, job_id, move, ended))

    def _carry_out(self, plan: Plan, now: int) -> None:
        for job_id in plan.expired:
            if (entry := self._state.entry(job_id)) is not None:
                self._finish(entry, JobState.COMPLETED, now)
        for job_id, _ in plan.doomed:
            if (entry := self._state.entry(job_id)) is not None:
                self._finish(entry, JobState.CANCELLED, now)
        for preemption in plan.preemptions:
            self._preempt(preemption, now)
        for claim in plan.claims:
            entry = self._state.entry(claim.job_id)
            if entry is not None and entry.progress.claim != claim.placement:
                claimed = lifecycle.claim(claim.job_id, entry.progress, claim.placement)
                self._state.apply(JobMoved(now, claim.job_id, Move.CLAIM, claimed))
        for booking_id, cause in plan.released:
            self._state.apply(BookingRemoved(now, booking_id, cause))
        for start in plan.starts:
            self._start(start, now)

    def _start(self, start: Start, now: int) -> None:
        job_id = start.job_id
        entry = self._state.entry(job_id)
        assert entry is not None  # the plan is about this state
        placed = lifecycle.place(job_id, entry.progress, start.placement, now)
        self._state.apply(JobMoved(now, job_id, Move.START, placed))
        running = lifecycle.run(job_id, placed, now, None)
        self._state.apply(JobMoved(now, job_id, Move.RUN, running))
        self.starts.setdefault(job_id, now)
        self.rests_on.setdefault(job_id, self._least_sure)
        heappush(self._ends, self._end_of(entry, now))

    def _preempt(self, preemption: Preemption, now: int) -> None:
        """It is gone at once, and runs again from its beginning."""
        entry = self._state.entry(preemption.victim)
        if entry is None:
            return
        job = entry.job
        asked = lifecycle.give_way(job.job_id, entry.progress, preemption.to, "gives way")
        gone = lifecycle.preempt(job.job_id, asked, now, job.request.gpu_millis)
        again = lifecycle.requeue(job.job_id, gone, now, "gave way", counts=False)
        self._state.apply(JobMoved(now, job.job_id, Move.PREEMPT, gone))
        self._state.apply(JobMoved(now, job.job_id, Move.REQUEUE, again))


def _changes_with_time(policy: Policy, state: State, now: int) -> bool:
    if isinstance(policy, ChoicePolicy):
        return False
    order = policy.at(state, now)
    return is_ranking(order) or goes_by_rounds(order)


def project(state: State, now: int, deciding: Deciding, runs: Runs, most_steps: int) -> Projection:
    """At most so many steps of it."""
    projection = Projection(state, now, deciding, runs)
    while not projection.is_over and projection.steps < most_steps:
        projection.step()
    return projection
