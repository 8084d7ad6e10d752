"""Pausing and resuming one job, or what runs of an array, over REST and gRPC alike."""

from tgpu.api.operations.selection import change_named
from tgpu.core.model.lifecycle import JobState
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service
from tgpu.wire.v1 import ActionAnswer


async def pause_named(
    service: Service, caller: Principal, name: str, *, paused: bool
) -> ActionAnswer:
    """As a selection of one name, so that the same people may, and hear the same."""
    answer = await change_named(service, caller, "pause" if paused else "resume", name)
    job_id = answer.job_ids[0] if len(answer.job_ids) == 1 else name
    message = answer.message.removeprefix(f"job {job_id} ")
    subject = "" if message == answer.message else "Job "
    return ActionAnswer(job_id=job_id, status=JobState.RUNNING, message=f"{subject}{message}")
