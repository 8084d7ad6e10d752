"""Tenants between the wire and the core: limits, budgets, and what they have and had."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tgpu.api.translate.user_limits import limits_model
from tgpu.core.errors import InvalidRequest
from tgpu.core.model.tenant import Budget, MembersSee, OverBudget, Tier, Window
from tgpu.core.model.units import CPU, GPU, GPU_HOUR, GPU_STEP
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.service.service import Service
from tgpu.text.instants import utc_millis_text
from tgpu.wire.bounds import WIDEST
from tgpu.wire.tenants_v1 import BudgetModel, TenantModel, UsageModel

# The core's names for the limits that are GPUs, and for those whose numbers are the same there.
_GPU_LIMITS = {
    "max_gpus": "max_gpu_millis",
    "max_borrow_gpus": "borrow_millis",
    "max_lend_gpus": "lend_millis",
}


_SAME = {
    "max_gpu_memory_mb": "max_gpu_mem_mib",
    "max_memory_mb": "max_mem_mib",
    "max_concurrent_jobs": "max_running_jobs",
}


def core_fields(body: dict[str, Any], price: float = 0) -> dict[str, Any]:
    """The core's names and integers for the fields that are set; `price` is of a GPU-hour."""
    fields: dict[str, Any] = {}
    for name, value in body.items():
        match name:
            case "max_gpus" | "max_borrow_gpus" | "max_lend_gpus":
                fields[_GPU_LIMITS[name]] = _gpu_millis(name, value)
            case "max_gpus_by_type":
                fields["max_gpu_millis_by_type"] = tuple(
                    (gpu_type, _gpu_millis(name, gpus)) for gpu_type, gpus in sorted(value.items())
                )
            case "budget":
                fields["budget"] = None if value is None else _budget(value, price)
            case "max_cpu_cores":
                fields["max_cpu_millis"] = None if value is None else round(value * CPU)
            case "members_see":
                fields["members_see"] = MembersSee(value)
            case "priority_tier":
                fields["tier"] = Tier(value)
            case "fair_share_weight":
                fields["weight_millis"] = round(value * 1000)
            case _:
                fields[_SAME.get(name, name)] = value
    return fields


def tenant_model(service: Service, tenant_id: str) -> TenantModel:
    """NotFound where there is none."""
    use = service.reads.tenant_allocation(tenant_id)
    tenant = use.tenant
    return TenantModel(
        id=tenant.tenant_id,
        name=tenant.name or tenant.tenant_id,
        max_gpus=_of(tenant.max_gpu_millis, GPU),
        max_gpus_by_type={name: millis / GPU for name, millis in tenant.max_gpu_millis_by_type},
        max_gpu_memory_mb=tenant.max_gpu_mem_mib,
        max_cpu_cores=_of(tenant.max_cpu_millis, CPU),
        max_memory_mb=tenant.max_mem_mib,
        max_concurrent_jobs=tenant.max_running_jobs,
        priority_tier=tenant.tier.value,
        fair_share_weight=tenant.weight_millis / 1000,
        allow_preemption=tenant.allow_preemption,
        enforce_quota=tenant.enforce_quota,
        cohort=tenant.cohort,
        run_as=tenant.run_as,
        members_see=tenant.members_see.value,
        user_limits=limits_model(tenant.user_limits),
        users={user: limits_model(each) for user, each in tenant.limits_by_user},
        max_borrow_gpus=_of(tenant.borrow_millis, GPU),
        max_lend_gpus=_of(tenant.lend_millis, GPU),
        budget=_budget_model(tenant.budget, service.settings.cost_per_gpu_hour),
        max_priority=tenant.max_priority,
        active=tenant.active,
        created_at=utc_millis_text(tenant.created_at),
        current_gpus=use.gpu_millis / GPU,
        borrowed_gpus=use.borrowed_millis / GPU,
        lent_gpus=use.lent_millis / GPU,
        current_gpus_by_type={
            name: millis / GPU for name, millis in sorted(use.gpu_millis_by_type.items())
        },
        current_gpu_memory_mb=use.gpu_mem_mib,
        current_cpu_cores=use.cpu_millis / CPU,
        current_memory_mb=use.mem_mib,
        current_jobs=use.jobs,
        usage=usage_model(service, service.reads.usage(tenant.tenant_id)),
    )


def usage_model(service: Service, usage: GpuTimeUsage) -> UsageModel:
    price = Decimal(str(service.settings.cost_per_gpu_hour))
    cost = Decimal(usage.gpu_millis_ms) * price / Decimal(3_600_000_000)
    return UsageModel(
        gpu_hours=round(usage.gpu_hours, 9),
        gpu_seconds=usage.gpu_millis_ms / (GPU * 1000),
        jobs_completed=usage.completed,
        jobs_failed=usage.failed,
        jobs_cancelled=usage.cancelled,
        cost=float(cost.quantize(Decimal("0.0001"), ROUND_HALF_UP)),
    )


def _budget(given: dict[str, Any], price: float) -> Budget:
    hours, cost = given.get("gpu_hours"), given.get("cost")
    if (hours is None) == (cost is None):
        remedy = 'needs one of gpu_hours and cost, like {"gpu_hours": 500}'
        raise InvalidRequest("budget", given, remedy)
    if cost is not None:
        if not price:
            remedy = "GPU time has no price here: set billing.cost_per_gpu_hour, or give gpu_hours"
            raise InvalidRequest("budget.cost", cost, remedy)
        hours = Decimal(str(cost)) / Decimal(str(price))
    amount = int(Decimal(str(hours)) * GPU_HOUR)
    if not 1 <= amount <= WIDEST:
        remedy = "must be more than 0, and less than a million GPU-years"
        raise InvalidRequest("budget", given, remedy)
    window = Window(given.get("window", Window.MONTH))
    return Budget(amount, window, OverBudget(given.get("action", OverBudget.WARN)))


def _budget_model(budget: Budget | None, price: float) -> BudgetModel | None:
    if budget is None:
        return None
    hours = Decimal(budget.gpu_millis_ms) / GPU_HOUR
    return BudgetModel.model_construct(
        gpu_hours=round(float(hours), 9),
        cost=round(float(hours * Decimal(str(price))), 4) if price else None,
        window=budget.window.value,
        action=budget.action.value,
    )


def _gpu_millis(field: str, gpus: float | None) -> int | None:
    if gpus is None:
        return None
    millis = Decimal(str(gpus)) * GPU
    if millis % GPU_STEP:
        raise InvalidRequest(field, gpus, "GPUs come in steps of 0.01")
    return int(millis)


def _of(amount: int | None, unit: int) -> float | None:
    return None if amount is None else amount / unit
