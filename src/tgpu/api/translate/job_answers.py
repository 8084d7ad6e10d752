"""What is answered to those who submit and cancel jobs, and the states that a question names."""

from tgpu.core.errors import InvalidRequest
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState
from tgpu.service.commands.jobs import Submitted
from tgpu.service.execution.urgent_stops import Cancelled
from tgpu.wire.v1 import ActionAnswer, SubmitAnswer


def states_of(text: str) -> tuple[JobState, ...]:
    states = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        try:
            states.append(JobState(name))
        except ValueError:
            known = ", ".join(JobState)
            raise InvalidRequest("state", name, f"there are: {known}") from None
    return tuple(states)


def cancel_answer(job_id: JobId, cancelled: Cancelled) -> ActionAnswer:
    state = cancelled.state
    message = "Job cancelled" if state is JobState.CANCELLED else "Job is being stopped"
    if cancelled.unrecorded is not None:
        message = (
            f"Job is being stopped, but this is not recorded yet: {cancelled.unrecorded}. It will "
            "be recorded as soon as the store works"
        )
    recorded = cancelled.unrecorded is None
    return ActionAnswer(job_id=job_id, status=state, message=message, recorded=recorded)


def submit_answer(submitted: Submitted) -> SubmitAnswer:
    message = "Job submitted successfully"
    if submitted.repeated:
        message = "Job was submitted before with the same content"
    many = len(submitted.job_ids) > 1 or submitted.job_ids[0] != submitted.base_id
    return SubmitAnswer(
        job_id=submitted.base_id,
        message=message,
        job_ids=list(submitted.job_ids) if many else [],
        warnings=list(submitted.notes),
    )
