"""Jobs as tables, as a page of facts and as one-line sentences."""

import re
from typing import Final

from tgpu.cli.render.estimate import start_text
from tgpu.cli.render.failures import failure_text
from tgpu.cli.render.grid import Line, clean, facts
from tgpu.cli.render.prediction import prediction_text
from tgpu.cli.render.words import (
    between,
    clock_text,
    command_text,
    gpus_text,
    index_ranges,
    moment_text,
    number_text,
    plural,
    roughly_since,
    sentence_text,
    since,
)
from tgpu.text.durations import duration_text
from tgpu.text.gpu_names import names_text, words_text
from tgpu.text.instants import iso_millis
from tgpu.text.masking import given_values, mask_values
from tgpu.text.sizes import mebibytes_text
from tgpu.wire.v1 import ActionAnswer, JobModel, SubmitAnswer, SubmitRequest

STATES: Final = (
    "pending",
    "scheduled",
    "running",
    "preempted",
    "completed",
    "failed",
    "cancelled",
)
ON_GPUS: Final = ("scheduled", "running")
WAITING: Final = ("pending", "preempted")
LIVE: Final = STATES[:4]
ENDED: Final = STATES[4:]

STATE_STYLES: Final = {
    "running": "green",
    "starting": "cyan",
    "pending": "yellow",
    "held": "magenta",
    "paused": "magenta",
    "preempted": "yellow",
    "completed": "dim",
    "failed": "red",
    "cancelled": "dim",
}


def shown_state(job: JobModel) -> str:
    """The state as people see it: a pending job on hold is "held"; one may stand still."""
    if job.state == "pending" and job.held:
        return "held"
    if job.state == "running" and job.paused_at:
        return "paused"
    return "starting" if job.state == "scheduled" else job.state


def title(job: JobModel) -> str:
    return clean(job.name) or command_text(job.command)


def outcome(job: JobModel, now_ms: int) -> str:
    """Why it waits, or how it ended and when."""
    if job.state in ENDED:
        ago = f"{roughly_since(job.ended_at, now_ms)} ago" if job.ended_at else ""
        return ", ".join(part for part in (ending(job), ago) if part)
    if job.reason is not None:
        # In a table every column counts; `tgpu why` has the whole sentence.
        return sentence_text(job.reason.message)
    if job.paused_at and job.state == "running":
        return f"keeps its GPUs; tgpu resume {clean(job.job_id)}"
    return sentence_text(job.cause or "")


def ending(job: JobModel) -> str:
    """exit 1, signal 9 or the cause; "" for a plain success."""
    if job.state == "completed" and not job.exit_code:
        return ""
    code = ""
    if job.signal:
        code = f"signal {job.signal}"
    elif job.exit_code is not None and job.state == "failed":
        code = f"exit {job.exit_code}"
    cause = sentence_text(job.cause or "")
    if code and (not cause or code.split()[1] in re.findall(r"\d+", cause)):
        return cause or code
    return ": ".join(part for part in (code, cause) if part)


def ended_line(job: JobModel) -> str:
    """job 12 completed after 3m20s · job 13 failed (exit 1) after 4s"""
    how = ending(job)
    ran = between(job.started_at, job.ended_at)
    return (
        f"job {clean(job.job_id)} {job.state}"
        + (f" ({how})" if how else "")
        + (f" after {ran}" if ran else "")
    )


def waiting_line(job: JobModel) -> str:
    why = sentence_text(job.reason.message) if job.reason is not None else "not looked at yet"
    return f"job {clean(job.job_id)} {'' if why.startswith('waits ') else 'waits: '}{why}"


def queued_lines(answer: SubmitAnswer, request: SubmitRequest) -> list[str]:
    """What was queued, and the command to look at it."""
    gpus = gpus_text(float(request.gpu_count), request.gpu_type or " or ".join(request.gpu_types))
    if request.size_by != "given":
        gpus = "GPUs by its model"
    if request.workers > 1:
        gpus = f"{request.workers} workers of {gpus}"
    many = len(answer.job_ids) > 1
    hidden = given_values(request.secrets.items())
    words = [mask_values(word, hidden) for word in (*request.command, *request.args)]
    what = command_text(words) if request.command else "a lease"
    state = "held" if request.hold else "queued"
    if many:
        head = (
            f"{plural(len(answer.job_ids), 'job')} {state}, {clean(answer.job_ids[0])} to "
            f"{clean(answer.job_ids[-1])}: {gpus} each, {what}"
        )
        return [head, f"see them with: tgpu list --array {clean(answer.job_id)}"]
    job_id = clean(answer.job_id)
    head = f"job {job_id} {state}: {gpus}, {what}"
    if request.hold:
        return [head, f"let it start with: tgpu release {job_id}"]
    if not request.command:
        return [
            head,
            f"see its GPUs with: tgpu show {job_id}; give them back: tgpu complete {job_id}",
        ]
    return [head, f"follow it with: tgpu logs -f {job_id}"]


