"""The answer to `why`: the reason, the blockers, when it starts, and what would start it."""

from collections.abc import Callable
from typing import Final

from tgpu.api.translate.jobs import estimate_model
from tgpu.api.translate.resubmit import resubmit_command, span_text
from tgpu.api.translate.sentences import reason_model
from tgpu.api.translate.shown import shown_detail
from tgpu.core.explain.ahead import Ahead
from tgpu.core.explain.blockers import Blocker
from tgpu.core.explain.changes import ChangeKind, RequestChange
from tgpu.core.model.job import Job
from tgpu.core.model.reasons import ReasonCode
from tgpu.core.model.units import CPU, GPU, SECOND, gpus_text
from tgpu.service.identity.ownership import Sight
from tgpu.service.service import Service
from tgpu.service.why import Told
from tgpu.store.api import StoredJob
from tgpu.text.gpu_names import gpu_name
from tgpu.text.instants import utc_millis_text
from tgpu.text.masking import MASK
from tgpu.text.sizes import exact_size_text
from tgpu.wire.v1 import AheadModel, BlockerModel, ChangeModel, FieldValue, WhyAnswer

_SHOWN: Final = 20  # blockers; how many there are is said as well


def why_answer(
    service: Service, stored: StoredJob, told: Told, sight: Sight, *, theirs: bool = True
) -> WhyAnswer:
    """`theirs`: whether the reader could submit it anew, and so is told with which command."""
    job_id = stored.job.job_id
    # One value for both, or the answer could contradict itself.
    ahead = told.reason.code is ReasonCode.BOOKING_AHEAD  # then it is the earliest, not the latest
    estimate = service.estimates.of(job_id, None if ahead else told.starts_by)
    starts_by = told.starts_by if ahead or estimate is None else estimate.latest_at
    return WhyAnswer(
        job_id=job_id,
        state=stored.progress.state,
        reason=reason_model(told.reason, job_id),
        blockers=[_blocker(service, one, sight) for one in told.blockers[:_SHOWN]],
        blocker_count=len(told.blockers),
        ahead=None if told.ahead is None else _ahead(service, told.ahead, sight),
        starts_by=None if starts_by is None else utc_millis_text(starts_by),
        change=None
        if told.change is None
        else _change(service, stored, told.change, theirs=theirs),
        estimate=estimate_model(estimate),
    )


def _blocker(service: Service, one: Blocker, sight: Sight) -> BlockerModel:
    visible = sight.sees(one.tenant_id, one.user)
    live = service.reads.job(one.job_id)
    return BlockerModel(
        job_id=one.job_id if visible else None,
        tenant_id=one.tenant_id if visible else None,
        user=one.user if visible else None,
        gpu_count=one.gpu_millis / GPU,
        node=one.node_id,
        gpus=list(one.gpus),
        gpu_names=[gpu_name(*gpu) for gpu in one.held],
        ends_by=None if one.ends_by is None else utc_millis_text(one.ends_by),
        paused=live is not None and live.progress.paused_at is not None,
    )


def _ahead(service: Service, ahead: Ahead, sight: Sight) -> AheadModel:
    found = [service.reads.job(job_id) for job_id in ahead.first]
    visible = [live.job.job_id for live in found if live is not None and sight.sees_job(live.job)]
    return AheadModel(count=ahead.jobs, first=list(visible))


def _change(
    service: Service, stored: StoredJob, change: RequestChange, *, theirs: bool
) -> ChangeModel:
    sentence, fields = in_words(stored.job, change)
    command = ""
    if theirs and stored.job.array is None:  # an element of an array cannot be submitted alone
        detail = shown_detail(stored.detail)
        env = {name: value for name, value in detail.env if MASK not in value}
        tenant = service.reads.tenant(stored.job.tenant_id)
        command = resubmit_command(
            stored.job.job_id, change.job, detail, env, tenant.usual_priority
        )
    return ChangeModel(sentence=sentence, command=command, fields=fields)


_Written = tuple[str, dict[str, FieldValue]]


