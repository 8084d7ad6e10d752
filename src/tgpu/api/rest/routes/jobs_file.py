"""/api/v1/jobs-file: the lines of the watched file and their jobs."""

from fastapi import APIRouter, Request

from tgpu.api.rest.context import service_of
from tgpu.core.model.ids import JobId
from tgpu.service.service import Service
from tgpu.text.masking import mask_text
from tgpu.wire.jobs_file_v1 import JobsFileAnswer, JobsFileLine

router = APIRouter(tags=["jobs file"])


@router.get("/api/v1/jobs-file")
async def jobs_file(request: Request) -> JobsFileAnswer:
    """The watched jobs file as last read: the job of each line, or its error."""
    service = service_of(request)
    watch = service.jobs_file
    if watch is None:
        return JobsFileAnswer(path=None, exists=False, problem=None, lines=[])
    return JobsFileAnswer(
        path=str(watch.settings.path.absolute()),
        exists=watch.exists,
        problem=watch.problem,
        lines=[
            JobsFileLine(
                line=line.number,
                text=mask_text(line.text),
                job_id=line.job_id,
                state=await _state(service, line.job_id),
                tries=line.tries,
                problem=None if line.problem is None else mask_text(line.problem),
            )
            for line in watch.lines
        ],
    )


async def _state(service: Service, job_id: JobId | None) -> str | None:
    if job_id is None:
        return None
    live = service.reads.job(job_id)
    if live is not None:
        return live.progress.state
    stored = await service.store.job(job_id)
    return None if stored is None else stored.progress.state
