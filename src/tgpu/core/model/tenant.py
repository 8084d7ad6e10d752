"""Tenants and their limits. A limit that is not set does not apply."""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tgpu.core.model.ids import TenantId


class Tier(StrEnum):
    """How important a tenant's jobs are unless they say otherwise."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


# The lower end of each band of priorities, see docs/glossary.md.
TIER_PRIORITY: Final = MappingProxyType(
    {Tier.LOW: 100, Tier.NORMAL: 500, Tier.HIGH: 1000, Tier.URGENT: 2000}
)


class Window(StrEnum):
    """What a budget is for. Windows begin at midnight UTC; weeks on Mondays."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    TOTAL = "total"  # one that never ends


class OverBudget(StrEnum):
    WARN = "warn"  # say so
    HOLD = "hold"  # and start no more of its jobs until the next window
    STOP = "stop"  # and end those that run


class MembersSee(StrEnum):
    """What members of a tenant see of each other's jobs."""

    NOTHING = "nothing"  # as if they were another tenant's
    JOBS = "jobs"
    LOGS = "logs"  # the jobs, and what they print


@dataclass(frozen=True, slots=True)
class Budget:
    """GPU time a tenant may use in each window; money is turned into GPU time at the edge."""

    gpu_millis_ms: int
    window: Window = Window.MONTH
    action: OverBudget = OverBudget.WARN


@dataclass(frozen=True, slots=True)
class UserLimits:
    """What one user of a tenant may have of it. None does not limit."""

    max_gpu_millis: int | None = None  # at once
    max_running_jobs: int | None = None
    max_gpu_millis_ms_a_day: int | None = None  # days begin at midnight UTC

    @property
    def is_set(self) -> bool:
        return self != NO_USER_LIMITS


NO_USER_LIMITS: Final = UserLimits()


@dataclass(frozen=True, slots=True)
class Tenant:
    tenant_id: TenantId
    max_gpu_millis: int | None = None
    max_gpu_millis_by_type: tuple[tuple[str, int], ...] = ()
    max_gpu_mem_mib: int | None = None
    max_cpu_millis: int | None = None
    max_mem_mib: int | None = None
    max_running_jobs: int | None = None
    name: str = ""
    tier: Tier = Tier.NORMAL
    weight_millis: int = 1000  # of the fair share, in thousandths
    allow_preemption: bool = True  # whether its jobs may be preempted
    active: bool = True  # an inactive tenant submits and starts nothing
    enforce_quota: bool = True  # off: the limits are shown, and do not limit
    created_at: int = 0
    # Tenants of one cohort lend each other what they do not use of `max_gpu_millis`.
    cohort: str = ""
    borrow_millis: int | None = None  # beyond its own, at most this much; None: all there is
    lend_millis: int | None = None  # at most this much of its own; None: all of it
    budget: Budget | None = None
    # Of the jobs of its users; None: the service's. Operators and admins of all tenants give more.
    max_priority: int | None = None
    run_as: str = ""  # the local user its jobs run as; empty: what the service's settings say
    members_see: MembersSee = MembersSee.JOBS  # of each other's jobs
    user_limits: UserLimits = NO_USER_LIMITS  # of each of its users …
    # … but for these, by name: theirs take the place of all of those.
    limits_by_user: tuple[tuple[str, UserLimits], ...] = ()

    @property
    def usual_priority(self) -> int:
        """Of its jobs that name none."""
        usual = TIER_PRIORITY[self.tier]
        return usual if self.max_priority is None else min(usual, self.max_priority)

    @property
    def is_limited(self) -> bool:
        """Whether any limit stands in the way of what it may have at once."""
        limits = (
            self.max_gpu_millis,
            self.max_gpu_mem_mib,
            self.max_cpu_millis,
            self.max_mem_mib,
            self.max_running_jobs,
        )
        is_set = bool(self.max_gpu_millis_by_type) or any(limit is not None for limit in limits)
        return self.enforce_quota and is_set

    @property
    def limits_users(self) -> bool:
        """Whether any limit stands in the way of what one of its users may have."""
        is_set = self.user_limits.is_set or any(each.is_set for _, each in self.limits_by_user)
        return self.enforce_quota and is_set

    @property
    def limits_users_days(self) -> bool:
        """Whether it must be known what its users had today."""
        limits = (self.user_limits, *(each for _, each in self.limits_by_user))
        return any(each.max_gpu_millis_ms_a_day is not None for each in limits)

    def limits_of(self, user: str) -> UserLimits:
        """Nobody, the user of jobs that name none, is no user."""
        if not user:
            return NO_USER_LIMITS
        for name, limits in self.limits_by_user:
            if name == user:
                return limits
        return self.user_limits

    @property
    def shares_quota(self) -> bool:
        """Whether it lends and borrows at all: nothing limits a member without a quota."""
        return bool(self.cohort) and self.max_gpu_millis is not None and self.enforce_quota

    @property
    def guaranteed_millis(self) -> int:
        """The part of its quota that is never lent."""
        lend = self.lend_millis
        return 0 if lend is None else max(0, (self.max_gpu_millis or 0) - lend)

    def max_of_type(self, gpu_type: str) -> int | None:
        for name, millis in self.max_gpu_millis_by_type:
            if name == gpu_type:
                return millis
        return None


@dataclass(frozen=True, slots=True)
class TenantQueue:
    """A queue of a tenant. Every tenant has one named `default`, whether it was made or not."""

    tenant_id: TenantId
    name: str
    priority: int = 0  # jobs of a higher queue come first, whatever their own priority
    max_running_jobs: int | None = None
    enabled: bool = True  # a disabled queue takes jobs and starts none
    created_at: int = 0
    policy: str = ""  # its own order of its jobs; empty: the service's
    wait_target_ms: int | None = None  # its jobs should start within this
    idle_action: str = "warn"  # for jobs whose GPUs do nothing: warn, hold or end
