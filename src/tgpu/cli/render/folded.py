"""The row of a job, or of a whole array or sweep that the service folded into one."""

from collections.abc import Mapping, Sequence
from typing import Final

from tgpu.cli.render.grid import clean
from tgpu.cli.render.jobs import ENDED, natural_key, outcome, shown_state, span, title
from tgpu.cli.render.words import between, command_text, roughly_since, since
from tgpu.text.instants import iso_millis
from tgpu.wire.v1 import ArrayProgressModel, JobModel

_ON_GPUS: Final = ("running", "scheduled")
_WAITING: Final = ("pending", "preempted")


def progress_of(job: JobModel) -> ArrayProgressModel | None:
    """None for a job that stands for itself alone."""
    return None if job.array is None else job.array.progress


def target(job: JobModel) -> str:
    """What a command is given to act on the row: the id of the array, or of the job."""
    return job.array.array_id if job.array is not None and job.array.progress else job.job_id


def row_key(job: JobModel) -> tuple[str, ...]:
    """The same for a row of two looks, between which another element has come to stand for it."""
    progress = progress_of(job)
    if progress is None:
        return (job.job_id,)
    return (target(job), job.submitted_at, str(progress.first_index), str(progress.last_index))


def is_about(job_id: str, job: JobModel) -> bool:
    """Whether it is the job of the row, or one of the row's array."""
    return job_id == job.job_id or (
        progress_of(job) is not None and job_id.startswith(f"{target(job)}.")
    )


def id_text(job: JobModel) -> str:
    """12, or 2.[1-200] for an array"""
    progress = progress_of(job)
    if progress is None:
        return clean(job.job_id)
    return f"{clean(target(job))}.[{progress.first_index}-{progress.last_index}]"


def row_state(job: JobModel) -> str:
    """Of an array: running while one of it does, else waiting, else the worst end."""
    progress = progress_of(job)
    if progress is None:
        return shown_state(job)
    states = progress.states
    if any(states.get(state) for state in _ON_GPUS):
        return "running"
    if any(states.get(state) for state in _WAITING):
        return "held" if job.held else "pending"
    return next((s for s in ("failed", "cancelled") if states.get(s)), "completed")


def row_title(job: JobModel) -> str:
    """Its name or command; of a sweep, with the names of the parameters where its values stand."""
    if progress_of(job) is None or job.name:
        return title(job)
    return sweep_text(job.command, job.params)


def sweep_text(arguments: Sequence[str], params: Mapping[str, str]) -> str:
    """The command of a whole sweep, from that of one point of it."""
    command = []
    for argument in arguments:
        found = next(
            (
                (name, value)
                for name, value in params.items()
                if value and (argument == value or argument.endswith(f"={value}"))
            ),
            None,
        )
        if found is not None:
            argument = f"{argument.removesuffix(found[1])}{{{found[0]}}}"
        command.append(argument)
    return command_text(command)


def params_text(job: JobModel) -> str:
    """lr=0.1 bs=32 of one point, the names alone of a whole sweep"""
    if progress_of(job) is not None:
        return clean(", ".join(job.params))
    return clean(" ".join(f"{name}={value}" for name, value in job.params.items()))


def span_text(job: JobModel, now_ms: int) -> str:
    """How long it has run, waited, or ran."""
    progress = progress_of(job)
    if progress is None:
        return span(job, now_ms)
    if row_state(job) in ENDED:
        return between(progress.started_at, progress.ended_at)
    return since(progress.started_at or job.submitted_at, now_ms)


def outcome_text(job: JobModel, now_ms: int) -> str:
    """Why it waits, or how it ended and when; of an array, how far it is."""
    progress = progress_of(job)
    if progress is None:
        return outcome(job, now_ms)
    told = progress_text(progress.states, progress.total)
    if row_state(job) in ENDED:
        ended = progress.ended_at
        return f"{told}, {roughly_since(ended, now_ms)} ago" if ended else told
    why = "" if job.reason is None else outcome(job, now_ms)
    return f"{told}; {why}" if why else told


def progress_text(states: Mapping[str, int], total: int) -> str:
    """120/200 done, 5 running, 2 failed; what waits is the rest"""
    running = sum(states.get(state, 0) for state in _ON_GPUS)
    counts = ((running, "running"), *((states.get(s, 0), s) for s in ("failed", "cancelled")))
    parts = [f"{states.get('completed', 0):,}/{total:,} done"]
    return ", ".join([*parts, *(f"{count:,} {word}" for count, word in counts if count)])


def order(job: JobModel) -> tuple[int, int, int, list[tuple[int, int, str]]]:
    """Running first, then waiting with the next one first, then ended with the newest first."""
    progress, state = progress_of(job), row_state(job)
    started = job.started_at if progress is None else progress.started_at
    ended = job.ended_at if progress is None else progress.ended_at
    key = natural_key(target(job))
    if state in ENDED:
        return (2, -iso_millis(ended or job.submitted_at), 0, key)
    if job.state in _ON_GPUS or (progress is not None and state == "running"):
        return (0, 0, iso_millis(started or job.submitted_at), key)
    return (1, -job.priority, iso_millis(job.submitted_at), key)
