"""Budgets: GPU time per window, counted from when a job gets its GPUs.

A meter holds what was spent in the current day, week, month and in all, up to an instant, and how
many GPUs count from there on. It is advanced whenever that number changes, so a job that spans two
windows is split to the millisecond, and a budget may change its window at any time.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tgpu.core.model.ids import TenantId
from tgpu.core.model.reasons import Reason, ReasonCode, reason
from tgpu.core.model.tenant import Budget, OverBudget, Tenant, Window

DAY_MS: Final = 86_400_000
_MONDAY: Final = 4 * DAY_MS  # the epoch was a Thursday; the first Monday came four days later
WINDOWS: Final = (Window.DAY, Window.WEEK, Window.MONTH, Window.TOTAL)
NOTICE_PERCENT: Final = (80, 100)  # a tenant's people hear of it once a window at each


def window_start(window: Window, at: int) -> int:
    """When the window that `at` lies in began, UTC."""
    match window:
        case Window.DAY:
            return at - at % DAY_MS
        case Window.WEEK:
            return at - (at - _MONDAY) % (7 * DAY_MS)
        case Window.MONTH:
            return _first_of_month(at // DAY_MS) * DAY_MS
        case Window.TOTAL:
            return 0


def window_end(window: Window, at: int) -> int | None:
    """When the window that `at` lies in ends and the next begins; None: never."""
    match window:
        case Window.DAY:
            return window_start(window, at) + DAY_MS
        case Window.WEEK:
            return window_start(window, at) + 7 * DAY_MS
        case Window.MONTH:
            # No month is longer, and none is so short that this would skip one.
            return _first_of_month(_first_of_month(at // DAY_MS) + 31) * DAY_MS
        case Window.TOTAL:
            return None


class Spend(NamedTuple):
    """One tenant's meter: amounts of `WINDOWS`, in thousandths of a GPU times milliseconds.

    A tuple and not a dataclass because every start and every end of a job makes one.
    """

    at: int = 0  # counted up to here
    day: int = 0
    week: int = 0
    month: int = 0
    total: int = 0
    gpu_millis: int = 0  # that its jobs have had since
    # Before this instant no window turns: kept, so that counting on is one comparison.
    turns_at: int = 0

    def upto(self, now: int) -> "Spend":
        """The same meter at a later instant; a clock that was set back changes nothing."""
        return self if now <= self.at else self.changed(0, now)

    def changed(self, gpu_millis: int, now: int) -> "Spend":
        """From `now` on its jobs have this many more (or, negative, fewer) GPUs."""
        at, day, week, month, total, had, turns_at = self
        now = max(now, at)
        if now >= turns_at:
            return self._over_a_turn(now, had + gpu_millis)
        more = (now - at) * had
        return Spend(
            now, day + more, week + more, month + more, total + more, had + gpu_millis, turns_at
        )

    def stepped(self, now: int, by: int) -> "Spend":
        """At `now` the clock was set by so much: nothing is spent by that, but windows turn."""
        at, day, week, month, total, had, _ = self.upto(now)
        if by >= 0:
            turned = Spend(at, day, week, month, total)._over_a_turn(at + by, 0)
            return turned._replace(gpu_millis=had)
        # What was spent in a window that is to come again counts as spent in it.
        turns_at = window_start(Window.DAY, at + by) + DAY_MS
        return Spend(at + by, day, week, month, total, had, turns_at)

    def spent(self, window: Window) -> int:
        match window:
            case Window.DAY:
                return self.day
            case Window.WEEK:
                return self.week
            case Window.MONTH:
                return self.month
            case Window.TOTAL:
                return self.total

    def _over_a_turn(self, now: int, gpu_millis: int) -> "Spend":
        day, week, month, total = (self._spent_at(window, now) for window in WINDOWS)
        turns_at = window_start(Window.DAY, now) + DAY_MS
        return Spend(now, day, week, month, total, gpu_millis, turns_at)

    def _spent_at(self, window: Window, now: int) -> int:
        begins = window_start(window, now)
        before = self.spent(window) if begins <= self.at else 0
        return before + (now - max(self.at, begins)) * self.gpu_millis


NO_SPEND: Final = Spend()


def refusal(tenant: Tenant, spend: Spend, now: int) -> Reason | None:
    """Why a tenant whose budget is used up starts nothing; None lets it."""
    budget = tenant.budget
    if budget is None or budget.action is OverBudget.WARN:
        return None
    spent = spend.upto(now).spent(budget.window)
    if spent < budget.gpu_millis_ms:
        return None
    return reason(
        ReasonCode.BUDGET,
        tenant=tenant.tenant_id,
        window=str(budget.window),
        spent=spent,
        budget=budget.gpu_millis_ms,
        until=window_end(budget.window, now) or 0,
        action=str(budget.action),
    )


def percent_reached(budget: Budget, spend: Spend, now: int) -> int:
    """The highest of `NOTICE_PERCENT` that was spent in this window; 0: none."""
    spent = spend.upto(now).spent(budget.window)
    return max((p for p in NOTICE_PERCENT if spent * 100 >= budget.gpu_millis_ms * p), default=0)


def runs_out_at(budget: Budget, spend: Spend, now: int) -> int | None:
    """When the budget is used up if its jobs go on as they are; None: not in this window."""
    return _reaches_at(budget, spend, now, 100)


def next_change_at(budget: Budget, spend: Spend, now: int) -> int | None:
    """The next instant at which time alone changes what this budget allows, or who hears of it."""
    coming = [_reaches_at(budget, spend, now, percent) for percent in NOTICE_PERCENT]
    coming.append(window_end(budget.window, now))
    return min((at for at in coming if at is not None and at > now), default=None)


def _reaches_at(budget: Budget, spend: Spend, now: int, percent: int) -> int | None:
    current = spend.upto(now)
    left = -(-budget.gpu_millis_ms * percent // 100) - current.spent(budget.window)
    if left <= 0:
        return now
    if not current.gpu_millis:
        return None
    at = now - (-left // current.gpu_millis)
    ends_at = window_end(budget.window, now)
    return at if ends_at is None or at < ends_at else None


class Budgets:
    """The meters of all tenants, and which of them a budget keeps from starting jobs."""

    def __init__(self) -> None:
        self.spends: dict[TenantId, Spend] = {}
        self._tenants: dict[TenantId, Tenant] = {}  # those with a budget
        self._loaded: set[TenantId] = set()

    def set_tenant(self, tenant: Tenant) -> None:
        if tenant.budget is None:
            self._tenants.pop(tenant.tenant_id, None)
        else:
            self._tenants[tenant.tenant_id] = tenant

    def count(self, tenant_id: TenantId, gpu_millis: int, at: int) -> None:
        self.spends[tenant_id] = self.spend(tenant_id).changed(gpu_millis, at)

    def step(self, now: int, by: int) -> None:
        self.spends = {key: spend.stepped(now, by) for key, spend in self.spends.items()}

    def load(self, spends: Mapping[TenantId, Spend]) -> None:
        """Meters as they were recorded. Who has GPUs is known from the jobs: see `resume`."""
        self.spends.update({key: spend._replace(gpu_millis=0) for key, spend in spends.items()})
        self._loaded.update(spends)

    def resume(self, tenant_id: TenantId, gpu_millis: int, started_at: int) -> None:
        """A job had its GPUs before we were there: it counts from where its meter stood.

        That is exact: a meter is recorded whenever the number of GPUs changes. One that was never
        recorded begins with the job.
        """
        if tenant_id not in self._loaded:
            self.count(tenant_id, gpu_millis, started_at)
            return
        spend = self.spends[tenant_id]
        self.spends[tenant_id] = spend._replace(gpu_millis=spend.gpu_millis + gpu_millis)

    def spend(self, tenant_id: TenantId) -> Spend:
        return self.spends.get(tenant_id, NO_SPEND)

    def budgeted(self) -> list[Tenant]:
        """Tenants with a budget, by id."""
        return [tenant for _, tenant in sorted(self._tenants.items())]

    def refusals(self, now: int) -> dict[TenantId, Reason]:
        if not self._tenants:
            return {}
        found = ((t.tenant_id, refusal(t, self.spend(t.tenant_id), now)) for t in self.budgeted())
        return {tenant_id: refused for tenant_id, refused in found if refused is not None}

    def next_change_at(self, now: int) -> int | None:
        changes = [
            next_change_at(tenant.budget, self.spend(tenant.tenant_id), now)
            for tenant in self._tenants.values()
            if tenant.budget is not None
        ]
        return min((at for at in changes if at is not None), default=None)


# Calendars in integers: a manual clock may stand beyond the years that `datetime` knows.
_YEARS_400: Final = 146_097  # days
_MARCH_OF_YEAR_0: Final = 719_468  # days before the epoch


def _first_of_month(day: int) -> int:
    """The first day of the month of this day, both in days since the epoch.

    Years are counted from March, so that the leap day is the last of its year and months have a
    rhythm: five of them, from March or from August, are always 153 days.
    """
    of_cycle = (day + _MARCH_OF_YEAR_0) % _YEARS_400
    year = (of_cycle - of_cycle // 1460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year = of_cycle - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    return day - (of_year - (153 * month + 2) // 5)
