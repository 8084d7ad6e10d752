"""Why a job waits: a closed set of codes, each with its numbers. Sentences are made at the edge."""

from dataclasses import dataclass
from enum import StrEnum


class ReasonCode(StrEnum):
    HELD = "held"  # a person put it on hold; by, where it is known who
    DEPENDENCY = "dependency"  # jobs: those it waits for
    DEPENDENCY_FAILED = "dependency_failed"  # cause
    BACKING_OFF = "backing_off"  # until, cause
    SERVICE_CAP = "service_cap"  # running, limit: of all jobs together
    ARRAY_CAP = "array_cap"  # running, limit
    TENANT_INACTIVE = "tenant_inactive"  # tenant
    QUEUE_DISABLED = "queue_disabled"  # queue, tenant
    QUEUE_CAP = "queue_cap"  # queue, tenant, running, limit
    TENANT_QUOTA = "tenant_quota"  # tenant, resource, requested, limit, current
    USER_LIMIT = "user_limit"  # tenant, user, resource, requested, limit, current
    USER_DAY = "user_day"  # tenant, user, spent, limit, until: GPU time of one user's day
    QUOTA_LENT = "quota_lent"  # tenant, cohort, requested, nominal, current, lent: others have it
    BORROW_LIMIT = "borrow_limit"  # tenant, cohort, requested, nominal, current, borrow
    COHORT_QUOTA = "cohort_quota"  # tenant, cohort, requested, nominal, current, pool, free
    BUDGET = "budget"  # tenant, window, spent, budget, until (0: never), action
    QUOTA_PROVIDER = "quota_provider"  # provider, tenant
    NO_SUCH_GPU = "no_such_gpu"  # gpu_type, types
    TOO_LARGE = "too_large"  # resource, requested, largest, by_type
    CONDITION = "condition"  # condition, field, value: no machine meets it
    NOT_ALONE = "not_alone"  # busy, node: it wants a machine to itself, and others are on them
    # Over all that it could use: requested, workers, gpu_type, total, free, empty, types, for each
    # type free:T and total:T, nodes, paused, pauses, hot, problem, foreign; node: where it comes
    # nearest to starting ("": a gang is on several), together: what is free there, of one type
    GPUS_BUSY = "gpus_busy"
    CPU_BUSY = "cpu_busy"  # requested, free, total, node
    MEMORY_BUSY = "memory_busy"  # requested, free, total, node
    BOOKED = "booked"  # booking, at, until, limit (ms it may run at most, 0: not at all), node
    BOOKING_AHEAD = "booking_ahead"  # booking, at: it runs in a booking that has not begun
    BEHIND_RESERVATION = "behind_reservation"  # job, at (0: nobody knows), limit (ms), requested
    PLACE_KEPT = "place_kept"  # job: others are preempted for it, and it gets these GPUs
    STRICT_LINE = "strict_line"  # job: none may start before it
    PROMISED = "promised"  # jobs: those being preempted for this one
    NOT_CHOSEN = "not_chosen"  # policy: an installed policy did not choose it
    NO_NODE = "no_node"  # no machine has reported its GPUs yet
    NEXT_CYCLE = "next_cycle"  # nothing blocks it; it starts with the next cycle


@dataclass(frozen=True, slots=True)
class Reason:
    """One code and the numbers that belong to it. Amounts of GPUs are in thousandths."""

    code: ReasonCode
    facts: tuple[tuple[str, int | str], ...] = ()

    def fact(self, name: str) -> int | str:
        return dict(self.facts)[name]


def reason(code: ReasonCode, **facts: int | str) -> Reason:
    return Reason(code, tuple(facts.items()))
