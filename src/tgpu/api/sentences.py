"""Reasons as sentences, each with the command that would change something."""

from collections.abc import Callable

from tgpu.api.gpu_words import free_text
from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.model.units import GPU_HOUR, gpus_text, memory_text
from tgpu.text.durations import duration_text
from tgpu.text.instants import utc_text
from tgpu.text.plurals import plural
from tgpu.wire.v1 import ReasonModel

_Sentence = tuple[str, str]  # what is, and what to do about it


def reason_model(reason: Reason, job_id: str) -> ReasonModel:
    message, remedy = _WRITERS[reason.code](reason, job_id)
    return ReasonModel(
        code=str(reason.code), message=message, remedy=remedy, facts=dict(reason.facts)
    )


def _held(reason: Reason, job_id: str) -> _Sentence:
    facts = dict(reason.facts)
    by = f", by {facts['by']}" if "by" in facts else ""
    return f"on hold{by}", f"tgpu release {job_id}"


def _dependency(reason: Reason, _: str) -> _Sentence:
    jobs = str(reason.fact("jobs"))
    first = jobs.split(", ", maxsplit=1)[0]
    return f"waits for job {jobs} to end", f"tgpu show {first}"


def _dependency_failed(reason: Reason, job_id: str) -> _Sentence:
    return f"can never start: {reason.fact('cause')}", f"tgpu rerun {job_id}"


def _backing_off(reason: Reason, job_id: str) -> _Sentence:
    until = utc_text(int(reason.fact("until")))
    cause = reason.fact("cause")
    because = f" after {cause}" if cause else ""
    return (
        f"tries again at {until}{because}",
        f"tgpu logs {job_id}",
    )


def _service_cap(reason: Reason, _: str) -> _Sentence:
    most = plural(reason.fact("limit"), "job")
    return (
        f"{reason.fact('running')} of at most {most} are running on this service",
        "tgpu list --state running",
    )


def _array_cap(reason: Reason, job_id: str) -> _Sentence:
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


def _amount(resource: str, amount: int | str) -> str:
    if resource in ("gpu_memory_mib", "memory_mib"):
        return memory_text(int(amount))
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


