"""Budget enforcement: recorded meters, notices once per window, ending jobs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from tgpu.core.accounting.budget import NO_SPEND, Spend, percent_reached, window_start
from tgpu.core.accounting.user_days import TenantUser
from tgpu.core.model import lifecycle
from tgpu.core.model.events import Event, JobMoved, TenantSet
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.lifecycle import JobState, Move, Progress
from tgpu.core.model.tenant import OverBudget, Tenant
from tgpu.core.model.units import GPU_HOUR
from tgpu.core.state.cluster_state import Entry, State, held_change

SPEND: Final = "spend"  # documents: a tenant's meter when its GPUs last changed
USER_DAY: Final = "user_day"  # documents: the same of a user, where the tenant limits their days
NOTICE: Final = "budget_notice"  # documents: what was said of a tenant's budget last

_log = structlog.get_logger("gpu_scheduler.budget")

# -- meters --------------------------------------------------------------------------------------


def spend_documents(state: State, events: Sequence[Event]) -> dict[tuple[str, str], bytes]:
    """The meters that these events will change, to be recorded with them: no restart, wherever it
    comes, forgets GPU time or counts it twice."""
    latest: dict[JobId, Progress] = {}
    found: dict[TenantId, Spend] = {}
    days: dict[TenantUser, Spend] = {}
    for event in events:
        if isinstance(event, TenantSet):
            days |= _begun(state, event)
        if not isinstance(event, JobMoved):
            continue
        entry = state.entry(event.job_id)
        if entry is None:
            continue
        by = held_change(entry.job, latest.get(event.job_id, entry.progress), event.progress)
        latest[event.job_id] = event.progress
        if by:
            tenant_id = entry.job.tenant_id
            before = found.get(tenant_id) or state.budgets.spend(tenant_id)
            found[tenant_id] = before.changed(by, event.at)
            user = entry.job.options.user
            if state.user_days.meters(tenant_id, user):
                day = days.get((tenant_id, user)) or state.user_days.spend(tenant_id, user)
                days[tenant_id, user] = day.changed(by, event.at)
    return {
        **{(SPEND, tenant_id): msgspec.json.encode(spend) for tenant_id, spend in found.items()},
        **user_documents(days),
    }


def _begun(state: State, event: TenantSet) -> dict[TenantUser, Spend]:
    """The meters that a limit begins, of users who have GPUs already: a restart counts the same."""
    tenant = event.tenant
    use = state.ledger.tenants.get(tenant.tenant_id)
    if use is None or not tenant.limits_users_days or state.user_days.is_limited(tenant.tenant_id):
        return {}
    at = max(state.now, event.at)
    holds = use.gpu_millis_by_user.items()
    return {(tenant.tenant_id, u): NO_SPEND.changed(millis, at) for u, millis in holds if u}


def user_documents(days: Mapping[TenantUser, Spend]) -> dict[tuple[str, str], bytes]:
    return {(USER_DAY, json.dumps(key)): msgspec.json.encode(day) for key, day in days.items()}


def read_user_days(documents: Mapping[str, bytes]) -> dict[TenantUser, Spend]:
    """What `user_documents` wrote."""
    found = {}
    for name, content in documents.items():
        tenant_id, user = json.loads(name)
        found[TenantId(tenant_id), str(user)] = msgspec.json.decode(content, type=Spend)
    return found


def read_spends(documents: Mapping[str, bytes]) -> dict[TenantId, Spend]:
    """What `spend_documents` wrote."""
    return {
        TenantId(name): msgspec.json.decode(content, type=Spend)
        for name, content in documents.items()
    }


# -- notices -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BudgetNotice:
    """That a tenant has spent so much of its budget in this window."""

    window: str
    since: int  # the window's start
    percent: int
    budget: int  # a new one is a new matter


class BudgetNotices:
    """Which notices were given. They are on record: a restart does not repeat them."""

    def __init__(self) -> None:
        self._given: dict[TenantId, BudgetNotice] = {}

    def load(self, documents: Mapping[str, bytes]) -> None:
        for name, content in documents.items():
            self._given[TenantId(name)] = msgspec.json.decode(content, type=BudgetNotice)

    @property
    def given(self) -> Mapping[TenantId, BudgetNotice]:
        """The newest of each tenant."""
        return self._given

    def due(self, state: State, now: int) -> dict[TenantId, BudgetNotice]:
        found = {}
        for tenant in state.budgets.budgeted():
            notice = _notice(tenant, state.budgets.spend(tenant.tenant_id), now)
            if notice is not None and self._is_new(tenant.tenant_id, notice):
                found[tenant.tenant_id] = notice
        return found

    def give(self, notices: Mapping[TenantId, BudgetNotice], state: State) -> None:
        """Say it, after it is on record."""
        for tenant_id, notice in notices.items():
            self._given[tenant_id] = notice
            budget = state.ledger.tenant(tenant_id).tenant.budget
            _log.warning(
                "a tenant has used up its budget"
                if notice.percent >= 100
                else "a tenant has used most of its budget",
                tenant=tenant_id,
                percent=notice.percent,
                window=notice.window,
                budget_gpu_hours=notice.budget / GPU_HOUR,
                action=None if budget is None else str(budget.action),
            )

    def _is_new(self, tenant_id: TenantId, notice: BudgetNotice) -> bool:
        given = self._given.get(tenant_id)
        if given is None:
            return True
        matter = (notice.window, notice.since, notice.budget)
        same = matter == (given.window, given.since, given.budget)
        return not same or notice.percent > given.percent


def notice_documents(notices: Mapping[TenantId, BudgetNotice]) -> dict[tuple[str, str], bytes]:
    return {(NOTICE, name): msgspec.json.encode(notice) for name, notice in notices.items()}


def _notice(tenant: Tenant, spend: Spend, now: int) -> BudgetNotice | None:
    budget = tenant.budget
    percent = 0 if budget is None else percent_reached(budget, spend, now)
    if budget is None or not percent:
        return None
    since = window_start(budget.window, now)
    return BudgetNotice(str(budget.window), since, percent, budget.gpu_millis_ms)


# -- the end of jobs -----------------------------------------------------------------------------


def stops(state: State, now: int, decided: Sequence[Event]) -> list[JobMoved]:
    """Moves that end the jobs of tenants whose budget is used up and says so, but for those that
    other events of this commit move: the next one ends them."""
    broke = {
        tenant_id
        for tenant_id, refused in state.ledger.over_budget.items()
        if refused.fact("action") == OverBudget.STOP
    }
    if not broke:
        return []
    moved = {event.job_id for event in decided if isinstance(event, JobMoved)}
    return [
        _stop(entry, now)
        for entry in state.placed()
        if entry.job.tenant_id in broke
        and entry.job.job_id not in moved
        and not (entry.progress.stopping and entry.progress.gives_way_to is None)
    ]


def _stop(entry: Entry, now: int) -> JobMoved:
    job_id, progress = entry.job.job_id, entry.progress
    cause = f"the budget of tenant {entry.job.tenant_id} is used up"
    if entry.job.options.lease:  # nothing runs that would have to end first
        ended = lifecycle.end(job_id, progress, JobState.CANCELLED, now, cause=cause)
        return JobMoved(now, job_id, Move.CANCEL, ended)
    return JobMoved(now, job_id, Move.STOP, lifecycle.stop(job_id, progress, cause))
