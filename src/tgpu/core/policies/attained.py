"""Least attained service: jobs with the least GPU time so far go first, and may preempt others.

How long jobs run is unknown, but most are short, and one that has run for long will mostly run on
for long. GPU time counts in doublings, so that two jobs change places only each time one has twice
what it had: no ping-pong. Inside a step, first come, first served. See docs/howto/preemptive.md.

- `las` is just that.
- `adaptive` also counts the cost of preemption. A job waits before others are preempted for it: as
  long as that costs them. And where the usual GPU belongs to a job that takes much of the cluster,
  GPU time is the wrong measure: preempting such a job leaves most of its GPUs idle. Then jobs run
  first come, first served, and only a newcomer that waited long gets a short trial; the jobs
  preempted for it come back before it goes on.

No job starves: one that has waited longer than `bound_ms` and as long as it ran goes first.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from tgpu.core.accounting.attained import doublings, least_ms
from tgpu.core.capacity.ledger import TenantUse
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.policies.slots import Rank, SortKey, Standing
from tgpu.core.state.cluster_state import Entry, State

_DAY_MS: Final = 86_400_000
_STEPS: Final = 1 << 8  # more than there are steps at one priority
_OVERDUE: Final = 0
_TRIAL: Final = 1
_ESTABLISHED: Final = 2
# The usual GPU's job takes at least one part in so many of the cluster: gangs are what matters.
_GANGS_FROM: Final = 4


@dataclass(frozen=True, slots=True)
class AttainedOrder:
    is_flat: ClassVar[bool] = True

    now: int
    bound_ms: int
    trial_ms: int | None = None  # None: by GPU time; else so long, then first come, first served
    patience: int = 0  # how many times the cost of it somebody waits

    def standing(self, use: TenantUse, user: str) -> Standing:
        return (0, 0)  # whoever has how much, the key alone decides

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        level = job_class.level
        ran = least_ms(level, job_class.request.gpu_millis) if level else 0
        step = self._step(doublings(level), ran, submitted_at)
        return (step - job_class.priority * _STEPS, submitted_at, job_id)

    def rank(self, entry: Entry) -> Rank:
        job, attained = entry.job, entry.attained(self.now)
        step = self._step(attained.doublings, attained.least_ms, job.submitted_at)
        is_in_turn = self.trial_ms is not None and step == _ESTABLISHED
        return (step - job.priority * _STEPS, job.submitted_at if is_in_turn else 0)

    def patience_ms(self, rank: Rank, costs_ms: int, victims: int) -> int:
        step = rank[0] % _STEPS
        if step == _OVERDUE:
            return 0  # whatever it costs: or nobody could say how long one waits at most
        if self.trial_ms is not None:
            if step == _ESTABLISHED:
                return 0  # it comes back to what it gave up
            costs_ms += self.trial_ms * victims
        return costs_ms * self.patience

    def _step(self, doubled: int, ran: int, submitted_at: int) -> int:
        """`ran` ms at least, which is one GPU second so often doubled."""
        if self.now - submitted_at > self.bound_ms + 2 * ran:
            return _OVERDUE
        if self.trial_ms is None:
            return 1 + doubled
        return _TRIAL if 2 * ran <= self.trial_ms else _ESTABLISHED


@dataclass(frozen=True, slots=True)
class LeastAttained:
    name: ClassVar[str] = "las"

    bound_ms: int = _DAY_MS

    def at(self, state: State, now: int) -> AttainedOrder:
        return AttainedOrder(now, self.bound_ms)


@dataclass(frozen=True, slots=True)
class Adaptive:
    name: ClassVar[str] = "adaptive"

    bound_ms: int = _DAY_MS
    trial_ms: int = 600_000
    patience: int = 2

    def at(self, state: State, now: int) -> AttainedOrder:
        trial_ms = self.trial_ms if _gangs_matter(state) else None
        return AttainedOrder(now, self.bound_ms, trial_ms, self.patience)


def _gangs_matter(state: State) -> bool:
    """By what waits and runs now: nothing has to be learnt first, and nothing forgotten."""
    millis, squares = state.held_millis, state.held_squares
    for queue in state.waiting.classes():
        each = queue.job_class.request.gpu_millis
        millis += each * len(queue.keys)
        squares += each * each * len(queue.keys)
    return squares * _GANGS_FROM >= state.ledger.gpu_millis() * millis > 0
