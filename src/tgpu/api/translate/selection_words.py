"""The result of a selection, in one line with counts."""

from collections import Counter
from collections.abc import Sequence

from tgpu.core.model.lifecycle import PLACED, JobState
from tgpu.service.commands.selection import Picked
from tgpu.service.commands.selection_commands import Changed, Left, SelectionChange
from tgpu.wire.selection_v1 import LeftAloneModel

_LEFT = {
    Left.ENDING: "being stopped already",
    Left.RUNS: "running: only waiting jobs can be changed like this",
    Left.HELD: "on hold already",
    Left.NOT_HELD: "not on hold",
    Left.SAME: "with that priority already",
    Left.WAITS: "not running: only running jobs can be paused and resumed",
    Left.LEASE: "without a command (leases)",
    Left.PAUSED: "paused already",
    Left.NOT_PAUSED: "not paused",
    Left.STATE: "in another state",
}
# Who pauses a job to give its GPUs to others must be told that this does not.
KEPT = "it keeps its GPUs and memory, which are charged, and its time limit keeps running"
KEPT_BY_ALL = "they keep their GPUs and memory, which are charged, and time limits keep running"
_SHOWN = 10  # ids of jobs that were left alone


def counts_of(changed: Changed) -> dict[str, int]:
    """Of those that changed, by what they did before."""
    running = sum(state in PLACED for state in changed.moved.values())
    counts = {"running": running, "waiting": len(changed.moved) - running}
    return {name: count for name, count in counts.items() if count}


def left_alone(changed: Changed, picked: Picked) -> list[LeftAloneModel]:
    found = []
    over = changed.left.get(Left.OVER, [])
    if over or picked.over:
        count = len(over) + picked.over.total()
        message = f"{count:,} over already{_by_state(picked.over)}"
        found.append(_left(Left.OVER, count, message, over))
    for reason, text in _LEFT.items():
        job_ids = changed.left.get(reason, [])
        if job_ids:
            count = len(job_ids)
            found.append(_left(reason, count, f"{count:,} {text}", job_ids))
    return found


def sentence(
    change: SelectionChange,
    changed: Changed,
    picked: Picked,
    left: list[LeftAloneModel],
    *,
    priority: int | None = None,
) -> str:
    """cancelled 200 jobs of array 1: 5 running are being stopped, 195 waiting"""
    what = _what(list(changed.moved), picked)
    match change:
        case SelectionChange.CANCEL:
            text = f"cancelled {what}{_parts(changed)}"
        case SelectionChange.HOLD:
            text = f"put {what} on hold"
        case SelectionChange.RELEASE:
            text = f"released {what}"
        case SelectionChange.PRIORITY:
            text = f"gave {what} priority {priority}"
        case SelectionChange.PAUSE:
            text = f"paused {what}: {KEPT_BY_ALL}"
        case SelectionChange.RESUME:
            text = f"resumed {what}"
    if left:
        text += f"; left alone: {', '.join(part.message for part in left)}"
    if changed.unrecorded is not None:
        text += f"{not_recorded(changed.unrecorded)}; waiting jobs were not changed"
    return text


def nothing_to_do(left: list[LeftAloneModel]) -> str:
    """Of a selection by conditions that found no job, or none that could be changed."""
    if not left:
        return "no job matches"
    return f"no job was changed; left alone: {', '.join(part.message for part in left)}"


def of_one(
    change: SelectionChange, job_id: str, state: JobState, *, priority: int | None = None
) -> str:
    is_over = state is JobState.CANCELLED
    became = {
        SelectionChange.CANCEL: "cancelled" if is_over else "is being stopped",
        SelectionChange.HOLD: "is on hold",
        SelectionChange.RELEASE: "is released",
        SelectionChange.PRIORITY: f"has priority {priority}",
        SelectionChange.PAUSE: f"is paused: {KEPT}",
        SelectionChange.RESUME: "continues",
    }
    return f"job {job_id} {became[change]}"


def not_recorded(problem: str) -> str:
    then = "It will be recorded as soon as the store works"
    return f", but this is not recorded yet: {problem}. {then}"


def _what(moved: Sequence[str], picked: Picked) -> str:
    of = f" of array {picked.arrays[0]}" if picked.is_one_array else ""
    if len(moved) == 1 and not of:
        return f"job {moved[0]}"
    return f"{len(moved):,} {'job' if len(moved) == 1 else 'jobs'}{of}"


def _parts(changed: Changed) -> str:
    counts = counts_of(changed)
    running = counts.get("running", 0) - changed.leases
    parts = []
    if running:
        parts.append(f"{running:,} running {'is' if running == 1 else 'are'} being stopped")
    if changed.leases:
        parts.append(f"{changed.leases:,} {'lease' if changed.leases == 1 else 'leases'} ended")
    if waiting := counts.get("waiting"):
        parts.append(f"{waiting:,} waiting")
    return f": {', '.join(parts)}"


def _by_state(over: Counter[JobState]) -> str:
    parts = ", ".join(f"{count:,} {state}" for state, count in sorted(over.items()))
    return f" ({parts})" if parts else ""


def _left(reason: Left, count: int, message: str, job_ids: Sequence[str]) -> LeftAloneModel:
    return LeftAloneModel(
        reason=str(reason), count=count, message=message, job_ids=list(job_ids[:_SHOWN])
    )
