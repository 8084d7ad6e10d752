"""Reasons of admission as sentences: caps, quotas, limits of users, and budgets."""

from collections.abc import Callable
from typing import Final

from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.model.units import GPU_HOUR, gpus_text, memory_text
from tgpu.text.instants import utc_text
from tgpu.text.plurals import plural

Sentence = tuple[str, str]  # what is, and what to do about it
SentenceWriter = Callable[[Reason, str], Sentence]  # of the job with this id


def _service_cap(reason: Reason, _: str) -> Sentence:
    most = plural(reason.fact("limit"), "job")
    return (
        f"{reason.fact('running')} of at most {most} are running on this service",
        "tgpu list --state running",
    )


def _array_cap(reason: Reason, job_id: str) -> Sentence:
    running, limit = reason.fact("running"), reason.fact("limit")
    array_id = job_id.split(".", maxsplit=1)[0]
    return (
        f"{running} of at most {plural(str(limit), 'element')} of its array are running",
        f"tgpu list --array {array_id}",
    )


_RESOURCES = {
    "gpus": "GPUs",
    "gpu_memory_mib": "of GPU memory",
    "cpu_millis": "CPU cores",
    "memory_mib": "of memory",
    "jobs": "running jobs",
    "workers": "workers",
}


def amount_text(resource: str, amount: int | str) -> str:
    if resource in ("gpu_memory_mib", "memory_mib"):
        return memory_text(int(amount))
    in_thousandths = resource.startswith("gpus") or resource == "cpu_millis"
    return gpus_text(int(amount)) if in_thousandths else str(amount)


def resource_name(resource: str) -> str:
    if resource.startswith("gpus:"):
        return f"{resource.removeprefix('gpus:')} GPUs"
    return _RESOURCES[resource]


def _tenant_quota(reason: Reason, _: str) -> Sentence:
    resource = str(reason.fact("resource"))
    requested, limit, current = (
        amount_text(resource, reason.fact(name)) for name in ("requested", "limit", "current")
    )
    tenant = reason.fact("tenant")
    return (
        f"tenant {tenant} has {current} of its {limit} {resource_name(resource)} in use, "
        f"and this job needs {requested}",
        f"tgpu list --tenant {tenant} --state running",
    )


def _user_limit(reason: Reason, _: str) -> Sentence:
    resource = str(reason.fact("resource"))
    requested, limit, current = (
        amount_text(resource, reason.fact(name)) for name in ("requested", "limit", "current")
    )
    tenant, user = reason.fact("tenant"), reason.fact("user")
    needs = f", and this job needs {requested}" if resource == "gpus" else ""
    word = "GPU" if resource == "gpus" else "job"
    what = f"{word}{'' if limit == '1' else 's'} {'in use' if resource == 'gpus' else 'running'}"
    return (
        f"{user} has {current} of the {limit} {what} that a user of tenant {tenant} may "
        f"have{needs}; it starts when one of those ends",
        f"tgpu list --tenant {tenant} --user {user} --state running",
    )


def _user_day(reason: Reason, _: str) -> Sentence:
    tenant, user = reason.fact("tenant"), reason.fact("user")
    spent, limit = (f"{int(reason.fact(name)) / GPU_HOUR:.2f}" for name in ("spent", "limit"))
    until = utc_text(int(reason.fact("until")))
    return (
        f"{user} has used {spent} of the {limit} GPU hours a day that a user of tenant {tenant} "
        f"may have; it can start from {until}",
        f"tgpu quota show {tenant}",
    )


def _quota_lent(reason: Reason, _: str) -> Sentence:
    requested, lent, nominal, current = _gpu_facts(
        reason, "requested", "lent", "nominal", "current"
    )
    tenant, cohort = reason.fact("tenant"), reason.fact("cohort")
    return (
        f"tenant {tenant} has {current} of its {plural(nominal, 'GPU')} in use, and this job needs "
        f"{requested}; other tenants of cohort {cohort} have borrowed {lent}",
        f"tgpu tenants show {tenant}",
    )


