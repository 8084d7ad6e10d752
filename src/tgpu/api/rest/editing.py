"""PATCH /api/v1/jobs/{job}: changes waiting jobs."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from tgpu.api.rest.access import sight, visible_job, visible_query
from tgpu.api.rest.convert import submission_of
from tgpu.api.rest.standing import check_priority
from tgpu.core.errors import InvalidRequest, NotFound
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.placement.place import gpus_touched
from tgpu.service.commands.editing import Edit, Edited
from tgpu.service.commands.job_fields import job_fields
from tgpu.service.commands.submission import Submission
from tgpu.service.identity.caller import Principal
from tgpu.service.identity.ownership import Action, check
from tgpu.service.recording.audit import concerns
from tgpu.service.service import Service
from tgpu.store.api import JobQuery, StoredJob
from tgpu.text.plurals import plural
from tgpu.wire.job_change_v1 import JobChange
from tgpu.wire.v1 import ActionAnswer, SubmitRequest

_PAGE: Final = 1000
# What was said before in other words is replaced with it.
_SAME: Final = {
    "gpu_type": ("gpu_types",),
    "gpu_types": ("gpu_type",),
    "max_runtime": ("max_runtime_minutes",),
    "max_runtime_minutes": ("max_runtime",),
}
_LIMITS: Final = {"max_runtime", "max_runtime_minutes"}


async def edit_named(
    service: Service, caller: Principal, name: str, body: JobChange
) -> ActionAnswer:
    """A job, or all that waits of an array or sweep. NotFound, Conflict, InvalidRequest."""
    change = body.model_dump(exclude_unset=True)
    if not change:
        raise InvalidRequest("body", "{}", "give a field to change, such as priority")
    stored, elements = await _found(service, caller, name)
    tenant_id = stored.job.tenant_id
    concerns(name, tenant_id)
    check_priority(service, caller, tenant_id, change.get("priority"))
    edit = Edit(
        partial(_changed, change),
        name=change.get("name"),
        has_after="after" in change,
        has_limit=bool(_LIMITS & change.keys()),
        sight=sight(service, caller),
    )
    edited = await service.editing.edit(elements, edit)
    if [*change] == ["priority"] and len(elements) == 1:
        message = f"Job has priority {stored.job.priority}"
        if change["priority"] is not None:
            message = f"Job has priority {change['priority']}"
        return ActionAnswer(job_id=elements[0], status="pending", message=message)
    return _answer(name, elements, edited)


async def _found(service: Service, caller: Principal, name: str) -> tuple[StoredJob, list[JobId]]:
    try:
        stored = await visible_job(service, caller, name, Action.EDIT)
        return stored, [stored.job.job_id]
    except NotFound:
        elements: list[StoredJob] = []
        before: int | None = None
        while page := await service.store.jobs(
            visible_query(service, caller, JobQuery(array_id=name, before=before, limit=_PAGE))
        ):
            for each in page:
                check(service.state, caller, Action.EDIT, each.job)
            elements += page
            before = page[-1].number
        if not elements:
            raise
        return elements[0], sorted(each.job.job_id for each in elements)


def _changed(change: Mapping[str, Any], job: Job) -> Submission:
    fields = job_fields(job)
    if job.request.gpu_mem_mib and "gpu_memory_mb" not in change and "gpu_count" in change:
        fields |= _same_memory_each(job, change)
    for name in change:
        for other in _SAME.get(name, ()):
            fields.pop(other, None)
    wanted = {name: value for name, value in change.items() if name != "name"}
    return submission_of(SubmitRequest.model_validate({**fields, **wanted}))


def _same_memory_each(job: Job, change: Mapping[str, Any]) -> dict[str, object]:
    """Memory is counted over all GPUs of a worker: with more of them, each keeps what it had."""
    bare = {"gpu_count": change["gpu_count"]}
    asked = submission_of(SubmitRequest.model_validate(bare)).request
    each = job.request.gpu_mem_mib // job.request.workers // gpus_touched(job.request)
    return {"gpu_memory_mb": each * gpus_touched(asked)}


def _answer(name: str, elements: list[JobId], edited: Edited) -> ActionAnswer:
    told = ", ".join(f"{field} {before} → {after}" for field, before, after in edited.changes)
    told = told or "it was so already"
    job_id = elements[0] if len(elements) == 1 else name
    if len(elements) > 1 or edited.left:
        total = len(elements)
        left = f"; {edited.left} no longer waiting, not changed" if edited.left else ""
        message = f"{len(edited.changed)} of {plural(total, 'job')} changed: {told}{left}"
    else:
        message = f"Job changed: {told}" if edited.changes else f"Job not changed: {told}"
    notes = "".join(f"; {note}" for note in edited.notes)
    return ActionAnswer(job_id=job_id, status="pending", message=message + notes)
