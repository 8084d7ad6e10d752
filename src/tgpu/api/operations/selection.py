"""Many jobs changed by one command and one commit."""

from typing import Final

from pydantic import ValidationError

from tgpu.api.access.claims import check_priority
from tgpu.api.access.visible import newest_of
from tgpu.api.operations.rerunning import rerun_selection
from tgpu.api.translate.selection_words import (
    counts_of,
    left_alone,
    not_recorded,
    nothing_to_do,
    of_one,
    sentence,
)
from tgpu.core.errors import Conflict, Forbidden, InvalidRequest, NotFound, SchedulerError
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState
from tgpu.service.commands.selection import Picked, Selection
from tgpu.service.commands.selection_commands import Changed, SelectionChange
from tgpu.service.identity.caller import LOCAL, Principal
from tgpu.service.identity.ownership import Action, no_job
from tgpu.service.recording.audit import concerns
from tgpu.service.service import Service
from tgpu.wire.selection_v1 import ChangeName, SelectionAnswer, SelectionRequest
from tgpu.wire.v1 import ActionAnswer


async def change_selection(
    service: Service, caller: Principal, body: SelectionRequest
) -> SelectionAnswer:
    if (body.action == "priority") != (body.priority is not None):
        remedy = "is the new priority, and only for action priority"
        raise InvalidRequest("priority", body.priority, remedy)
    selection = await _selection(service, caller, body)

    def refused(job: Job) -> SchedulerError | None:
        error = refusal(service, caller, body.action, job)
        if isinstance(error, Forbidden) and body.jobs:
            concerns(job.job_id, job.tenant_id)  # who tried it is on record with what
        return error

    if body.action == "rerun":
        return await rerun_selection(service, caller, body, selection, refused)
    _check_for_live(body)
    change = SelectionChange(body.action)
    picked = await service.selections.pick(selection, refused)
    for tenant_id in sorted(picked.tenants):
        check_priority(service, caller, tenant_id, body.priority)
    if selection.only_name is not None and not picked.arrays:
        return await _change_one(service, change, JobId(selection.only_name), body.priority or 0)
    if not picked.job_ids:
        changed = Changed({}, {})
    elif change is SelectionChange.CANCEL:
        changed = await service.cancel_selected(picked.job_ids, selection)
    else:
        changed = await service.selections.change(
            change, picked.job_ids, selection, priority=body.priority or 0
        )
    return _answer(body, changed, picked)


async def change_named(
    service: Service, caller: Principal, action: ChangeName, name: str
) -> SelectionAnswer:
    """A selection of one name out of an address. One that no job can have is of no job."""
    try:
        body = SelectionRequest(action=action, jobs=[name])
    except ValidationError:
        raise no_job(name) from None
    return await change_selection(service, caller, body)


async def cancel_array(service: Service, caller: Principal, name: str) -> ActionAnswer:
    """All that is left of an array, for those who name it where a job is expected."""
    answer = await change_named(service, caller, "cancel", name)
    state = JobState.RUNNING if answer.counts.get("running") else JobState.CANCELLED
    return ActionAnswer(job_id=name, status=state, message=answer.message, recorded=answer.recorded)


async def _change_one(
    service: Service, change: SelectionChange, job_id: JobId, priority: int
) -> SelectionAnswer:
    """One job alone is refused, and answered, as its own paths do."""
    concerns(job_id)
    problem = None
    match change:
        case SelectionChange.CANCEL:
            cancelled = await service.cancel(job_id)
            state, problem = cancelled.state, cancelled.unrecorded
        case SelectionChange.HOLD | SelectionChange.RELEASE:
            state = await service.jobs.hold(job_id, held=change is SelectionChange.HOLD)
        case SelectionChange.PRIORITY:
            state = await service.jobs.rerank(job_id, priority)
        case SelectionChange.PAUSE | SelectionChange.RESUME:
            state = await service.jobs.pause(job_id, paused=change is SelectionChange.PAUSE)
    message = of_one(change, job_id, state, priority=priority)
    message += "" if problem is None else not_recorded(problem)
    return SelectionAnswer(
        action=change,
        message=message,
        changed=1,
        counts={"running" if state in PLACED else "waiting": 1},
        job_ids=[job_id],
        recorded=problem is None,
    )


def refusal(service: Service, caller: Principal, action: str, job: Job) -> SchedulerError | None:
    """Why the caller may not do that to the job, as the paths of one job would say it."""
    try:
        service.reads.check(caller, _ACTIONS[action], job)
    except (Forbidden, NotFound) as error:
        return error
    return None


_ACTIONS: Final = {
    "cancel": Action.CANCEL,
    "hold": Action.HOLD,
    "release": Action.RELEASE,
    "priority": Action.PRIORITY,
    "pause": Action.PAUSE,
    "resume": Action.RESUME,
    "rerun": Action.RERUN,
}


def _check_for_live(body: SelectionRequest) -> None:
    """What is over cannot be changed, and what chooses among it makes no sense."""
    if over := [name for name in body.states if JobState(name) in TERMINAL]:
        raise InvalidRequest("states", over[0], "ended jobs can only be rerun")
    for name in ("ended_within_seconds", "failures", "again"):
        if value := getattr(body, name):
            raise InvalidRequest(name, value, "is only for action rerun")


async def _selection(service: Service, caller: Principal, body: SelectionRequest) -> Selection:
    conditions = (body.jobs, body.all, body.states, body.name, body.user, body.mine, body.tenant_id)
    if not any(conditions):
        raise InvalidRequest("jobs", [], "name jobs or arrays, give a filter, or use all")
    names = [await newest_of(service, caller) if name == "last" else name for name in body.jobs]
    return Selection(
        names=tuple(dict.fromkeys(names)),
        states=frozenset(JobState(name) for name in body.states),
        name_contains=body.name,
        user=_user(caller, body),
        tenant_id=None if body.tenant_id is None else TenantId(body.tenant_id),
    )


def _user(caller: Principal, body: SelectionRequest) -> str | None:
    if body.mine and caller != LOCAL:
        return caller.user
    return body.user or None


def _answer(body: SelectionRequest, changed: Changed, picked: Picked) -> SelectionAnswer:
    left = left_alone(changed, picked)
    if changed.moved:
        change = SelectionChange(body.action)
        message = sentence(change, changed, picked, left, priority=body.priority)
    else:
        message = nothing_to_do(left)
        if body.jobs:  # who names jobs and gets none of it has made a mistake
            raise Conflict(message, [part.model_dump() for part in left])
    return SelectionAnswer(
        action=body.action,
        message=message,
        changed=len(changed.moved),
        counts=counts_of(changed),
        job_ids=list(changed.moved),
        left_alone=left,
        recorded=changed.unrecorded is None,
    )
