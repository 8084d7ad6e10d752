"""The state of a job that does not wait, in a sentence: the other half of the answer to `why`."""

from tgpu.core.model.lifecycle import JobState, Progress
from tgpu.engines.api import Observation, Phase, Place
from tgpu.store.api import StoredJob
from tgpu.wire.v1 import ReasonModel

_Sentence = tuple[str, str]  # and the command to go on with


def fate_of(
    stored: StoredJob,
    cause: str | None,
    gpus: str,
    standing: Observation | None = None,
    place: Place | None = None,
) -> ReasonModel:
    """`gpus`: the names of those that it has. `standing`: what the engine says of one that it has
    not started, or cannot reach. `place`: where it has put one that it bound itself."""
    progress, job_id = stored.progress, stored.job.job_id
    gpus = f"GPU {gpus}" if place is None else _place_text(place)
    sentences = {
        JobState.SCHEDULED: (f"is being started on {gpus}", f"tgpu show {job_id}"),
        JobState.RUNNING: _runs(progress, job_id, gpus),
        JobState.COMPLETED: ("has completed", f"tgpu logs {job_id}"),
        JobState.FAILED: (f"has failed: {cause}", f"tgpu logs {job_id}"),
        JobState.CANCELLED: (_cancelled(cause), f"tgpu rerun {job_id}"),
    }
    message, remedy = sentences.get(progress.state, (str(progress.state), ""))
    if standing is not None:
        message, remedy = _stands(standing, job_id)
    if progress.stopping:
        message = f"is being stopped: {cause}"
    return ReasonModel(code=str(progress.state), message=message, remedy=remedy)


def _place_text(place: Place) -> str:
    parts = []
    for part in place.parts:
        gpus = ", ".join(str(share.gpu_index) for share in part.shares)
        parts.append(f"node {part.node_id}" + (f" (GPU {gpus})" if gpus else ""))
    return ", ".join(parts) + (f", as {place.engine_id}" if place.engine_id else "")


def _runs(progress: Progress, job_id: str, gpus: str) -> _Sentence:
    if progress.paused_at is None:
        return f"runs on {gpus}", f"tgpu logs -f {job_id}"
    by = f" by {progress.paused_by}" if progress.paused_by else ""
    return f"is paused{by}, and keeps {gpus}", f"tgpu resume {job_id}"


def _stands(seen: Observation, job_id: str) -> _Sentence:
    if seen.phase is Phase.TAKEN:
        told = f"the engine has accepted it, but not started it: {seen.cause or 'no cause given'}"
        return told, f"tgpu show {job_id}"
    why = seen.cause or "the engine does not say why"
    return f"cannot be reached, may still run, and keeps its GPUs: {why}", "tgpu status"


def _cancelled(cause: str | None) -> str:
    text = cause or ""
    return f"was {text}" if text.startswith("cancelled by ") else f"was cancelled: {text}"
