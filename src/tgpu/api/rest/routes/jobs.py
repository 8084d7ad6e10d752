"""/api/v1/jobs: submit, list, look, change, wait, why, logs."""

from typing import Annotated, Literal

from fastapi import Query, Request, Response

from tgpu.api.access.claims import highest_priority
from tgpu.api.access.visible import (
    as_seen,
    checked_submission,
    sight,
    visible_job,
    visible_job_id,
    waiting_reason,
)
from tgpu.api.operations.cancelling import cancel_named
from tgpu.api.operations.editing import edit_named
from tgpu.api.operations.job_page import job_page
from tgpu.api.operations.pausing import pause_named
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.logs import read_log
from tgpu.api.rest.parameters import Name, Words
from tgpu.api.rest.route import Router
from tgpu.api.translate.fate import fate_of
from tgpu.api.translate.job_answers import states_of, submit_answer
from tgpu.api.translate.jobs import gpu_text, job_model, shown_cause
from tgpu.api.translate.prediction import predicted_job_model
from tgpu.api.translate.submissions import submission_of
from tgpu.api.translate.why import why_answer
from tgpu.core.model.ids import TenantId
from tgpu.service.commands.rerun import rerun_detail
from tgpu.service.identity.ownership import Action
from tgpu.service.recording.audit import concerns
from tgpu.store.api import JobQuery
from tgpu.wire.job_change_v1 import JobChange
from tgpu.wire.v1 import (
    ActionAnswer,
    JobList,
    JobModel,
    SubmitAnswer,
    SubmitRequest,
    WhyAnswer,
)

router = Router(prefix="/api/v1/jobs", tags=["jobs"])


@router.post(
    "",
    status_code=201,
    responses={200: {"model": SubmitAnswer, "description": "It existed already"}},
)
async def submit(request: Request, response: Response, body: SubmitRequest) -> SubmitAnswer:
    """Queue a job, an array or a sweep."""
    service = service_of(request)
    submission = await checked_submission(service, caller_of(request), submission_of(body))
    submitted = await service.jobs.submit(submission)
    if submitted.repeated:
        response.status_code = 200
    return submit_answer(submitted)


@router.get("", response_model=JobList)
async def list_jobs(
    request: Request,
    *,
    state: Words = "",
    tenant_id: Name | None = None,
    name: Words = "",
    user: Name = "",
    array_id: Name | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    fold: bool = False,
    count: bool = False,
) -> Response:
    """Jobs, newest first. `state` takes several, with commas.

    With `fold`, an array or sweep is shown as one job, its next one, with the progress of all in
    `array.progress`. With `count`, `total` is the number of jobs on all pages.
    """
    service = service_of(request)
    caller = caller_of(request)
    query = JobQuery(
        states=states_of(state),
        tenant_id=None if tenant_id is None else TenantId(tenant_id),
        name_contains=name,
        user=user,
        array_id=array_id,
        before=cursor,
        limit=limit,
    )
    await service.look_ahead()
    page = await job_page(service, caller, query, fold=fold, count=count)
    return Response(page, media_type="application/json")


@router.get("/{job}")
async def get_job(
    request: Request, job: Name, to: Literal["see", "shell", "attach"] = "see"
) -> JobModel:
    """The current state of a job. `last` is the newest one, here and everywhere below.

    With `to`, for callers about to enter it on its machine: 403 if it is not theirs.
    """
    service = service_of(request)
    await service.look_ahead()
    caller = caller_of(request)
    stored = await visible_job(service, caller, job, Action[to.upper()])
    return predicted_job_model(service, stored, waiting_reason(service, caller, stored))


@router.delete("/{job}")
async def cancel(request: Request, response: Response, job: Name) -> ActionAnswer:
    """Cancel a job or an array, with all processes; 202: the record follows later."""
    answer = await cancel_named(service_of(request), caller_of(request), job)
    response.status_code = 200 if answer.recorded else 202
    return answer


@router.patch("/{job}")
async def change(request: Request, job: Name, body: JobChange) -> ActionAnswer:
    """Change a waiting job, or the waiting jobs of an array; checked like a submission."""
    return await edit_named(service_of(request), caller_of(request), job, body)


@router.post("/{job}/hold")
async def hold(request: Request, job: Name) -> ActionAnswer:
    """Keep a waiting job from starting."""
    service = service_of(request)
    job_id = await visible_job_id(service, caller_of(request), job, Action.HOLD)
    state = await service.jobs.hold(job_id, held=True)
    return ActionAnswer(job_id=job_id, status=state, message="Job is on hold")


