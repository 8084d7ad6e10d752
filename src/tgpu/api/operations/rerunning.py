"""Reruns the jobs of a selection: what the new jobs inherit, and the result in one line."""

from collections.abc import Mapping

from tgpu.api.access.claims import highest_priority
from tgpu.core.errors import Conflict
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.units import SECOND
from tgpu.service.commands.rerun import rerun_detail
from tgpu.service.commands.rerun_selection import Reran, Rerun, RerunChoice
from tgpu.service.commands.selection import Refusal, Selection
from tgpu.service.commands.submission import Submission
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service
from tgpu.store.api import StoredJob
from tgpu.text.plurals import plural
from tgpu.wire.selection_v1 import LeftAloneModel, RerunModel, SelectionAnswer, SelectionRequest

_TOLD = 3  # new arrays and jobs that the sentence names


async def rerun_selection(
    service: Service,
    caller: Principal,
    body: SelectionRequest,
    selection: Selection,
    refusal: Refusal,
) -> SelectionAnswer:
    known: dict[str, Mapping[str, str]] = {}

    async def again(stored: StoredJob) -> Submission:
        detail, with_environment = await rerun_detail(service.run_as, caller, stored)
        highest = highest_priority(service, caller, stored.job.tenant_id)
        return await service.jobs.once_more(stored, detail, with_environment, highest, known)

    within = body.ended_within_seconds
    since = None if within is None else service.clock.now() - within * SECOND
    wanted = RerunChoice(selection, since, frozenset(body.failures), body.again)
    done = await service.reruns.rerun(wanted, refusal, again)
    left = _left_alone(done)
    if body.jobs and not done.reruns:
        raise Conflict(_nothing(done, left), [part.model_dump() for part in left])
    job_ids = [job_id for rerun in done.reruns for job_id in rerun.submitted.job_ids]
    return SelectionAnswer(
        action=body.action,
        message=_sentence(done, left),
        changed=len(job_ids),
        counts={"queued": len(job_ids)} if job_ids else {},
        job_ids=list(job_ids),
        left_alone=left,
        reruns=[_model(rerun) for rerun in done.reruns],
        warnings=done.notes,
    )


def _model(rerun: Rerun) -> RerunModel:
    return RerunModel(
        job_id=rerun.submitted.base_id,
        rerun_of=rerun.of,
        is_array=rerun.is_array,
        count=len(rerun.submitted.job_ids),
    )


def _left_alone(done: Reran) -> list[LeftAloneModel]:
    found = []
    if done.before:
        count = sum(done.before.values())
        names = ", ".join(list(done.before)[:_TOLD])
        more = ", …" if len(done.before) > _TOLD else ""
        message = f"{count:,} rerun already, as {names}{more} (--again reruns them once more)"
        found.append(LeftAloneModel(reason="rerun", count=count, message=message, job_ids=[]))
    if done.others:
        parts = ", ".join(f"{count:,} {state}" for state, count in sorted(done.others.items()))
        count = done.others.total()
        found.append(LeftAloneModel(reason="state", count=count, message=parts, job_ids=[]))
    return found


def _sentence(done: Reran, left: list[LeftAloneModel]) -> str:
    """3 jobs queued as array 5: runs the failed ones of array 1 again"""
    if not done.reruns:
        return _nothing(done, left)
    if len(done.reruns) == 1:
        text = _one(done.reruns[0])
    else:
        count = sum(len(rerun.submitted.job_ids) for rerun in done.reruns)
        pairs = [f"{rerun.submitted.base_id} for {rerun.of}" for rerun in done.reruns[:_TOLD]]
        more = ", …" if len(done.reruns) > _TOLD else ""
        text = f"{plural(f'{count:,}', 'job')} queued to run others again: {', '.join(pairs)}{more}"
    if left:
        text += f"; left alone: {_told(left)}"
    return text


def _one(rerun: Rerun) -> str:
    base_id, count = rerun.submitted.base_id, len(rerun.submitted.job_ids)
    if not rerun.is_array:
        return f"job {base_id} queued: runs job {rerun.of} again"
    jobs = plural(f"{count:,}", "job")
    return f"array {base_id} queued: runs {jobs} of array {rerun.of} again"


def _nothing(done: Reran, left: list[LeftAloneModel]) -> str:
    if not left:
        return "no job to run again"
    text = f"no job to run again: {_told(left)}"
    if done.others and not done.before:
        ended = sorted(state for state in done.others if state is not JobState.PENDING)
        text += (
            f"; choose them by their state, as in: tgpu rerun --state {ended[0]} …" if ended else ""
        )
    return text


def _told(left: list[LeftAloneModel]) -> str:
    return ", ".join(part.message for part in left)
