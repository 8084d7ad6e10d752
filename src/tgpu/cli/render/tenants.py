"""Tenants, queues, quotas and usage as tables and facts."""

from collections.abc import Sequence
from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, Line, clean, facts
from tgpu.cli.render.user_limits import limits_text
from tgpu.cli.render.words import gpus_text, number_text
from tgpu.text.durations import duration_text
from tgpu.text.sizes import mebibytes_text
from tgpu.wire.tenants_v1 import (
    BudgetModel,
    QueueModel,
    QuotaModel,
    TenantModel,
    TenantUsage,
    UsageModel,
)

_TENANTS: Final = (
    Column("TENANT", least=12),
    Column("NAME", least=8, leave_out=2),
    Column("TIER", leave_out=3),
    Column("GPUS", right=True),
    Column("JOBS", right=True),
    Column("GPU-HOURS", right=True, leave_out=1),
    Column("COST", right=True, leave_out=1),
    Column("", leave_out=4),
)
_QUEUES: Final = (
    Column("TENANT", least=12),
    Column("QUEUE", least=8),
    Column("PRIORITY", right=True),
    Column("RUNNING", right=True),
    Column("WAITING", right=True),
    Column("POLICY", leave_out=3),
    Column("TARGET", right=True, leave_out=3),
    Column("IDLE", leave_out=4),
    Column("", leave_out=1),
)
_QUOTA: Final = (
    Column("RESOURCE"),
    Column("USED", right=True),
    Column("OF", right=True),
    Column("FREE", right=True),
    Column("USE", right=True),
)
_DAYS: Final = (
    Column("DAY"),
    Column("GPU-HOURS", right=True),
    Column("COMPLETED", right=True),
    Column("FAILED", right=True),
    Column("CANCELLED", right=True),
    Column("COST", right=True),
)


def tenant_grid(tenants: Sequence[TenantModel]) -> Grid:
    return Grid(_TENANTS, tuple(_tenant_row(tenant) for tenant in tenants))


def tenant_facts(tenant: TenantModel) -> list[Line]:
    by_type = {**dict.fromkeys(tenant.max_gpus_by_type, 0.0), **tenant.current_gpus_by_type}
    users = sorted(tenant.users.items())
    pairs = [
        ("tenant", clean(tenant.id)),
        ("name", clean(tenant.name)),
        ("active", "yes" if tenant.active else "no: it accepts and starts no jobs"),
        ("GPUs", _of(number_text(tenant.current_gpus), _number(tenant.max_gpus))),
        *(
            (clean(kind), _of(number_text(used), _number(tenant.max_gpus_by_type.get(kind))))
            for kind, used in sorted(by_type.items())
        ),
        (
            "GPU memory",
            _of(mebibytes_text(tenant.current_gpu_memory_mb), _size(tenant.max_gpu_memory_mb)),
        ),
        ("CPU cores", _of(number_text(tenant.current_cpu_cores), _number(tenant.max_cpu_cores))),
        ("memory", _of(mebibytes_text(tenant.current_memory_mb), _size(tenant.max_memory_mb))),
        ("cohort", _cohort(tenant)),
        ("runs as", clean(tenant.run_as)),
        ("members see", _MEMBERS_SEE[tenant.members_see]),
        ("each user", limits_text(tenant.user_limits)),
        *((f"user {clean(user)}", limits_text(each) or "no limits") for user, each in users),
        ("on loan", _on_loan(tenant)),
        ("budget", _budget(tenant.budget)),
        ("jobs", _of(str(tenant.current_jobs), _number(tenant.max_concurrent_jobs))),
        ("limits", "" if tenant.enforce_quota else "shown, but not enforced"),
        ("tier", tenant.priority_tier),
        ("highest priority", "" if tenant.max_priority is None else str(tenant.max_priority)),
        ("weight", number_text(tenant.fair_share_weight)),
        ("preemption", "its jobs may be preempted" if tenant.allow_preemption else "never"),
        ("so far", _usage(tenant.usage)),
    ]
    return facts([(name, value) for name, value in pairs if value])


def queue_grid(queues: Sequence[QueueModel]) -> Grid:
    return Grid(_QUEUES, tuple(_queue_row(queue) for queue in queues))


def quota_grid(quota: QuotaModel) -> Grid:
    rows = (
        ("GPUs", quota.used_gpu, quota.gpu_quota, quota.available_gpu, quota.gpu_usage_percent),
        (
            "CPU cores",
            quota.used_cpu,
            quota.cpu_quota,
            quota.available_cpu,
            quota.cpu_usage_percent,
        ),
        (
            "memory GiB",
            quota.used_memory,
            quota.memory_quota,
            quota.available_memory,
            quota.memory_usage_percent,
        ),
    )
    return Grid(
        _QUOTA,
        tuple(
            (
                Cell(name),
                Cell(number_text(used)),
                Cell(_number(limit)),
                Cell("" if free is None else number_text(free)),
                Cell("" if percent is None else f"{percent:.0f}%"),
            )
            for name, used, limit, free, percent in rows
        ),
    )