def action_line(answer: ActionAnswer) -> str:
    """The API says "Job is on hold"; with several on a line each, the id must be in it."""
    message = sentence_text(answer.message)
    for subject in ("Job ", "Lease "):
        message = message.removeprefix(subject)
    return f"job {clean(answer.job_id)} {message}"


def job_facts(job: JobModel, now_ms: int) -> list[Line]:
    """All that is known of a job; what it does not have is left out."""
    pairs = [
        ("job", job.job_id),
        ("name", job.name),
        ("state", shown_state(job)),
        ("note", sentence_text(job.cause or "") if job.state in ("scheduled", "running") else ""),
        ("reason", sentence_text(job.reason.message) if job.reason else ""),
        ("next", clean(job.reason.remedy) if job.reason else ""),
        ("result", ending(job) if job.state in ENDED else ""),
        ("failure", clean(failure_text(job.failure))),
        ("command", command_text(job.command)),
        ("runs in", clean(job.runs_in or "")),
        ("directory", job.working_dir),
        ("image", job.image),
        ("GPUs", _gpus_wanted(job)),
        ("on", _place(job)),
        ("session", job.session or ""),
        ("where", _constraints(job)),
        ("CPU cores", number_text(job.cpu_cores) if job.cpu_cores else ""),
        ("memory", mebibytes_text(job.memory_mb) if job.memory_mb else ""),
        ("priority", str(job.priority)),
        ("tenant", job.tenant_id),
        ("user", job.user),
        ("queue", job.queue if job.queue != "default" else ""),
        ("submitted", clock_text(job.submitted_at, now_ms)),
        ("starts", start_text(job.estimate, now_ms)),
        ("started", clock_text(job.started_at, now_ms) if job.started_at else ""),
        ("ended", clock_text(job.ended_at, now_ms) if job.ended_at else ""),
        ("ran", span(job, now_ms) if job.started_at else ""),
        ("paused", _paused(job, now_ms)),
        ("time limit", _minutes(job.max_runtime_minutes)),
        ("predicted", prediction_text(job.prediction)),
        ("deadline", _deadline(job, now_ms)),
        ("reservation", job.reservation or ""),
        ("preemption", _preemption(job)),
        ("checkpoint", clock_text(job.checkpoint_at, now_ms) if job.checkpoint_at else ""),
        ("attempt", _attempts(job)),
        (
            "after",
            ", ".join(f"{d.job_id}{'' if d.kind == 'ok' else ' (any end)'}" for d in job.after),
        ),
        ("array", _array(job)),
        ("rerun of", job.rerun_of or ""),
        ("parameters", ", ".join(f"{name}={value}" for name, value in job.params.items())),
        ("secrets", ", ".join(clean(name) for name in job.secrets)),
        ("variables", "\n".join(f"{n}={v}" for n, v in sorted(job.environment.items()))),
        ("process", str(job.pid) if job.pid and job.state == "running" else ""),
        ("logs", job.log_dir or ""),
    ]
    return facts([(name, value) for name, value in pairs if value])


def _paused(job: JobModel, now_ms: int) -> str:
    """since 12:04 by ada, keeps its GPUs · 5m of its run"""
    if not job.paused_at:
        return f"{duration_text(job.paused_seconds)} of its run" if job.paused_seconds else ""
    by = f" by {clean(job.paused_by)}" if job.paused_by else ""
    return f"since {clock_text(job.paused_at, now_ms)}{by}; it keeps its GPUs"


