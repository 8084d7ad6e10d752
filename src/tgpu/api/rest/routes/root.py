"""The tick-driven contract at the root: plain jobs, manual ticks, bulk loads."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from tgpu.api.access.claims import as_claimed
from tgpu.api.access.visible import (
    check_tenant,
    shown_name,
    sight,
    visible_counts,
    visible_job,
    visible_job_id,
    visible_tenants,
)
from tgpu.api.errors import http_error
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.loading.batch import ListItems
from tgpu.api.rest.loading.bulk import items_of, load
from tgpu.api.rest.loading.ingest import reader_for
from tgpu.api.rest.loading.plain import (
    Interned,
    NotAnObject,
    PlainJob,
    convert,
    decode,
)
from tgpu.api.rest.loading.upload import body_pieces, file_pieces, gathered
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.problem import ApiProblem
from tgpu.core.errors import IllegalMove, SchedulerError
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.units import GPU, SECOND
from tgpu.service.identity.ownership import Action
from tgpu.service.service import Service
from tgpu.wire.root_v1 import (
    EXAMPLE,
    Alive,
    LoadAnswer,
    PlainJobModel,
    PlainSubmitAnswer,
    Stats,
    TickAnswer,
)

router = APIRouter(tags=["root"])

_FARTHEST = (2**53 - 1) // SECOND
# Anything may come; what is none of the two is refused in the words of this contract.
Format = Annotated[str, Query(json_schema_extra={"enum": ["ndjson", "csv"]})]

_STATUS = {
    JobState.PENDING: "WAITING",
    JobState.PREEMPTED: "WAITING",
    JobState.SCHEDULED: "RUNNING",
    JobState.RUNNING: "RUNNING",
    JobState.COMPLETED: "COMPLETED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "CANCELLED",
}

_encode = msgspec.json.Encoder().encode


def _json(value: object, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type="application/json")


def _body(**content: dict[str, Any]) -> dict[str, Any]:
    """What a path reads by itself, for the OpenAPI document."""
    kinds = {
        "json": "application/json",
        "form": "multipart/form-data",
        "plain": "application/octet-stream",
    }
    described = {kinds[kind]: {"schema": schema} for kind, schema in content.items()}
    return {"requestBody": {"required": True, "content": described}}


_PLAIN = {**msgspec.json.schema(PlainJob)["$defs"]["PlainJob"], **EXAMPLE}
_BATCH = {"type": "array", "items": _PLAIN, "examples": [EXAMPLE["examples"]]}
_LINE = msgspec.json.encode(EXAMPLE["examples"][0]).decode()
_FILE = {
    "type": "object",
    "properties": {"file": {"type": "string", "format": "binary"}},
    "required": ["file"],
    "examples": [{"file": _LINE}],
}
_TEXT = {"type": "string", "format": "binary", "examples": [_LINE]}


@router.get("/healthz", response_model=Alive)
async def healthz(request: Request) -> dict[str, str]:
    """Whether the service answers."""
    service_of(request)
    return {"status": "ok"}


@router.post(
    "/jobs",
    status_code=201,
    response_model=PlainSubmitAnswer,
    openapi_extra=_body(json=_PLAIN),
)
async def submit(request: Request) -> Response:
    """Queue one job."""
    try:
        plain = decode(await request.body())
    except NotAnObject as error:
        raise ApiProblem(422, "VALIDATION_ERROR", f"body: must be a JSON object: {error}") from None
    service, caller = service_of(request), caller_of(request)
    job = Interned(shown_name(caller) or "").job(plain)
    check_tenant(service, caller, job.tenant_id)
    job = as_claimed(service, caller, job)
    (refused,) = await service.jobs.submit_plain([job])
    if refused is not None:
        raise refused
    return _json({"job_id": job.job_id, "status": "WAITING"}, 201)


@router.post("/jobs/batch", response_model=LoadAnswer, openapi_extra=_body(json=_BATCH))
async def submit_batch(request: Request) -> Response:
    """Queue a list of jobs, each by itself."""
    items = items_of(ListItems(), gathered(body_pieces(request)))
    return _json(await load(service_of(request), caller_of(request), "index", items, decode))


@router.post("/ingest", response_model=LoadAnswer, openapi_extra=_body(form=_FILE, plain=_TEXT))
async def ingest(request: Request, fmt: Format = "") -> Response:
    """Queue the jobs of an uploaded file: one JSON object per line, or CSV with a header."""
    if fmt not in ("ndjson", "csv"):
        raise ApiProblem(400, "BAD_FORMAT", f"fmt: must be ndjson or csv (got {fmt[:40]!r})")
    service = service_of(request)
    items = items_of(reader_for(fmt), gathered(file_pieces(request)))
    to_plain = decode if fmt == "ndjson" else convert
    return _json(await load(service, caller_of(request), "line", items, to_plain))


@router.post("/schedule", response_model=TickAnswer)
async def tick(request: Request, now: int = Query(ge=-_FARTHEST, le=_FARTHEST)) -> dict[str, Any]:
    """Run one scheduling cycle at `now` (seconds, on the manual clock)."""
    service = service_of(request)
    plan = await service.tick(now * SECOND)
    return {
        "started": [start.job_id for start in plan.starts],
        "waiting": service.reads.pending_count(),
    }


@router.post("/jobs/{job_id}/complete", response_model=PlainSubmitAnswer)
async def complete(request: Request, job_id: Name) -> dict[str, str]:
    """Complete a running job and give its GPUs back."""
    service = service_of(request)
    try:
        job = await visible_job_id(service, caller_of(request), job_id, Action.COMPLETE)
        state = await service.jobs.complete(job)
    except IllegalMove as error:
        raise ApiProblem(400, "INVALID_STATE", _root_words(error)) from None
    except SchedulerError as error:
        if http_error(error).code == "CONFLICT":
            raise ApiProblem(400, "INVALID_STATE", error.message) from None
        raise
    return {"job_id": job_id, "status": _STATUS[state]}


@router.get("/jobs/{job_id}", response_model=PlainJobModel)
async def job_status(request: Request, job_id: Name) -> dict[str, Any]:
    """A job and its status."""
    stored = await visible_job(service_of(request), caller_of(request), job_id)
    job, progress = stored.job, stored.progress
    return {
        "job_id": job.job_id,
        "status": _STATUS[progress.state],
        "tenant_id": job.tenant_id,
        "gpu_type": job.request.gpu_type,
        "gpus": _count(job.request.gpu_millis),
        "priority": job.priority,
        "submitted_at": job.submitted_at // SECOND,
        "started_at": None if progress.started_at is None else progress.started_at // SECOND,
        "completed_at": None if progress.ended_at is None else progress.ended_at // SECOND,
    }


@router.get("/stats", response_model=Stats)
async def stats(request: Request) -> dict[str, Any]:
    """Counts, running jobs, capacity and quotas."""
    service = service_of(request)
    caller = caller_of(request)
    counts = dict.fromkeys(("WAITING", "RUNNING", "COMPLETED"), 0)
    by_state, seen = visible_counts(service, caller), sight(service, caller)
    for state, count in by_state.items():
        if count:
            counts[_STATUS[state]] = counts.get(_STATUS[state], 0) + count
    return {
        "total_jobs": sum(counts.values()),
        "jobs": counts,
        "running": [job.job_id for job, _ in service.reads.placed_jobs() if seen.sees_job(job)],
        "waiting": by_state[JobState.PENDING],
        "capacity": _capacity(service),
        "tenant_quotas": {
            tenant.tenant_id: {
                gpu_type: _count(millis) for gpu_type, millis in tenant.max_gpu_millis_by_type
            }
            for tenant in visible_tenants(service, caller)
        },
    }


def _capacity(service: Service) -> dict[str, dict[str, int | float]]:
    total: dict[str, int] = {}
    used: dict[str, int] = {}
    for held in service.reads.node_allocations():
        for gpu in held.node.gpus:
            total[gpu.gpu_type] = total.get(gpu.gpu_type, 0) + GPU
            used[gpu.gpu_type] = used.get(gpu.gpu_type, 0) + held.taken_millis(gpu)
    available = {name: total[name] - used[name] for name in total}
    named = {"total": total, "used": used, "available": available}
    return {
        name: {gpu_type: _count(millis) for gpu_type, millis in sorted(amounts.items())}
        for name, amounts in named.items()
    }


def _count(millis: int) -> int | float:
    return millis // GPU if millis % GPU == 0 else millis / GPU


def _root_words(error: IllegalMove) -> str:
    detail = error.details[0]
    status = _STATUS[JobState(str(detail["state"]))]
    return f"job {detail['job_id']} is {status}, not RUNNING"
