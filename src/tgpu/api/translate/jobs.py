"""From stored jobs and readings to the answers of /api/v1."""

from collections.abc import Iterable

from tgpu.api.translate.sentences import reason_model
from tgpu.api.translate.shown import shown_detail, shown_text
from tgpu.api.translate.submissions import signal_name
from tgpu.core.model import lifecycle
from tgpu.core.model.job import ANYWHERE, Where
from tgpu.core.model.lifecycle import PLACED, JobState
from tgpu.core.model.node import GpuName, Placement
from tgpu.core.model.reasons import Reason
from tgpu.core.model.tenant import MembersSee
from tgpu.core.model.units import CPU, GPU, SECOND
from tgpu.core.preemption.cause import named_in, without_names
from tgpu.core.projection.estimate import Estimate
from tgpu.service.attempt_key import attempt_key
from tgpu.service.execution.launch import session_of
from tgpu.service.execution.outcome import place_of
from tgpu.service.service import Service
from tgpu.store.api import FoldedJob, StoredJob
from tgpu.text.gpu_names import as_word, gpu_name, names_text
from tgpu.text.instants import utc_millis_text
from tgpu.wire.estimates_v1 import EstimateModel
from tgpu.wire.v1 import (
    AfterModel,
    ArrayModel,
    ArrayProgressModel,
    ConstraintsModel,
    JobModel,
    PlacementModel,
)


def job_model(service: Service, stored: StoredJob, waits: Reason | None) -> JobModel:
    """`waits`: why it does, as the service tells the reader."""
    job, detail, progress = stored.job, shown_detail(stored.detail), stored.progress
    request, options = job.request, job.options
    place = service.place_of(job.job_id)
    placement = progress.placement if place is None else place_of(progress, place)
    limit = options.time_limit_ms
    return JobModel(
        job_id=job.job_id,
        tenant_id=job.tenant_id,
        name=detail.name,
        user=detail.user or options.user,
        queue=job.queue,
        state=progress.state,
        held=progress.held,
        priority=job.priority,
        gpu_count=request.gpu_millis / GPU,
        gpu_type=request.gpu_type,
        gpu_memory_mb=request.gpu_mem_mib,
        cpu_cores=request.cpu_millis / CPU,
        memory_mb=request.mem_mib,
        command=list(detail.argv),
        working_dir=detail.cwd,
        image=detail.image,
        environment=dict(detail.env),
        secrets=[name for name, _ in detail.secrets],
        submitted_at=utc_millis_text(job.submitted_at),
        started_at=None if progress.started_at is None else utc_millis_text(progress.started_at),
        ended_at=None if progress.ended_at is None else utc_millis_text(progress.ended_at),
        gpus=placement.first_indexes() if placement is not None else [],
        gpu_names=gpu_names(placement),
        gpu_text=gpu_text(service, placement),
        node=placement.node_id if placement is not None else None,
        pid=progress.pid,
        exit_code=progress.exit_code,
        signal=progress.signal,
        cause=shown_cause(service, stored),
        attempt=progress.attempt,
        restarts=progress.restarts,
        max_retries=options.max_retries,
        requeue=options.requeue,
        max_runtime_minutes=None if limit is None else limit / SECOND / 60,
        after=[AfterModel(job_id=d.job_id, kind=d.kind.value) for d in job.after],
        array=None
        if job.array is None
        else ArrayModel(
            array_id=job.array.array_id,
            index=job.array.index,
            max_running=job.array.max_running,
        ),
        params=dict(detail.params),
        reason=None if waits is None else reason_model(waits, job.job_id),
        log_dir=_log_dir(service, stored),
        rerun_of=detail.rerun_of,
        workers=request.workers,
        gpus_per_worker=request.of_a_worker()[0] / GPU,
        constraints=_constraints(request.where),
        placements=[] if placement is None else _placements(placement),
        deadline=None if options.deadline_at is None else utc_millis_text(options.deadline_at),
        preemptible=options.preemptible,
        checkpoint_signal=None
        if options.checkpoint_signal is None
        else signal_name(options.checkpoint_signal),
        checkpoint_at=None
        if progress.checkpoint_at is None
        else utc_millis_text(progress.checkpoint_at),
        paused_at=None if progress.paused_at is None else utc_millis_text(progress.paused_at),
        paused_by=progress.paused_by or None,
        paused_seconds=lifecycle.paused_ms(progress, service.clock.now()) / SECOND,
        reservation=options.booking,
        preemptions=progress.preemptions,
        lost_gpu_seconds=progress.lost_gpu_millis_ms / (GPU * SECOND),
        failure=progress.fault,
        session=_session(service, stored),
        runs_in=None if detail.run_in is None else " ".join(detail.run_in),
        log_limit_mb=detail.log_limit_mib,
        estimate=estimate_model(service.estimates.of(job.job_id)),
    )


