"""The tick-driven contract at the root: plain jobs, manual ticks, bulk loads."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gpu_scheduler.api.errors import http_error
from gpu_scheduler.api.rest.access import service_of
from gpu_scheduler.api.rest.plain import (
    Interned,
    NotAnObject,
    PlainJob,
    convert,
    csv_header_complaint,
    csv_rows,
    decode,
    decode_list,
    job_id_in,
    ndjson_lines,
)
from gpu_scheduler.api.rest.problem import Problem
from gpu_scheduler.api.rest.upload import uploaded_file
from gpu_scheduler.core.errors import IllegalMove, InvalidRequest, SchedulerError, Unavailable
from gpu_scheduler.core.job import Job
from gpu_scheduler.core.lifecycle import JobState
from gpu_scheduler.core.units import GPU, SECOND
from gpu_scheduler.service.service import Service

router = APIRouter(tags=["root"])

_FARTHEST = (2**53 - 1) // SECOND
# Jobs recorded by one commit of a bulk load: large enough that the flush is shared by many, small
# enough that others are served in between.
_CHUNK = 5_000

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
    kinds = {"json": "application/json", "form": "multipart/form-data"}
    described = {kinds[kind]: {"schema": schema} for kind, schema in content.items()}
    return {"requestBody": {"required": True, "content": described}}


_PLAIN = msgspec.json.schema(PlainJob)["$defs"]["PlainJob"]
_FILE = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}


@router.get("/healthz")
async def healthz(request: Request) -> dict[str, str]:
    """Whether the service answers."""
    service_of(request)
    return {"status": "ok"}


@router.post("/jobs", status_code=201, openapi_extra=_body(json=_PLAIN))
async def submit(request: Request) -> Response:
    """Queue one job."""
    try:
        plain = decode(await request.body())
    except NotAnObject as error:
        raise Problem(422, "VALIDATION_ERROR", f"body: must be a JSON object: {error}") from None
    job = Interned().job(plain)
    (refused,) = await service_of(request).jobs.submit_plain([job])
    if refused is not None:
        raise refused
    return _json({"job_id": job.job_id, "status": "WAITING"}, 201)


@router.post("/jobs/batch", openapi_extra=_body(json={"type": "array", "items": _PLAIN}))
async def submit_batch(request: Request) -> Response:
    """Queue a list of jobs, each for itself."""
    try:
        values = decode_list(await request.body())
    except NotAnObject as error:
        message = f"body: must be a JSON list of jobs: {error}"
        raise Problem(422, "VALIDATION_ERROR", message) from None
    return _json(await _load(service_of(request), "index", enumerate(values), convert))


@router.post("/ingest", openapi_extra=_body(form=_FILE))
async def ingest(request: Request, fmt: str = "") -> Response:
    """Queue the jobs of an uploaded file: one JSON object a line, or CSV with a header."""
    if fmt not in ("ndjson", "csv"):
        raise Problem(400, "BAD_FORMAT", f"fmt: must be ndjson or csv (got {fmt!r})")
    service = service_of(request)
    data = await uploaded_file(request)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, "BAD_ENCODING", f"the file is not UTF-8: {error}") from None
    if fmt == "ndjson":
        return _json(await _load(service, "line", ndjson_lines(data), decode))
    if (complaint := csv_header_complaint(text.removeprefix("\ufeff"))) is not None:
        raise InvalidRequest("file", text[:60], complaint)
    return _json(await _load(service, "line", csv_rows(text.removeprefix("\ufeff")), _from_row))


@router.post("/schedule")
async def tick(request: Request, now: int = Query(ge=-_FARTHEST, le=_FARTHEST)) -> dict[str, Any]:
    """Run one scheduling cycle at `now` (seconds, on the manual clock)."""
    service = service_of(request)
    plan = await service.tick(now * SECOND)
    return {
        "started": [start.job_id for start in plan.starts],
        "waiting": service.state.pending_count(),
    }


@router.post("/jobs/{job_id}/complete")
async def complete(request: Request, job_id: str) -> dict[str, str]:
    """Complete a running job and give its GPUs back."""
    service = service_of(request)
    try:
        state = await service.jobs.complete(await service.resolve(job_id))
    except IllegalMove as error:
        raise Problem(400, "INVALID_STATE", _root_words(error)) from None
    except SchedulerError as error:
        if http_error(error).code == "CONFLICT":
            raise Problem(400, "INVALID_STATE", error.message) from None
        raise
    return {"job_id": job_id, "status": _STATUS[state]}


@router.get("/jobs/{job_id}")
async def job_status(request: Request, job_id: str) -> dict[str, Any]:
    """A job and its status."""
    stored = await service_of(request).job(job_id)
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


@router.get("/stats")
async def stats(request: Request) -> dict[str, Any]:
    """The scheduler's state at a glance."""
    service = service_of(request)
    counts = dict.fromkeys(("WAITING", "RUNNING", "COMPLETED"), 0)
    for state, count in service.state.counts.items():
        if count:
            counts[_STATUS[state]] = counts.get(_STATUS[state], 0) + count
    return {
        "total_jobs": sum(counts.values()),
        "jobs": counts,
        "running": [entry.job.job_id for entry in service.state.placed()],
        "waiting": service.state.pending_count(),
        "capacity": _capacity(service),
        "tenant_quotas": {
            use.tenant.tenant_id: {
                gpu_type: _count(millis) for gpu_type, millis in use.tenant.max_gpu_millis_by_type
            }
            for use in service.state.ledger.tenants.values()
        },
    }


