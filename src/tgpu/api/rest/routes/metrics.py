"""/api/v1/cluster/metrics: figures for people; Prometheus has its own at /metrics."""

from collections.abc import Sequence
from statistics import fmean, median

from fastapi import APIRouter, Request

from tgpu.api.access.visible import sight, visible_counts, visible_query
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.translate.nodes import job_nodes
from tgpu.core.model.lifecycle import TERMINAL, JobState
from tgpu.core.model.units import SECOND
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service
from tgpu.store.api import JobQuery, StoredJob
from tgpu.text.gpu_names import gpu_name
from tgpu.wire.metrics_v1 import GpuUseModel, MetricsAnswer, RunsModel, WaitingModel

router = APIRouter(tags=["cluster"])

_RAN = (JobState.COMPLETED, JobState.FAILED)
_NEWEST = 1000  # enough for a median, and one page of the store
_HIGH, _LOW = 1000, 500


@router.get("/api/v1/cluster/metrics")
async def metrics(request: Request) -> MetricsAnswer:
    """How long jobs ran, how busy the GPUs were, and waiting jobs by priority."""
    service, caller = service_of(request), caller_of(request)
    newest = visible_query(service, caller, JobQuery(states=_RAN, limit=_NEWEST))
    counts = visible_counts(service, caller)
    return MetricsAnswer(
        total_jobs=sum(counts.values()),
        ended_jobs=sum(counts[state] for state in JobState if state in TERMINAL),
        waiting=waiting(service, caller),
        runs=_runs(await service.store.jobs(newest)),
        gpus=_gpus(service),
        uptime_seconds=max(0.0, service.uptime_seconds()),
    )


def waiting(service: Service, caller: Principal) -> WaitingModel:
    """Of the caller's jobs that are not over, those that have no GPUs. Costs what classes cost."""
    found, seen = {"high": 0, "normal": 0, "low": 0}, sight(service, caller)
    for job_class, jobs in service.reads.class_counts():
        if seen.sees(job_class.tenant_id, job_class.user):
            found[_rank(job_class.priority)] += jobs
    for job, _ in service.reads.placed_jobs():
        if seen.sees_job(job):
            found[_rank(job.priority)] -= 1
    return WaitingModel(**found)


def _rank(priority: int) -> str:
    if priority >= _HIGH:
        return "high"
    return "low" if priority < _LOW else "normal"


def _runs(ended: Sequence[StoredJob]) -> RunsModel:
    spans = [
        max(0, job.progress.ended_at - job.progress.started_at) / SECOND
        for job in ended
        if job.progress.started_at is not None and job.progress.ended_at is not None
    ]
    return RunsModel(
        count=len(spans),
        mean_seconds=round(fmean(spans), 3) if spans else None,
        median_seconds=round(median(spans), 3) if spans else None,
    )


def _gpus(service: Service) -> list[GpuUseModel]:
    return [
        GpuUseModel(
            index=gpu.index,
            node=node.node_id,
            gpu_name=gpu_name(node.node_id, gpu.index),
            uuid=gpu.uuid,
            mean_percent=round(busy.mean_percent, 1),
            peak_percent=busy.peak_percent,
            readings=busy.readings,
            paused=gpu.paused,
        )
        for node in job_nodes(service)
        for gpu in node.gpus
        for busy in (service.gpu_use.of(node.node_id, gpu.uuid),)
    ]
