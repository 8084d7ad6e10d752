"""/api/v1/budgets: how much of their budgets tenants have spent, and when they run out."""

from decimal import Decimal

from fastapi import APIRouter, Request

from tgpu.api.access.visible import visible_tenant, visible_tenants
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.core.accounting.budget import runs_out_at, window_end, window_start
from tgpu.core.model.tenant import Budget, OverBudget, Tenant, Window
from tgpu.core.model.units import GPU, GPU_HOUR, gpu_hours
from tgpu.service.service import Service
from tgpu.text.instants import utc_millis_text
from tgpu.wire.budgets_v1 import BudgetList, BudgetStatus

router = APIRouter(tags=["tenants"])


@router.get("/api/v1/budgets")
async def budgets(request: Request, *, tenant_id: Name | None = None) -> BudgetList:
    """How much of their budgets tenants have spent in the current window."""
    service, caller = service_of(request), caller_of(request)
    if tenant_id is None:
        tenants = visible_tenants(service, caller)
    else:
        tenants = [visible_tenant(service, caller, tenant_id)]
    return BudgetList(
        budgets=[
            budget_status(service, tenant, tenant.budget)
            for tenant in tenants
            if tenant.budget is not None
        ]
    )


def budget_status(service: Service, tenant: Tenant, budget: Budget) -> BudgetStatus:
    # Time that an event brought may be ahead of a clock that was set back.
    known = service.reads.spend(tenant.tenant_id)
    now = max(service.clock.now(), known.at)
    spend = known.upto(now)
    spent, whole = spend.spent(budget.window), budget.gpu_millis_ms
    ends_at, out_at = window_end(budget.window, now), runs_out_at(budget, spend, now)
    is_total = budget.window is Window.TOTAL
    used_up = spent >= whole
    return BudgetStatus(
        tenant_id=tenant.tenant_id,
        window=budget.window.value,
        action=budget.action.value,
        budget_gpu_hours=gpu_hours(whole),
        spent_gpu_hours=gpu_hours(spent),
        left_gpu_hours=gpu_hours(max(0, whole - spent)),
        percent=round(100 * spent / whole, 2) if whole else 100.0,
        budget_cost=_cost(service, whole),
        spent_cost=_cost(service, spent),
        current_gpus=spend.gpu_millis / GPU,
        window_start=None if is_total else utc_millis_text(window_start(budget.window, now)),
        window_end=None if ends_at is None else utc_millis_text(ends_at),
        runs_out_at=None if out_at is None or used_up else utc_millis_text(out_at),
        used_up=used_up,
        holds=used_up and budget.action is not OverBudget.WARN,
    )


def _cost(service: Service, gpu_millis_ms: int) -> float | None:
    price = Decimal(str(service.settings.cost_per_gpu_hour))
    return round(float(Decimal(gpu_millis_ms) * price / GPU_HOUR), 4) if price else None