def folded_model(service: Service, row: FoldedJob, waits: Reason | None) -> JobModel:
    """A job, or the one that stands for its array."""
    model = job_model(service, row.job, waits)
    if not row.states or model.array is None:
        return model
    progress = ArrayProgressModel(
        total=sum(row.states.values()),
        states={str(state): row.states[state] for state in JobState if state in row.states},
        first_index=row.first_index,
        last_index=row.last_index,
        started_at=None if row.started_at is None else utc_millis_text(row.started_at),
        ended_at=None if row.ended_at is None else utc_millis_text(row.ended_at),
    )
    return model.model_copy(update={"array": model.array.model_copy(update={"progress": progress})})


def shown_cause(service: Service, stored: StoredJob) -> str | None:
    """Why it ended or waits again. Records of earlier versions may name another tenant's job."""
    cause = stored.progress.cause
    if cause is None:
        return None
    if named_in(cause) is None:
        return shown_text(cause, service.sealer.readable(stored.detail))
    receipt = service.receipts.of(stored.job.job_id, stored.progress.attempt)
    is_own = receipt is not None and receipt.to_tenant_id == stored.job.tenant_id
    is_hidden = service.reads.members_see(stored.job.tenant_id) is MembersSee.NOTHING
    return cause if is_own and not is_hidden else without_names(cause)


def _constraints(where: Where) -> ConstraintsModel | None:
    if where == ANYWHERE:
        return None
    return ConstraintsModel(
        gpu_types=list(where.gpu_types),
        gpu_memory_each_mb=where.gpu_mem_each_mib,
        allowed_gpus=list(map(as_word, where.gpus)),
        excluded_gpus=list(map(as_word, where.not_gpus)),
        nodes=list(where.nodes),
        excluded_nodes=list(where.not_nodes),
        labels=dict(where.labels),
        exclusive=where.exclusive,
        same_island=where.same_island,
        spread=where.spread,
    )


def gpu_names(placement: Placement | None) -> list[str]:
    return [] if placement is None else [gpu_name(*gpu) for gpu in placement.gpus()]


def gpu_text(service: Service, placement: Placement | None) -> str:
    """ "0-1", or with several nodes "a/0-1,b/0"."""
    return "" if placement is None else gpus_text(service, placement.gpus())


def gpus_text(service: Service, gpus: Iterable[GpuName]) -> str:
    return names_text(gpus, several_nodes=service.reads.has_several_nodes)


def _placements(placement: Placement) -> list[PlacementModel]:
    return [
        PlacementModel(node=part.node_id, gpus=[share.gpu_index for share in part.shares])
        for part in placement.parts()
    ]


def estimate_model(estimate: Estimate | None) -> EstimateModel | None:
    if estimate is None:
        return None
    return EstimateModel(
        p50=utc_millis_text(estimate.p50_at),
        p90=utc_millis_text(estimate.p90_at),
        as_of=utc_millis_text(estimate.as_of),
        basis=estimate.basis,
        level="" if estimate.by is None else estimate.by.level,
        samples=0 if estimate.by is None else estimate.by.samples,
        latest=None if estimate.latest_at is None else utc_millis_text(estimate.latest_at),
    )


def _session(service: Service, stored: StoredJob) -> str | None:
    progress = stored.progress
    if service.engine is None or stored.job.options.lease or progress.state not in PLACED:
        return None
    default = service.settings.launch.multiplexer
    return session_of(stored.job, stored.detail, progress, default) or None


def _log_dir(service: Service, stored: StoredJob) -> str | None:
    if service.engine is None or stored.job.options.lease or not stored.progress.attempt:
        return None
    return service.engine.log_dir(attempt_key(stored.job, stored.progress.attempt))
