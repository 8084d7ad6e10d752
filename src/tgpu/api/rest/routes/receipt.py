"""/api/v1/jobs/{job}/receipt: what a job used."""

from decimal import Decimal

from fastapi import APIRouter, Request

from tgpu.api.access.visible import visible_job
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.translate.jobs import gpus_text, shown_cause
from tgpu.api.translate.shown import shown_detail
from tgpu.core.accounting.receipt import AttemptUse
from tgpu.core.model.units import GPU, GPU_HOUR, SECOND, gpu_hours
from tgpu.core.projection.estimate import Announced
from tgpu.service.accounting.job_receipt import job_receipt
from tgpu.service.service import Service
from tgpu.text.gpu_names import gpu_name
from tgpu.text.instants import utc_millis_text
from tgpu.wire.receipt_v1 import AnnouncedModel, AttemptUseModel, ReceiptModel

router = APIRouter(tags=["jobs"])


@router.get("/api/v1/jobs/{job}/receipt")
async def receipt(request: Request, job: Name) -> ReceiptModel:
    """How long a job waited and ran, its GPU time by attempt, and its cost."""
    service = service_of(request)
    stored = await visible_job(service, caller_of(request), job)
    used = await job_receipt(service.store, stored, service.clock.now())
    told, progress = stored.job, stored.progress
    return ReceiptModel(
        job_id=told.job_id,
        tenant_id=told.tenant_id,
        user=stored.detail.user or told.options.user,
        name=shown_detail(stored.detail).name,
        state=progress.state,
        failure=progress.fault,
        cause=shown_cause(service, stored),
        submitted_at=utc_millis_text(told.submitted_at),
        ended_at=None if progress.ended_at is None else utc_millis_text(progress.ended_at),
        wait_seconds=used.wait_ms / SECOND,
        announced=_announced(service.estimates.announced(told.job_id)),
        run_seconds=used.run_ms / SECOND,
        paused_seconds=used.paused_ms / SECOND,
        gpu_count=told.request.gpu_millis / GPU,
        gpu_hours=gpu_hours(used.gpu_millis_ms),
        lost_gpu_hours=gpu_hours(progress.lost_gpu_millis_ms),
        peak_gpu_memory_mb=service.gpu_monitor.memory_history.of_job(told.job_id),
        cost=_cost(service.settings.cost_per_gpu_hour, used.gpu_millis_ms),
        attempts=[_attempt(service, each) for each in used.attempts],
        complete=used.complete,
    )


def _attempt(service: Service, use: AttemptUse) -> AttemptUseModel:
    return AttemptUseModel(
        attempt=use.attempt,
        started_at=utc_millis_text(use.started_at),
        ended_at=None if use.ended_at is None else utc_millis_text(use.ended_at),
        run_seconds=use.run_ms / SECOND,
        paused_seconds=use.paused_ms / SECOND,
        gpu_hours=gpu_hours(use.gpu_millis_ms),
        gpus=[gpu.gpu_index for gpu in use.gpus if gpu.node_id == use.gpus[0].node_id],
        gpu_names=[gpu_name(*gpu) for gpu in use.gpus],
        gpu_text=gpus_text(service, use.gpus),
        failure=use.fault,
    )


def _announced(told: Announced | None) -> AnnouncedModel | None:
    if told is None:
        return None
    began = told.started_at
    return AnnouncedModel(
        at=utc_millis_text(told.at),
        p50=utc_millis_text(told.p50_at),
        p90=utc_millis_text(told.p90_at),
        started_at=None if began is None else utc_millis_text(began),
        error_seconds=None if began is None else (began - told.p50_at) / SECOND,
        before_p90=None if began is None else began <= told.p90_at,
    )


def _cost(price: float, gpu_millis_ms: int) -> float | None:
    # Decimal: sums of money are expected to add up.
    exact = Decimal(str(price))
    return round(float(Decimal(gpu_millis_ms) * exact / GPU_HOUR), 4) if exact else None