def _borrow_limit(reason: Reason, _: str) -> Sentence:
    requested, borrow, nominal, current = _gpu_facts(
        reason, "requested", "borrow", "nominal", "current"
    )
    tenant = reason.fact("tenant")
    return (
        f"tenant {tenant} has {plural(current, 'GPU')} in use, and this job needs {requested}; "
        f"it has {nominal} of its own and may borrow {borrow}",
        f"tgpu list --tenant {tenant} --state running",
    )


def _cohort_quota(reason: Reason, _: str) -> Sentence:
    requested, free, nominal, current = _gpu_facts(
        reason, "requested", "free", "nominal", "current"
    )
    tenant, cohort = reason.fact("tenant"), reason.fact("cohort")
    return (
        f"tenant {tenant} has {plural(current, 'GPU')} in use with {nominal} of its own, this job "
        f"needs {requested}, and cohort {cohort} has {free} left to lend",
        f"tgpu tenants show {tenant}",
    )


def _gpu_facts(reason: Reason, *names: str) -> list[str]:
    return [gpus_text(int(reason.fact(name))) for name in names]


def _budget(reason: Reason, _: str) -> Sentence:
    tenant, window = reason.fact("tenant"), str(reason.fact("window"))
    spent, budget = (f"{int(reason.fact(name)) / GPU_HOUR:.2f}" for name in ("spent", "budget"))
    until = int(reason.fact("until"))
    again = f"; it starts jobs again at {utc_text(until)}" if until else ""
    of_when = "in all" if window == "total" else f"of this {window}"
    return (
        f"tenant {tenant} has used {spent} of the {budget} GPU hours {of_when}{again}",
        f"tgpu budget {tenant}",
    )


def _tenant_inactive(reason: Reason, _: str) -> Sentence:
    tenant = reason.fact("tenant")
    return f"tenant {tenant} is not active", f"tgpu tenants change {tenant} --active"


def _queue_disabled(reason: Reason, _: str) -> Sentence:
    queue, tenant = reason.fact("queue"), reason.fact("tenant")
    return (
        f"queue {queue} of tenant {tenant} is disabled",
        f"tgpu queues change {queue} --tenant {tenant} --enable",
    )


def _queue_cap(reason: Reason, _: str) -> Sentence:
    queue, tenant = reason.fact("queue"), reason.fact("tenant")
    most = plural(reason.fact("limit"), "job")
    return (
        f"{reason.fact('running')} of at most {most} of queue {queue} are running",
        f"tgpu list --tenant {tenant} --state running",
    )


def _quota_provider(reason: Reason, _: str) -> Sentence:
    tenant = reason.fact("tenant")
    return (
        f"quota provider {reason.fact('provider')} does not allow tenant {tenant} more now",
        f"tgpu quota show {tenant}",
    )


ADMISSION_SENTENCES: Final[dict[ReasonCode, SentenceWriter]] = {
    ReasonCode.SERVICE_CAP: _service_cap,
    ReasonCode.ARRAY_CAP: _array_cap,
    ReasonCode.TENANT_INACTIVE: _tenant_inactive,
    ReasonCode.QUEUE_DISABLED: _queue_disabled,
    ReasonCode.QUEUE_CAP: _queue_cap,
    ReasonCode.TENANT_QUOTA: _tenant_quota,
    ReasonCode.USER_LIMIT: _user_limit,
    ReasonCode.USER_DAY: _user_day,
    ReasonCode.QUOTA_LENT: _quota_lent,
    ReasonCode.BORROW_LIMIT: _borrow_limit,
    ReasonCode.COHORT_QUOTA: _cohort_quota,
    ReasonCode.BUDGET: _budget,
    ReasonCode.QUOTA_PROVIDER: _quota_provider,
}
