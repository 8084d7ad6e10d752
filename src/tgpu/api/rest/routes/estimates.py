"""Start estimates before submission, and how accurate estimates were."""

from typing import Annotated, Final

from fastapi import Query, Request

from tgpu.api.access.visible import checked_submission
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.route import Router
from tgpu.api.translate.jobs import estimate_model
from tgpu.api.translate.resubmit import span_text
from tgpu.api.translate.submissions import submission_of
from tgpu.api.translate.why import in_words
from tgpu.core.model.job import Job
from tgpu.core.model.units import SECOND
from tgpu.core.projection.estimate import Accuracy, Basis, Estimate, accuracy, by_queue
from tgpu.core.projection.start_sooner import SoonerStart
from tgpu.service.forecast.start_inquiries import StartForecast, forecast_start
from tgpu.text.instants import utc_millis_text
from tgpu.wire.estimates_v1 import (
    AccuracyAnswer,
    AccuracyModel,
    EstimateAnswer,
    QueueAccuracyModel,
    SoonerModel,
)
from tgpu.wire.v1 import SubmitRequest

router = Router(tags=["estimates"])

_DAY_MS: Final = 86_400_000
_NOW: Final = "now"


@router.post("/api/v1/jobs/estimate")
async def estimate(request: Request, body: SubmitRequest) -> EstimateAnswer:
    """When a submission would start, and what would start it sooner. Nothing is queued."""
    service = service_of(request)
    submission = await checked_submission(service, caller_of(request), submission_of(body))
    jobs, notes = await service.jobs.rehearse(submission)
    found = StartForecast(service.clock.now())
    if not submission.held:
        found = await forecast_start(service.estimates, jobs)
    return EstimateAnswer(
        jobs=len(jobs),
        starts_now=_is_now(found.estimate, found.now),
        held=submission.held,
        estimate=estimate_model(found.estimate),
        last=estimate_model(found.last),
        sooner=[_sooner(jobs[0], one, when, found.now) for one, when in found.sooner],
        warnings=list(notes),
    )


@router.get("/api/v1/scheduler/accuracy")
async def how_accurate(
    request: Request,
    days: Annotated[float, Query(gt=0, le=36_500)] = 30,
    tenant_id: Name | None = None,
) -> AccuracyAnswer:
    """How often jobs that had to wait started within their estimate."""
    service, caller = service_of(request), caller_of(request)
    since = service.clock.now() - round(days * _DAY_MS)
    told = [
        one
        for one in service.estimates.scored(since)
        if caller.sees(one.tenant_id) and tenant_id in (None, one.tenant_id)
    ]
    return AccuracyAnswer(
        days=days,
        since=utc_millis_text(since),
        total=_accuracy(accuracy(told)),
        queues=[
            QueueAccuracyModel(tenant_id=tenant, queue=queue, **_accuracy(found).model_dump())
            for tenant, queue, found in by_queue(told)
        ],
    )


def _is_now(found: Estimate | None, now: int) -> bool:
    return found is not None and found.basis is Basis.NEXT_CYCLE and found.p50_at <= now


def _sooner(job: Job, one: SoonerStart, when: Estimate, now: int) -> SoonerModel:
    sentence, fields = in_words(job, one.change)
    model = estimate_model(when)
    assert model is not None
    if not _is_now(when, now) and sentence.endswith(_NOW):
        sentence = f"{sentence.removesuffix(_NOW)}in about {span_text(when.p50_at - now)}"
    return SoonerModel(
        sentence=sentence, fields=dict(fields), starts_now=_is_now(when, now), estimate=model
    )


def _accuracy(found: Accuracy) -> AccuracyModel:
    return AccuracyModel(
        jobs=found.jobs,
        before_p50=_share(found.before_p50, found.jobs),
        before_p90=_share(found.before_p90, found.jobs),
        median_error_seconds=found.median_error_ms / SECOND,
        median_wait_seconds=found.median_wait_ms / SECOND,
        median_window_seconds=found.median_window_ms / SECOND,
    )


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
