"""Projection: simulates the queue with given run times to find when each job starts.

Virtual time goes from end to end, with the cycle of the service at each. Nobody new arrives.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

from tgpu.core.model import lifecycle
from tgpu.core.model.events import Event, JobMoved, TimePassed
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.plan import Plan
from tgpu.core.model.rules import BackfillMode
from tgpu.core.plan_events import (
    VIRTUAL,
    frees_something,
    job_ended,
    may_find_more,
    plan_events,
    stop_finished,
)
from tgpu.core.policies.slots import (
    ChoicePolicy,
    Policy,
    is_ranking,
)
from tgpu.core.prediction.runtimes import Confidence, weaker
from tgpu.core.reservations.reserved_capacity import FAR
from tgpu.core.scheduling_config import CycleContext
from tgpu.core.state.cluster_state import Entry, State


class RunLength(NamedTuple):
    """How long a job runs in all."""

    ms: int
    is_known: bool = True  # false: nothing is, and somebody guessed
    by: Confidence | None = None  # what that rests on


Runs = Callable[[Job, int], RunLength]  # of a job that has run for so long, in ms

# Cycles at one instant: each is made because jobs were preempted in the one before.
_MOST_ROUNDS: Final = 32
# Of a queue longer than this nobody wants to know it to the second: there, ends that lie no further
# apart than one part in so many of the way are taken together, or many jobs would be many cycles.
# For 300 jobs on 32 GPUs that is half of the cycles, and starts are off by 2 to 15 % of the wait in
# the middle: who is a little late may find its place taken. Run times are known far less well.
_LONG: Final = 200
_NEARLY: Final = 64
# Where jobs are preempted because time passes, a cycle is made this often.
_TICK_MS: Final = 60_000
# Beyond this nobody believes an instant: windows that come round for ever end there.
_HORIZON_MS: Final = 366 * 86_400_000


class _End(NamedTuple):
    at: int
    job_id: JobId
    attempt: int
    to: JobState | None  # None: a lease that lasts as long as it may, which the cycle ends
    is_known: bool
    by: Confidence | None


class Projection:
    """One run into the future, step by step, on a state that is its own. `starts` grows, and with
    it `rests_on`: the least sure of all that ended before."""

    def __init__(self, state: State, now: int, context: CycleContext, runs: Runs) -> None:
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
        self._config = context.config.asking_nobody()
        self._refused_classes = context.refused_classes
        self.promises = tuple(context.promises)  # of the last cycle
        self._gave_up_holds = False  # it did, of what the one before kept
        self._runs = runs
        self._ends: list[_End] = []
        preemption = self._config.rules.preemption
        self._min_run_ms = 0 if preemption is None else preemption.min_run_ms
        self._may_be_preempted: deque[int] = deque()  # a running job may, from these on
        for entry in state.placed():
            heappush(self._ends, self._end_of(entry, now))
            if self._min_run_ms and entry.progress.started_at is not None:
                self._may_be_preempted.append(entry.progress.started_at + self._min_run_ms)
        self._ticks = _changes_with_time(self._config.policy, state, now)
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
            self._apply(plan_events(self._state, plan, now, VIRTUAL))
            if not self._leads_further(plan):
                break
        self._next = self._next_instant() if self._state.pending_count() else None

    def _decide(self, now: int) -> Plan:
        plan = self._config.decide(self._state, now, self.promises, self._refused_classes)
        self._gave_up_holds = not set(self.promises) <= set(plan.reservations)
        self.promises = plan.reservations
        return plan

    def _leads_further(self, plan: Plan) -> bool:
        """Whether another cycle at this instant may decide something. After starts alone it can
        only preempt who has just started, or tell who came before them an earlier instant where
        something was kept for them: a long queue is spared the rest, 4 cycles in 10."""
        if not self._is_long:
            return may_find_more(plan, self._config.rules)
        preempts_at_once = self._config.rules.preemption is not None and not self._min_run_ms
        keeps_word = self._config.rules.backfill is BackfillMode.CONSERVATIVE
        may_change = preempts_at_once or (keeps_word and self._gave_up_holds)
        return frees_something(plan) or (may_change and bool(plan.starts))

    def _next_instant(self) -> int | None:
        found = self._ends[0].at if self._ends else None
        wakes_at = self._state.wakes_at()
        if wakes_at is not None and wakes_at > self._now:
            found = wakes_at if found is None else min(found, wakes_at)
        while self._may_be_preempted and self._may_be_preempted[0] <= self._now:
            self._may_be_preempted.popleft()
        if self._may_be_preempted:
            found = (
                self._may_be_preempted[0]
                if found is None
                else min(found, self._may_be_preempted[0])
            )
        if self._ticks and found is not None:
            found = min(found, self._now - self._now % _TICK_MS + _TICK_MS)
        kept = min((at for at in self._hold_instants() if self._now < at < FAR), default=None)
        for other in (kept, self._overdue_at()):
            if other is not None:
                found = other if found is None else min(found, other)
        return None if found is None or found > self._until else found

    def _hold_instants(self) -> Iterator[int]:
        """When what is kept for reservations begins and ends: it may be all that is in somebody's
        way."""
        for promise in self.promises:
            yield promise.at
            entry = self._state.entry(promise.job_id)
            limit = None if entry is None else entry.job.options.time_limit_ms
            if limit is not None:
                yield promise.at + limit

    def _overdue_at(self) -> int | None:
        """When the next of those who have no reservation has waited for so long that it gets one.
        Somebody else may lose theirs by that, and which GPUs it is told depends on the instant.
        """
        rules = self._config.rules
        if rules.hold_after_ms is None or rules.backfill is BackfillMode.STRICT:
            return None
        promised = {promise.job_id for promise in self.promises}
        nominated = {entry.job.job_id for entry in self._state.nominated()}  # served before all
        first: int | None = None
        for queue in self._state.waiting.classes():
            head = next((key for key in queue.keys if key[1] not in nominated), None)
            if head is None or head[1] in promised:
                continue
            overdue_at = head[0] + rules.hold_after_ms
            if overdue_at > self._now and (first is None or overdue_at < first):
                first = overdue_at
        if first is None:
            return None
        nearly = (self._now - self._began) // _NEARLY if self._is_long else 0
        return max(first, self._now + nearly)

    def _end_of(self, entry: Entry, now: int) -> "_End":
        job, progress = entry.job, entry.progress
        began = now if progress.started_at is None else min(now, progress.started_at)
        stood = lifecycle.paused_ms(progress, now)
        ms, is_known, by = (
            RunLength(0) if progress.stopping else self._runs(job, now - began - stood)
        )
        if not progress.stopping:  # else it is woken to end
            # One that stands still goes on now at the earliest, and nobody knows when.
            ms, is_known = ms + stood, is_known and progress.paused_at is None
        limit = job.options.time_limit_ms
        to: JobState | None = JobState.COMPLETED
        if limit is not None and ms >= limit:
            if job.options.lease:
                to = None
            elif ms > limit:
                to = JobState.FAILED
            ms, is_known = limit, is_known or progress.paused_at is not None
        # Nothing is over that is not: at the earliest in a moment.
        at = max(now + 1, began + ms)
        return _End(at, job.job_id, progress.attempt, to, is_known, by)

    def _end(self, now: int, until: int) -> int:
        """All that is over by then; the instant of the last of them."""
        while self._ends and self._ends[0].at <= until:
            end = heappop(self._ends)
            now = max(now, end.at)
            entry = self._state.entry(end.job_id)
            if entry is None or entry.progress.attempt != end.attempt:
                continue
            if not self._state.is_placed(end.job_id):
                continue  # it was preempted meanwhile
            if not end.is_known and self.guessed_from is None:
                self.guessed_from = now
            self._least_sure = weaker(self._least_sure, end.by)
            if entry.progress.stopping:
                self._apply(stop_finished(entry, now))
            elif end.to is not None:
                self._apply([job_ended(entry, end.to, now)])
        return now

    def _apply(self, events: Iterable[Event]) -> None:
        for event in events:
            self._state.apply(event)
            if isinstance(event, JobMoved) and event.move is Move.RUN:
                self._note_start(event.job_id, event.at)

    def _note_start(self, job_id: JobId, now: int) -> None:
        self.starts.setdefault(job_id, now)
        self.rests_on.setdefault(job_id, self._least_sure)
        entry = self._state.entry(job_id)
        assert entry is not None  # it was placed just now
        heappush(self._ends, self._end_of(entry, now))
        if self._min_run_ms:
            self._may_be_preempted.append(now + self._min_run_ms)


def _changes_with_time(policy: Policy, state: State, now: int) -> bool:
    if isinstance(policy, ChoicePolicy):
        return False
    return is_ranking(policy.at(state, now))


def project(
    state: State, now: int, context: CycleContext, runs: Runs, most_steps: int
) -> Projection:
    """At most so many steps of it."""
    projection = Projection(state, now, context, runs)
    while not projection.is_over and projection.steps < most_steps:
        projection.step()
    return projection
