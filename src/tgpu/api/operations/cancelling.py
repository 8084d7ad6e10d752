"""Cancelling one job, or what is left of an array."""

from tgpu.api.access.visible import live_job_id
from tgpu.api.operations.selection import cancel_array
from tgpu.api.translate.job_answers import cancel_answer
from tgpu.core.errors import NotFound
from tgpu.service.identity.caller import Principal
from tgpu.service.identity.ownership import Action
from tgpu.service.service import Service
from tgpu.wire.v1 import ActionAnswer


async def cancel_named(service: Service, caller: Principal, name: str) -> ActionAnswer:
    """A job, or all that is left of an array or sweep."""
    try:
        job_id = await live_job_id(service, caller, name, Action.CANCEL)
        return cancel_answer(job_id, await service.cancel(job_id))
    except NotFound:
        return await cancel_array(service, caller, name)