def natural_key(job_id: str) -> list[tuple[int, int, str]]:
    """Sorts 9 before 10."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.findall(r"[0-9]+|[^0-9]+", job_id)
    ]


def span(job: JobModel, now_ms: int) -> str:
    """How long it has run, waited, or ran."""
    if job.state in ENDED:
        return between(job.started_at, job.ended_at)
    if job.state == "running":
        return since(job.started_at, now_ms)
    return since(job.submitted_at, now_ms)


def _gpus_wanted(job: JobModel) -> str:
    text = gpus_text(job.gpus_per_worker if job.workers > 1 else job.gpu_count, job.gpu_type)
    if job.workers > 1:
        text = f"{job.workers} workers of {text}"
    return text + (f", {mebibytes_text(job.gpu_memory_mb)} in all" if job.gpu_memory_mb else "")


def _place(job: JobModel) -> str:
    if not job.started_at or not job.gpus:
        return ""
    if len(job.placements) > 1:
        return "\n".join(
            f"worker {rank}: GPU {index_ranges(part.gpus)} of {clean(part.node)}"
            for rank, part in enumerate(job.placements)
        )
    return held_line(job)


def count_text(job: JobModel) -> str:
    """2, or 4x2 for four workers of two."""
    if job.workers > 1:
        return f"{job.workers}x{number_text(job.gpus_per_worker)}"
    return number_text(job.gpu_count)


def held_line(job: JobModel) -> str:
    """ "GPU 0-1 of local", "GPU a/0-1,b/0"."""
    held = gpus_held(job)
    return f"GPU {held}" if "/" in held or not job.node else f"GPU {held} of {clean(job.node)}"


def gpus_held(job: JobModel) -> str:
    """Those of all its workers: "0-3", or with several nodes "a/0-3,b/0-3"."""
    if job.gpu_text or not job.placements:
        return clean(job.gpu_text) or index_ranges(job.gpus)
    held = ((part.node, index) for part in job.placements for index in part.gpus)
    return clean(names_text(held, several_nodes=False))  # an older service's


def _constraints(job: JobModel) -> str:
    """What it asks of its place, as the options that asked for it would say."""
    asked = job.constraints
    if asked is None:
        return ""
    pairs = (
        (asked.gpu_types, f"on {' or '.join(asked.gpu_types)}"),
        (asked.gpu_memory_each_mb, f"GPUs of {mebibytes_text(asked.gpu_memory_each_mb)} or more"),
        (asked.allowed_gpus, f"only GPU {words_text(asked.allowed_gpus)}"),
        (asked.excluded_gpus, f"not GPU {words_text(asked.excluded_gpus)}"),
        (asked.nodes, f"only on {', '.join(asked.nodes)}"),
        (asked.excluded_nodes, f"not on {', '.join(asked.excluded_nodes)}"),
        (asked.labels, " ".join(f"{name}={value}" for name, value in asked.labels.items())),
        (asked.exclusive, "exclusive use of its nodes"),
        (asked.same_island, "GPUs of one NVLink island"),
        (asked.spread, "spread"),
    )
    return clean("; ".join(text for is_set, text in pairs if is_set))


def _preemption(job: JobModel) -> str:
    parts = [] if job.preemptible else ["never preempted"]
    if job.checkpoint_signal:
        parts.append(f"signal {job.checkpoint_signal} first")
    if job.preemptions:
        lost = duration_text(job.lost_gpu_seconds)
        parts.append(f"preempted {plural(job.preemptions, 'time')}, {lost} of GPU time lost")
    return ", ".join(parts)


def _deadline(job: JobModel, now_ms: int) -> str:
    if not job.deadline:
        return ""
    over_ms = iso_millis(job.ended_at) if job.ended_at else now_ms
    missed = ", missed" if over_ms > iso_millis(job.deadline) else ""
    return moment_text(job.deadline, now_ms) + missed


def _minutes(minutes: float | None) -> str:
    return duration_text(minutes * 60) if minutes else ""


def _attempts(job: JobModel) -> str:
    if not job.attempt:
        return ""
    text = str(job.attempt)
    if job.max_retries:
        text += f" of {job.max_retries + 1}"
    return text + (f", restarted {job.restarts}x" if job.restarts else "")


def _array(job: JobModel) -> str:
    if job.array is None:
        return ""
    cap = f", {job.array.max_running} at once" if job.array.max_running else ""
    return f"{job.array.array_id}, index {job.array.index}{cap}"