def usage_grid(usage: TenantUsage) -> Grid:
    rows = [(day.date, day) for day in usage.days]
    return Grid(_DAYS, tuple(_usage_row(name, used) for name, used in rows))


def usage_line(usage: TenantUsage) -> str:
    return f"{clean(usage.tenant_id)} in all: {_usage(usage.total)}"


def _tenant_row(tenant: TenantModel) -> tuple[Cell, ...]:
    jobs = _of(str(tenant.current_jobs), _number(tenant.max_concurrent_jobs))
    return (
        Cell(clean(tenant.id)),
        Cell(clean(tenant.name) if tenant.name != tenant.id else ""),
        Cell(tenant.priority_tier),
        Cell(_of(number_text(tenant.current_gpus), _number(tenant.max_gpus))),
        Cell(jobs),
        Cell(f"{tenant.usage.gpu_hours:.2f}"),
        Cell(f"{tenant.usage.cost:.2f}" if tenant.usage.cost else ""),
        Cell("" if tenant.active else "inactive", "magenta"),
    )


def _queue_row(queue: QueueModel) -> tuple[Cell, ...]:
    return (
        Cell(clean(queue.project_id)),
        Cell(clean(queue.name)),
        Cell(str(queue.priority)),
        Cell(_of(str(queue.running_jobs), _number(queue.max_concurrent_jobs))),
        Cell(str(queue.pending_jobs)),
        Cell(clean(queue.policy)),
        Cell(duration_text(queue.wait_target_seconds) if queue.wait_target_seconds else ""),
        Cell("" if queue.idle_action == "warn" else queue.idle_action),
        Cell("" if queue.enabled else "disabled", "magenta"),
    )


def _usage_row(name: str, used: UsageModel) -> tuple[Cell, ...]:
    return (
        Cell(name),
        Cell(f"{used.gpu_hours:.2f}"),
        Cell(str(used.jobs_completed)),
        Cell(str(used.jobs_failed)),
        Cell(str(used.jobs_cancelled)),
        Cell(f"{used.cost:.2f}"),
    )


def _cohort(tenant: TenantModel) -> str:
    if not tenant.cohort:
        return ""
    borrows = "all there is" if tenant.max_borrow_gpus is None else _gpus(tenant.max_borrow_gpus)
    lends = "all it does not use" if tenant.max_lend_gpus is None else _gpus(tenant.max_lend_gpus)
    return f"{clean(tenant.cohort)}: borrows {borrows}, lends {lends}"


def _on_loan(tenant: TenantModel) -> str:
    parts = []
    if tenant.borrowed_gpus:
        parts.append(f"it has borrowed {gpus_text(tenant.borrowed_gpus)}")
    if tenant.lent_gpus:
        parts.append(f"others have {gpus_text(tenant.lent_gpus)} of its own")
    return ", ".join(parts)


def _gpus(count: float) -> str:
    return f"at most {gpus_text(count)}"


_MEMBERS_SEE: Final = {
    "nothing": "nothing of each other's jobs",
    "jobs": "each other's jobs",
    "logs": "each other's jobs and their logs",
}
_OVER: Final = {
    "warn": "then says so",
    "hold": "then starts no more jobs",
    "stop": "then ends its jobs",
}


def _budget(budget: BudgetModel | None) -> str:
    if budget is None or budget.gpu_hours is None:
        return ""
    cost = "" if budget.cost is None else f" (cost {budget.cost:.2f})"
    window = "in all" if budget.window == "total" else f"a {budget.window}"
    return f"{budget.gpu_hours:.2f} GPU-hours{cost} {window}, {_OVER[budget.action]}"


def _usage(used: UsageModel) -> str:
    jobs = (
        f"{used.jobs_completed} completed, {used.jobs_failed} failed, "
        f"{used.jobs_cancelled} cancelled"
    )
    cost = f", cost {used.cost:.2f}" if used.cost else ""
    return f"{used.gpu_hours:.2f} GPU-hours, {jobs}{cost}"


def _of(used: str, limit: str) -> str:
    return used if limit == "no limit" else f"{used} of {limit}"


def _number(limit: float | None) -> str:
    return "no limit" if limit is None else number_text(limit)


def _size(limit: int | None) -> str:
    return "no limit" if limit is None else mebibytes_text(limit)
