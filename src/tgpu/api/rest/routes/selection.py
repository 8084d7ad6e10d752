"""/api/v1/jobs/select: many jobs changed by one command and one commit."""

from fastapi import Request, Response

from tgpu.api.operations.selection import change_selection
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.route import Router
from tgpu.wire.selection_v1 import SelectionAnswer, SelectionRequest

router = Router(prefix="/api/v1/jobs", tags=["jobs"])


@router.post("/select")
async def select(request: Request, response: Response, body: SelectionRequest) -> SelectionAnswer:
    """Cancel, hold, release, pause, resume, rerun or change the priority of jobs: all at once or
    none."""
    service, caller = service_of(request), caller_of(request)
    answer = await change_selection(service, caller, body)
    response.status_code = 200 if answer.recorded else 202
    return answer
