"""What keys do to the selected row: a job, or a whole array."""

from typing import Final

from tgpu.cli.render.folded import id_text, progress_of, target
from tgpu.cli.render.jobs import action_line
from tgpu.client.http import Client
from tgpu.text.plurals import plural
from tgpu.wire.selection_v1 import ChangeName, SelectionRequest
from tgpu.wire.v1 import GpuModel, JobModel

_PAUSE_REASON: Final = "paused in tgpu top"
_PRIORITY_STEP: Final = 100  # a fifth of the way from a normal tenant to a high one


def cancel_question(job: JobModel) -> str:
    progress = progress_of(job)
    if progress is None:
        return f"Cancel job {job.job_id}?"
    over = sum(progress.states.get(state, 0) for state in ("completed", "failed", "cancelled"))
    left = plural(f"{progress.total - over:,}", "job")
    return f"Cancel the {left} of {id_text(job)} that are not over?"


def cancel(client: Client, job: JobModel) -> str:
    if progress_of(job) is not None:
        return _on_array(client, job, "cancel")
    return action_line(client.cancel_job(job.job_id))


def hold(client: Client, job: JobModel) -> str:
    """Or release what is held."""
    if progress_of(job) is not None:
        return _on_array(client, job, "release" if job.held else "hold")
    change = client.release_job if job.held else client.hold_job
    return action_line(change(job.job_id))


def rerank(client: Client, job: JobModel, by: int) -> str:
    priority = job.priority + by * _PRIORITY_STEP
    if progress_of(job) is not None:
        return _on_array(client, job, "priority", priority)
    return action_line(client.rerank_job(job.job_id, priority))


def pause_question(gpu: GpuModel, name: str) -> str:
    if gpu.paused:
        return f"Let jobs start on GPU {name} again?"
    return f"Start no further jobs on GPU {name}?"


def pause(client: Client, gpu: GpuModel, name: str) -> str:
    """Or use it again. The name is as the service takes it."""
    if gpu.paused:
        client.resume_gpu(name)
        return f"GPU {name} takes jobs again"
    client.pause_gpu(name, _PAUSE_REASON)
    return f"GPU {name} is paused"


def _on_array(
    client: Client, job: JobModel, action: ChangeName, priority: int | None = None
) -> str:
    """All its elements, in one commit of the service."""
    fields = {"action": action, "jobs": [target(job)]}
    request = SelectionRequest.model_validate(
        fields if priority is None else {**fields, "priority": priority}
    )
    return client.select(request).message