@router.post("/{job}/release")
async def release(request: Request, job: Name) -> ActionAnswer:
    """Let a held job start."""
    service = service_of(request)
    job_id = await visible_job_id(service, caller_of(request), job, Action.RELEASE)
    state = await service.jobs.hold(job_id, held=False)
    return ActionAnswer(job_id=job_id, status=state, message="Job is released")


@router.post("/{job}/pause")
async def pause(request: Request, job: Name) -> ActionAnswer:
    """Pause all processes of a running job. It keeps its GPUs and memory."""
    return await pause_named(service_of(request), caller_of(request), job, paused=True)


@router.post("/{job}/resume")
async def resume(request: Request, job: Name) -> ActionAnswer:
    """Resume a paused job."""
    return await pause_named(service_of(request), caller_of(request), job, paused=False)


@router.post("/{job}/complete")
async def complete(request: Request, job: Name) -> ActionAnswer:
    """Give back the GPUs of a lease."""
    service = service_of(request)
    job_id = await visible_job_id(service, caller_of(request), job, Action.COMPLETE)
    state = await service.jobs.complete(job_id)
    return ActionAnswer(job_id=job_id, status=state, message="Lease completed")


@router.post("/{job}/checkpoint")
async def checkpoint(request: Request, job: Name) -> ActionAnswer:
    """Mark that a running job has just saved its work."""
    service = service_of(request)
    job_id = await visible_job_id(service, caller_of(request), job, Action.CHECKPOINT)
    state = await service.jobs.checkpoint(job_id)
    return ActionAnswer(job_id=job_id, status=state, message="Job has marked a checkpoint")


@router.post("/{job}/rerun", status_code=201)
async def rerun(request: Request, job: Name) -> SubmitAnswer:
    """Queue a new job with the content of this one."""
    service = service_of(request)
    caller = caller_of(request)
    stored = await visible_job(service, caller, job, Action.RERUN)
    job_id = stored.job.job_id
    concerns(job_id)
    detail, with_environment = await rerun_detail(service.run_as, caller, stored)
    submitted = await service.jobs.rerun(
        job_id,
        detail=detail,
        with_environment=with_environment,
        most=lambda tenant_id: highest_priority(service, caller, tenant_id),
    )
    return submit_answer(submitted)


@router.get("/{job}/wait")
async def wait(
    request: Request,
    job: Name,
    seconds: Annotated[float, Query(alias="timeout", ge=0, le=60)] = 20,
) -> JobModel:
    """The job when it has ended, or its state after `timeout` seconds."""
    service = service_of(request)
    caller = caller_of(request)
    job_id = (await visible_job(service, caller, job)).job.job_id
    await service.wait_until_over(job_id, seconds)
    stored = as_seen(service, caller, await service.job(job_id))
    return job_model(service, stored, waiting_reason(service, caller, stored))


@router.get("/{job}/why")
async def why(request: Request, job: Name) -> WhyAnswer:
    """Why a job waits, and what would start it; for other jobs, their state."""
    service, caller = service_of(request), caller_of(request)
    stored = await visible_job(service, caller, job)
    job_id = stored.job.job_id
    await service.look_ahead()
    seen = sight(service, caller)
    told = await service.reasons.why(job_id, service.clock.now(), seen)
    if told is None:
        return WhyAnswer(
            job_id=job_id,
            state=stored.progress.state,
            reason=fate_of(
                stored,
                shown_cause(service, stored),
                gpu_text(service, stored.progress.placement),
                service.standing_of(job_id),
                service.place_of(job_id),
            ),
        )
    theirs = service.reads.permits(caller, Action.CANCEL, stored.job)
    return why_answer(service, stored, told, seen, theirs=theirs)


@router.get(
    "/{job}/logs",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def logs(
    request: Request,
    job: Name,
    *,
    stream: Literal["stdout", "stderr"] = "stdout",
    offset: Annotated[int, Query(ge=-(2**53), le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000_000)] = 1_000_000,
    attempt: Annotated[int | None, Query(ge=1, le=2**31)] = None,
    wait: Annotated[float, Query(ge=0, le=60)] = 0,
) -> Response:
    """A piece of a job's log, as it was written."""
    service = service_of(request)
    stored = await visible_job(service, caller_of(request), job, Action.LOGS)
    read = await read_log(service, stored, stream, offset, limit=limit, attempt=attempt, wait=wait)
    piece = read.piece
    return Response(
        piece.data,
        media_type="application/octet-stream",
        headers={
            "X-Log-Offset": str(piece.offset),
            "X-Log-Size": str(piece.size),
            "X-Log-Left-Out": str(piece.left_out),
            "X-Log-Complete": "true" if read.complete else "false",
        },
    )