def in_words(old: Job, change: RequestChange) -> _Written:
    """A sentence, and the fields of a submission that would be others."""
    return _WRITERS[change.kind](old, change)


def _queue(_: Job, change: RequestChange) -> _Written:
    name = change.job.queue
    return f"in queue {name} it would start now", {"queue": name}


def _time_limit(old: Job, change: RequestChange) -> _Written:
    limit = change.job.options.time_limit_ms or 0
    text = span_text(limit)
    kind = "a time limit" if old.options.time_limit_ms is None else "a shorter time limit"
    return f"with {kind} of {text} it would start now", {"max_runtime": limit / SECOND}


def _gpu_type(_: Job, change: RequestChange) -> _Written:
    name = change.job.request.gpu_type or ""
    return f"on {name} it would start now", {"gpu_type": name, "gpu_types": []}


# By the field of `Where`: the field of a submission, what leaving it out means, in words.
_CONDITIONS: Final[dict[str, tuple[str, FieldValue, str]]] = {
    "not_nodes": ("excluded_nodes", [], "without excluded nodes"),
    "not_gpus": ("excluded_gpus", [], "without excluded GPUs"),
    "gpus": ("allowed_gpus", [], "on any GPU, not only those it names,"),
    "nodes": ("nodes", [], "on any node, not only those it names,"),
    "labels": ("labels", {}, "without labels"),
    "exclusive": ("exclusive", False, "beside other jobs"),
    "same_island": ("same_island", False, "without NVLink between its GPUs"),
    "gpu_mem_each_mib": ("gpu_memory_each_mb", 0, "on GPUs of any size"),
}


def _condition(_: Job, change: RequestChange) -> _Written:
    field, none, words = _CONDITIONS[change.name]
    return f"{words} it would start now", {field: none}


def _booking(_: Job, __: RequestChange) -> _Written:
    return "outside its reservation it would start now", {"reservation": None}


def _memory(_: Job, change: RequestChange) -> _Written:
    each = change.job.request.mem_mib // change.job.request.workers
    return f"with {exact_size_text(each)} of memory it would start now", {"memory_mb": each}


def _gpu_memory(_: Job, change: RequestChange) -> _Written:
    each = change.job.request.gpu_mem_mib // change.job.request.workers
    return f"with {exact_size_text(each)} of GPU memory it would start now", {"gpu_memory_mb": each}


def _cpu(_: Job, change: RequestChange) -> _Written:
    each = change.job.request.cpu_millis // change.job.request.workers
    return f"with {gpus_text(each)} CPU cores it would start now", {"cpu_cores": each / CPU}


def _workers(_: Job, change: RequestChange) -> _Written:
    count = change.job.request.workers
    word = "worker" if count == 1 else "workers"
    return f"with {count} {word} it would start now", {"workers": count}


def _gpus(_: Job, change: RequestChange) -> _Written:
    request = change.job.request
    millis = request.gpu_millis // request.workers
    word = "GPU" if millis <= GPU else "GPUs"
    each = " for each worker" if request.workers > 1 else ""
    fields: dict[str, FieldValue] = {"gpu_count": millis / GPU}
    if request.gpu_mem_mib:
        fields["gpu_memory_mb"] = request.gpu_mem_mib // request.workers
    return f"with {gpus_text(millis)} {word}{each} it would start now", fields


_WRITERS: Final[dict[ChangeKind, Callable[[Job, RequestChange], _Written]]] = {
    ChangeKind.QUEUE: _queue,
    ChangeKind.TIME_LIMIT: _time_limit,
    ChangeKind.GPU_TYPE: _gpu_type,
    ChangeKind.CONDITION: _condition,
    ChangeKind.BOOKING: _booking,
    ChangeKind.MEMORY: _memory,
    ChangeKind.GPU_MEMORY: _gpu_memory,
    ChangeKind.CPU: _cpu,
    ChangeKind.WORKERS: _workers,
    ChangeKind.GPUS: _gpus,
}
