"""Reasons as sentences, each with the command that would change something."""

from collections.abc import Callable
from datetime import UTC, datetime

from gpu_scheduler.core.reasons import Reason, ReasonCode
from gpu_scheduler.core.units import gpus_text
from gpu_scheduler.wire.v1 import ReasonModel

_Sentence = tuple[str, str]  # what is, and what to do about it


def reason_model(reason: Reason, job_id: str) -> ReasonModel:
    message, remedy = _WRITERS[reason.code](reason, job_id)
    return ReasonModel(
        code=str(reason.code), message=message, remedy=remedy, facts=dict(reason.facts)
    )


def _held(_: Reason, job_id: str) -> _Sentence:
    return "on hold", f"tgpu release {job_id}"


def _dependency(reason: Reason, _: str) -> _Sentence:
    jobs = str(reason.fact("jobs"))
    first = jobs.split(", ", maxsplit=1)[0]
    return f"waits for job {jobs} to end", f"tgpu show {first}"


def _dependency_failed(reason: Reason, job_id: str) -> _Sentence:
    return f"can never start: {reason.fact('cause')}", f"tgpu rerun {job_id}"


def _backing_off(reason: Reason, job_id: str) -> _Sentence:
    until = _instant(int(reason.fact("until")))
    cause = reason.fact("cause")
    because = f" after {cause}" if cause else ""
    return (
        f"tries again at {until}{because}",
        f"tgpu logs {job_id}",
    )


def _instant(at: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"second {at // 1000}"  # on the manual clock, where years may be beyond calendars


def _array_cap(reason: Reason, job_id: str) -> _Sentence:
    running, limit = reason.fact("running"), reason.fact("limit")
    array_id = job_id.split(".", maxsplit=1)[0]
    return (
        f"{running} of at most {limit} elements of its array run",
        f"tgpu list --array {array_id}",
    )


_RESOURCES = {
    "gpus": "GPUs",
    "gpu_memory_mib": "MB of GPU memory",
    "cpu_millis": "CPU cores",
    "memory_mib": "MB of memory",
    "jobs": "running jobs",
}


def _amount(resource: str, amount: int | str) -> str:
    in_thousandths = resource.startswith("gpus") or resource == "cpu_millis"
    return gpus_text(int(amount)) if in_thousandths else str(amount)


def _resource_name(resource: str) -> str:
    if resource.startswith("gpus:"):
        return f"{resource.removeprefix('gpus:')} GPUs"
    return _RESOURCES[resource]


def _tenant_quota(reason: Reason, _: str) -> _Sentence:
    resource = str(reason.fact("resource"))
    requested, limit, current = (
        _amount(resource, reason.fact(name)) for name in ("requested", "limit", "current")
    )
    tenant = reason.fact("tenant")
    return (
        f"tenant {tenant} has {current} of its {limit} {_resource_name(resource)} in use, "
        f"and this job needs {requested}",
        f"tgpu list --tenant {tenant} --state running",
    )


def _tenant_inactive(reason: Reason, _: str) -> _Sentence:
    tenant = reason.fact("tenant")
    return f"tenant {tenant} is not active", f"tgpu tenants change {tenant} --active"


def _queue_disabled(reason: Reason, _: str) -> _Sentence:
    queue, tenant = reason.fact("queue"), reason.fact("tenant")
    return (
        f"queue {queue} of tenant {tenant} is disabled",
        f"tgpu queues change {queue} --tenant {tenant} --enable",
    )


def _queue_cap(reason: Reason, _: str) -> _Sentence:
    queue, tenant = reason.fact("queue"), reason.fact("tenant")
    return (
        f"{reason.fact('running')} of at most {reason.fact('limit')} jobs of queue {queue} run",
        f"tgpu list --tenant {tenant} --state running",
    )


def _quota_provider(reason: Reason, _: str) -> _Sentence:
    tenant = reason.fact("tenant")
    return (
        f"quota provider {reason.fact('provider')} lets tenant {tenant} have no more now",
        f"tgpu quota show {tenant}",
    )


def _no_such_gpu(reason: Reason, job_id: str) -> _Sentence:
    return (
        f"needs a {reason.fact('gpu_type')}, and there is none; there are: {reason.fact('types')}",
        f"tgpu cancel {job_id}",
    )


def _too_large(reason: Reason, job_id: str) -> _Sentence:
    resource = str(reason.fact("resource"))
    requested = _amount(resource, reason.fact("requested"))
    largest = _amount(resource, reason.fact("largest"))
    return (
        f"needs {requested} {_resource_name(resource)}; no machine has more than {largest}",
        f"tgpu cancel {job_id}",
    )


def _gpus_busy(reason: Reason, _: str) -> _Sentence:
    wanted = gpus_text(int(reason.fact("requested")))
    free, total = (gpus_text(int(reason.fact(name))) for name in ("free", "total"))
    paused, hot, problem = (int(reason.fact(name)) for name in ("paused", "hot", "problem"))
    parts = [f"{free} of {total} free on this node"]
    if paused:
        parts.append(f"{paused} paused")
    if hot:
        parts.append(f"{hot} too hot")
    if problem:
        parts.append(f"{problem} out of order")
    gpu_type = str(reason.fact("gpu_type")) or ("GPU" if wanted == "1" else "GPUs")
    remedy = "tgpu gpus" if paused or hot or problem else "tgpu list --state running"
    return f"needs {wanted} {gpu_type}; {', '.join(parts)}", remedy


def _cpu_busy(reason: Reason, _: str) -> _Sentence:
    requested, free, total = (
        gpus_text(int(reason.fact(name))) for name in ("requested", "free", "total")
    )
    return f"needs {requested} CPU cores; {free} of {total} are free", "tgpu list --state running"


def _memory_busy(reason: Reason, _: str) -> _Sentence:
    requested, free, total = (reason.fact(name) for name in ("requested", "free", "total"))
    return (
        f"needs {requested} MB of memory; {free} of {total} are free",
        "tgpu list --state running",
    )


def _no_node(_: Reason, __: str) -> _Sentence:
    return "no machine has reported its GPUs yet", "tgpu status"


def _next_cycle(_: Reason, __: str) -> _Sentence:
    return "nothing is in its way; it starts with the next cycle", "tgpu status"


_WRITERS: dict[ReasonCode, Callable[[Reason, str], _Sentence]] = {
    ReasonCode.HELD: _held,
    ReasonCode.DEPENDENCY: _dependency,
    ReasonCode.DEPENDENCY_FAILED: _dependency_failed,
    ReasonCode.BACKING_OFF: _backing_off,
    ReasonCode.ARRAY_CAP: _array_cap,
    ReasonCode.TENANT_INACTIVE: _tenant_inactive,
    ReasonCode.QUEUE_DISABLED: _queue_disabled,
    ReasonCode.QUEUE_CAP: _queue_cap,
    ReasonCode.TENANT_QUOTA: _tenant_quota,
    ReasonCode.QUOTA_PROVIDER: _quota_provider,
    ReasonCode.NO_SUCH_GPU: _no_such_gpu,
    ReasonCode.TOO_LARGE: _too_large,
    ReasonCode.GPUS_BUSY: _gpus_busy,
    ReasonCode.CPU_BUSY: _cpu_busy,
    ReasonCode.MEMORY_BUSY: _memory_busy,
    ReasonCode.NO_NODE: _no_node,
    ReasonCode.NEXT_CYCLE: _next_cycle,
}