def _user_limit(reason: Reason, _: str) -> _Sentence:
    resource = str(reason.fact("resource"))
    requested, limit, current = (
        _amount(resource, reason.fact(name)) for name in ("requested", "limit", "current")
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


def _user_day(reason: Reason, _: str) -> _Sentence:
    tenant, user = reason.fact("tenant"), reason.fact("user")
    spent, limit = (f"{int(reason.fact(name)) / GPU_HOUR:.2f}" for name in ("spent", "limit"))
    until = utc_text(int(reason.fact("until")))
    return (
        f"{user} has used {spent} of the {limit} GPU hours a day that a user of tenant {tenant} "
        f"may have; it can start from {until}",
        f"tgpu quota show {tenant}",
    )


def _quota_lent(reason: Reason, _: str) -> _Sentence:
    requested, lent, nominal, current = _gpu_facts(
        reason, "requested", "lent", "nominal", "current"
    )
    tenant, cohort = reason.fact("tenant"), reason.fact("cohort")
    return (
        f"tenant {tenant} has {current} of its {plural(nominal, 'GPU')} in use, and this job needs "
        f"{requested}; other tenants of cohort {cohort} have borrowed {lent}",
        f"tgpu tenants show {tenant}",
    )


def _borrow_limit(reason: Reason, _: str) -> _Sentence:
    requested, borrow, nominal, current = _gpu_facts(
        reason, "requested", "borrow", "nominal", "current"
    )
    tenant = reason.fact("tenant")
    return (
        f"tenant {tenant} has {plural(current, 'GPU')} in use, and this job needs {requested}; "
        f"it has {nominal} of its own and may borrow {borrow}",
        f"tgpu list --tenant {tenant} --state running",
    )


def _cohort_quota(reason: Reason, _: str) -> _Sentence:
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


def _budget(reason: Reason, _: str) -> _Sentence:
    tenant, window = reason.fact("tenant"), str(reason.fact("window"))
    spent, budget = (f"{int(reason.fact(name)) / GPU_HOUR:.2f}" for name in ("spent", "budget"))
    until = int(reason.fact("until"))
    again = f"; it starts jobs again at {utc_text(until)}" if until else ""
    of_when = "in all" if window == "total" else f"of this {window}"
    return (
        f"tenant {tenant} has used {spent} of the {budget} GPU hours {of_when}{again}",
        f"tgpu budget {tenant}",
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
    most = plural(reason.fact("limit"), "job")
    return (
        f"{reason.fact('running')} of at most {most} of queue {queue} are running",
        f"tgpu list --tenant {tenant} --state running",
    )


def _quota_provider(reason: Reason, _: str) -> _Sentence:
    tenant = reason.fact("tenant")
    return (
        f"quota provider {reason.fact('provider')} does not allow tenant {tenant} more now",
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
    most = "all machines together hold" if resource == "workers" else "no machine has more than"
    by_type = dict(reason.facts).get("by_type", "")
    kind = f"{of_type} " if resource == "gpus" and (of_type := reason.fact("gpu_type")) else ""
    each = f" of one type ({by_type})" if by_type else ""
    return (
        f"needs {requested} {kind}{_resource_name(resource)}; {most} {largest}{each}",
        f"tgpu cancel {job_id}",
    )


def _condition(reason: Reason, job_id: str) -> _Sentence:
    return (
        f"no node satisfies its constraint {reason.fact('condition')} {reason.fact('value')}",
        f"tgpu cancel {job_id}",
    )


def _not_alone(reason: Reason, _: str) -> _Sentence:
    node = reason.fact("node")
    where = f"node {node}" if node else f"{reason.fact('busy')} of the nodes it could use"
    return f"needs a node to itself, but jobs are running on {where}", "tgpu list --state running"


def _gpus_busy(reason: Reason, _: str) -> _Sentence:
    wanted = gpus_text(int(reason.fact("requested")))
    paused, hot, problem, foreign = (
        int(reason.fact(name)) for name in ("paused", "hot", "problem", "foreign")
    )
    parts = [free_text(reason)]
    if paused:
        parts.append(f"{paused} paused ({reason.fact('pauses')})")
    if hot:
        parts.append(f"{hot} too hot")
    if problem:
        parts.append(f"{problem} faulty")
    if foreign:
        parts.append(f"{foreign} used by other programs")
    gpu_type = str(reason.fact("gpu_type")) or ("GPU" if wanted == "1" else "GPUs")
    remedy = "tgpu gpus" if paused or hot or problem or foreign else "tgpu list --state running"
    return f"needs {wanted} {gpu_type}; {', '.join(parts)}", remedy


def _cpu_busy(reason: Reason, _: str) -> _Sentence:
    requested, free, total = (
        gpus_text(int(reason.fact(name))) for name in ("requested", "free", "total")
    )
    return f"needs {requested} CPU cores; {free} of {total} are free", "tgpu list --state running"


def _memory_busy(reason: Reason, _: str) -> _Sentence:
    requested, free, total = (
        memory_text(int(reason.fact(name))) for name in ("requested", "free", "total")
    )
    return (
        f"needs {requested} of memory; {free} of {total} are free",
        "tgpu list --state running",
    )


def _booked(reason: Reason, _: str) -> _Sentence:
    at, until = utc_text(int(reason.fact("at"))), utc_text(int(reason.fact("until")))
    which = f" ({reason.fact('booking')})" if reason.fact("booking") else ""
    limit = int(reason.fact("limit"))
    if not limit:
        return f"the GPUs it could use are reserved until {until}{which}", "tgpu reservations"
    minutes, seconds = divmod(limit // 1000, 60)
    in_time = f"{minutes}m" if minutes else f"{max(1, seconds)}s"
    return (
        f"the GPUs it could use are reserved from {at} until {until}{which}; only jobs with a "
        f"time limit of {in_time} or less may start there",
        f"tgpu submit --time {in_time}",
    )


def _too_long(reason: Reason) -> str:
    limit = _hours_text(int(reason.fact("limit")))
    requested = int(dict(reason.facts).get("requested", 0))
    mine = f", and it may run for {_hours_text(requested)}" if requested else ""
    return f"before that only jobs with a time limit of {limit} or less may use them{mine}"


def _hours_text(ms: int) -> str:
    return duration_text(max(1, ms // 1000), largest="h")


def _booking_ahead(reason: Reason, _: str) -> _Sentence:
    booking, at = reason.fact("booking"), utc_text(int(reason.fact("at")))
    return f"its reservation {booking} starts at {at}", "tgpu reservations"


def _behind_reservation(reason: Reason, job_id: str) -> _Sentence:
    other, at = _other(reason), int(reason.fact("at"))
    if not at:
        return (
            f"{other} has waited so long that no job may overtake it on these GPUs",
            _look_at(reason, job_id),
        )
    return (
        f"{other} starts on these GPUs at {utc_text(at)} at the latest; {_too_long(reason)}",
        _look_at(reason, job_id),
    )


def _place_kept(reason: Reason, job_id: str) -> _Sentence:
    return f"these GPUs go to {_other(reason)}, for which other jobs are being preempted", _look_at(
        reason, job_id
    )


def _strict_line(reason: Reason, job_id: str) -> _Sentence:
    return (
        f"there is room, but {_other(reason)} is ahead of it, and backfill is off",
        _look_at(reason, job_id),
    )


def _other(reason: Reason) -> str:
    """A job that the reader may not see has no name."""
    job = reason.fact("job")
    return f"job {job}" if job else "another tenant's job"


def _look_at(reason: Reason, job_id: str) -> str:
    job = reason.fact("job")
    return f"tgpu why {job}" if job else f"tgpu show {job_id}"


def _promised(reason: Reason, job_id: str) -> _Sentence:
    jobs = str(reason.fact("jobs"))
    who = f"job{'s' if ',' in jobs else ''} {jobs}" if jobs else "other jobs"
    return f"waits for {who} to be preempted for it", f"tgpu show {jobs.split(', ')[0] or job_id}"


def _not_chosen(reason: Reason, _: str) -> _Sentence:
    policy = reason.fact("policy")
    return f"nothing blocks it, but policy {policy} has not chosen it yet", "tgpu status"


def _no_node(_: Reason, __: str) -> _Sentence:
    return "no machine has reported its GPUs yet", "tgpu status"


def _next_cycle(_: Reason, __: str) -> _Sentence:
    return "nothing blocks it; it starts with the next cycle", "tgpu status"


_WRITERS: dict[ReasonCode, Callable[[Reason, str], _Sentence]] = {
    ReasonCode.HELD: _held,
    ReasonCode.DEPENDENCY: _dependency,
    ReasonCode.DEPENDENCY_FAILED: _dependency_failed,
    ReasonCode.BACKING_OFF: _backing_off,
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
    ReasonCode.NO_SUCH_GPU: _no_such_gpu,
    ReasonCode.TOO_LARGE: _too_large,
    ReasonCode.CONDITION: _condition,
    ReasonCode.NOT_ALONE: _not_alone,
    ReasonCode.GPUS_BUSY: _gpus_busy,
    ReasonCode.CPU_BUSY: _cpu_busy,
    ReasonCode.MEMORY_BUSY: _memory_busy,
    ReasonCode.BOOKED: _booked,
    ReasonCode.BOOKING_AHEAD: _booking_ahead,
    ReasonCode.BEHIND_RESERVATION: _behind_reservation,
    ReasonCode.PLACE_KEPT: _place_kept,
    ReasonCode.STRICT_LINE: _strict_line,
    ReasonCode.PROMISED: _promised,
    ReasonCode.NOT_CHOSEN: _not_chosen,
    ReasonCode.NO_NODE: _no_node,
    ReasonCode.NEXT_CYCLE: _next_cycle,
}