async def _load(
    service: Service,
    place: str,
    items: Iterable[tuple[int, Any]],
    to_plain: Callable[[Any], PlainJob],
) -> dict[str, Any]:
    """Queue many jobs in chunks; what is wrong with one stops no other."""
    loader = _Loader(service, place)
    # One chunk is recorded while the next is read.
    recording: asyncio.Task[None] | None = None
    for number, item in items:
        loader.take(number, item, to_plain)
        if len(loader.jobs) >= _CHUNK:
            if recording is not None:
                await recording
            recording = asyncio.create_task(loader.flush())
            await asyncio.sleep(0)
    if recording is not None:
        await recording
    await loader.flush()
    loader.rejected.sort(key=lambda row: row[place])
    counts = {"accepted": len(loader.accepted), "rejected": len(loader.rejected)}
    return {"accepted": loader.accepted, "rejected": loader.rejected, "counts": counts}


class _Loader:
    def __init__(self, service: Service, place: str) -> None:
        self._service = service
        self._place = place
        self._interned = Interned()
        self.jobs: list[Job] = []
        self._numbers: list[int] = []
        self.accepted: list[str] = []
        self.rejected: list[dict[str, Any]] = []

    def take(self, number: int, item: Any, to_plain: Callable[[Any], PlainJob]) -> None:
        try:
            job = self._interned.job(to_plain(item))
        except NotAnObject as error:
            self._reject(number, None, "PARSE_ERROR", str(error))
        except InvalidRequest as error:
            code = "PARSE_ERROR" if error.field == "body" else "VALIDATION_ERROR"
            self._reject(number, job_id_in(item), code, error.message)
        else:
            self.jobs.append(job)
            self._numbers.append(number)

    async def flush(self) -> None:
        jobs, numbers = self.jobs, self._numbers
        self.jobs, self._numbers = [], []
        if not jobs:
            return
        refusals: list[SchedulerError | None]
        try:
            refusals = await self._service.jobs.submit_plain(jobs)
        except Unavailable as error:
            # Chunks before this one are on record: the answer must say which jobs those are.
            refusals = [error for _ in jobs]
        for job, number, refusal in zip(jobs, numbers, refusals, strict=True):
            if refusal is None:
                self.accepted.append(job.job_id)
            else:
                self._reject(number, job.job_id, http_error(refusal).code, refusal.message)

    def _reject(self, number: int, job_id: str | None, code: str, message: str) -> None:
        self.rejected.append(
            {self._place: number, "job_id": job_id, "code": code, "message": message}
        )


def _from_row(row: dict[str, Any] | str) -> PlainJob:
    if isinstance(row, str):
        raise NotAnObject(row)
    return convert(row)


def _capacity(service: Service) -> dict[str, dict[str, int | float]]:
    total: dict[str, int] = {}
    used: dict[str, int] = {}
    for use in service.state.ledger.nodes.values():
        for gpu in use.node.gpus:
            total[gpu.gpu_type] = total.get(gpu.gpu_type, 0) + GPU
            taken = use.gpu_millis.get(gpu.index, 0)
            used[gpu.gpu_type] = used.get(gpu.gpu_type, 0) + taken
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
