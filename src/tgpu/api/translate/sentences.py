"""Reasons as sentences, each with the command that would change something."""

from tgpu.api.translate.admission_sentences import (
    ADMISSION_SENTENCES,
    Sentence,
    SentenceWriter,
    amount_text,
    resource_name,
)
from tgpu.api.translate.gpu_words import free_text
from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.model.units import gpus_text, memory_text
from tgpu.text.durations import duration_text
from tgpu.text.instants import utc_text
from tgpu.wire.v1 import ReasonModel


def reason_model(reason: Reason, job_id: str) -> ReasonModel:
    message, remedy = _WRITERS[reason.code](reason, job_id)
    return ReasonModel(
        code=str(reason.code), message=message, remedy=remedy, facts=dict(reason.facts)
    )


def _held(reason: Reason, job_id: str) -> Sentence:
    facts = dict(reason.facts)
    by = f", by {facts['by']}" if "by" in facts else ""
    return f"on hold{by}", f"tgpu release {job_id}"


def _dependency(reason: Reason, _: str) -> Sentence:
    jobs = str(reason.fact("jobs"))
    first = jobs.split(", ", maxsplit=1)[0]
    return f"waits for job {jobs} to end", f"tgpu show {first}"


def _dependency_failed(reason: Reason, job_id: str) -> Sentence:
    return f"can never start: {reason.fact('cause')}", f"tgpu rerun {job_id}"


def _backing_off(reason: Reason, job_id: str) -> Sentence:
    until = utc_text(int(reason.fact("until")))
    cause = reason.fact("cause")
    because = f" after {cause}" if cause else ""
    return (
        f"tries again at {until}{because}",
        f"tgpu logs {job_id}",
    )


def _no_such_gpu(reason: Reason, job_id: str) -> Sentence:
    return (
        f"needs a {reason.fact('gpu_type')}, and there is none; there are: {reason.fact('types')}",
        f"tgpu cancel {job_id}",
    )


def _too_large(reason: Reason, job_id: str) -> Sentence:
    resource = str(reason.fact("resource"))
    requested = amount_text(resource, reason.fact("requested"))
    largest = amount_text(resource, reason.fact("largest"))
    most = "all machines together hold" if resource == "workers" else "no machine has more than"
    by_type = dict(reason.facts).get("by_type", "")
    kind = f"{of_type} " if resource == "gpus" and (of_type := reason.fact("gpu_type")) else ""
    each = f" of one type ({by_type})" if by_type else ""
    return (
        f"needs {requested} {kind}{resource_name(resource)}; {most} {largest}{each}",
        f"tgpu cancel {job_id}",
    )


def _condition(reason: Reason, job_id: str) -> Sentence:
    return (
        f"no node satisfies its constraint {reason.fact('condition')} {reason.fact('value')}",
        f"tgpu cancel {job_id}",
    )


def _not_alone(reason: Reason, _: str) -> Sentence:
    node = reason.fact("node")
    where = f"node {node}" if node else f"{reason.fact('busy')} of the nodes it could use"
    return f"needs a node to itself, but jobs are running on {where}", "tgpu list --state running"


def _gpus_busy(reason: Reason, _: str) -> Sentence:
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


def _cpu_busy(reason: Reason, _: str) -> Sentence:
    requested, free, total = (
        gpus_text(int(reason.fact(name))) for name in ("requested", "free", "total")
    )
    return f"needs {requested} CPU cores; {free} of {total} are free", "tgpu list --state running"


def _memory_busy(reason: Reason, _: str) -> Sentence:
    requested, free, total = (
        memory_text(int(reason.fact(name))) for name in ("requested", "free", "total")
    )
    return (
        f"needs {requested} of memory; {free} of {total} are free",
        "tgpu list --state running",
    )


def _booked(reason: Reason, _: str) -> Sentence:
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


def _booking_ahead(reason: Reason, _: str) -> Sentence:
    booking, at = reason.fact("booking"), utc_text(int(reason.fact("at")))
    return f"its reservation {booking} starts at {at}", "tgpu reservations"


def _behind_reservation(reason: Reason, job_id: str) -> Sentence:
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


def _place_kept(reason: Reason, job_id: str) -> Sentence:
    return f"these GPUs go to {_other(reason)}, for which other jobs are being preempted", _look_at(
        reason, job_id
    )


def _strict_line(reason: Reason, job_id: str) -> Sentence:
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


def _promised(reason: Reason, job_id: str) -> Sentence:
    jobs = str(reason.fact("jobs"))
    who = f"job{'s' if ',' in jobs else ''} {jobs}" if jobs else "other jobs"
    return f"waits for {who} to be preempted for it", f"tgpu show {jobs.split(', ')[0] or job_id}"


def _not_chosen(reason: Reason, _: str) -> Sentence:
    policy = reason.fact("policy")
    return f"nothing blocks it, but policy {policy} has not chosen it yet", "tgpu status"


def _no_node(_: Reason, __: str) -> Sentence:
    return "no machine has reported its GPUs yet", "tgpu status"


def _next_cycle(_: Reason, __: str) -> Sentence:
    return "nothing blocks it; it starts with the next cycle", "tgpu status"


_WRITERS: dict[ReasonCode, SentenceWriter] = {
    **ADMISSION_SENTENCES,
    ReasonCode.HELD: _held,
    ReasonCode.DEPENDENCY: _dependency,
    ReasonCode.DEPENDENCY_FAILED: _dependency_failed,
    ReasonCode.BACKING_OFF: _backing_off,
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
