"""The fields of a waiting job as a text that its owner edits, as `kubectl edit` does it."""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, cast

import yaml
from typer.core import TyperCommand

from tgpu.cli.environment import variables
from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.submit.job_file import read_job_file
from tgpu.text.durations import exact_text
from tgpu.text.system_words import system_words
from tgpu.wire.v1 import JobModel

_HEAD: Final = """\
# Job {job_id}. Edit the fields, save and quit; without a change nothing happens.
# The fields are those of a job file: see `tgpu submit --help`.
"""
# By parameter: what `tgpu edit` is told of a field that is gone; None where it must stay.
_GONE: Final[dict[str, dict[str, Any] | None]] = {
    "name": {"name": ""},
    "queue": {"queue": "default"},
    "priority": None,
    "gpus": None,
    "workers": {"workers": 1},
    "gpu_type": {"gpu_type": "any"},
    "gpu_mem": None,
    "cpus": {"cpus": 0.0},
    "mem": None,
    "gpu_ids": {"gpu_ids": "any"},
    "not_gpu_ids": {"not_gpu_ids": "none"},
    "node": {"node": ["any"]},
    "not_node": {"not_node": ["none"]},
    "time": {"no_time": True},
    "deadline": {"deadline": "none"},
    "after": {"no_after": True},
    "after_any": {"no_after": True},
    "retries": {"retries": 0},
}


def edit_in_editor(job: JobModel, command: TyperCommand) -> dict[str, Any]:
    """The options of `tgpu edit` that say what was changed. Raises Failure."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise bad_input("there is nothing to change", "give an option, as in: tgpu edit 7 --gpus 1")
    before = job_text(job)
    with tempfile.NamedTemporaryFile(
        "w", suffix=".yaml", prefix=f"tgpu-job-{job.job_id}-", delete=False
    ) as file:
        file.write(before)
    path = Path(file.name)
    _open_editor(path)
    after = path.read_text(errors="replace")
    try:
        change = difference(before, after, command)
    except Failure as failure:
        failure.remedy = f"{failure.remedy}; your text is in {path}".removeprefix("; ")
        raise
    path.unlink(missing_ok=True)
    return change


def job_text(job: JobModel) -> str:
    """As a job file without its command."""
    where, workers = job.constraints, job.workers
    limit = job.max_runtime_minutes
    fields: dict[str, object] = {
        "name": job.name,
        "priority": job.priority,
        "queue": job.queue,
        "gpus": _number(job.gpus_per_worker),
        "workers": workers if workers > 1 else None,
        "type": job.gpu_type or (where.gpu_types if where is not None else None),
        "cpus": _number(job.cpu_cores / workers),
        "mem": f"{job.memory_mb // workers}M" if job.memory_mb else None,
        "gpu-ids": where.allowed_gpus if where is not None else None,
        "not-gpu-ids": where.excluded_gpus if where is not None else None,
        "node": where.nodes if where is not None else None,
        "not-node": where.excluded_nodes if where is not None else None,
        "time": None if limit is None else exact_text(limit * 60, largest="h"),
        "deadline": job.deadline,
        "after": [after.job_id for after in job.after if after.kind == "ok"],
        "after-any": [after.job_id for after in job.after if after.kind == "any"],
        "retries": job.max_retries,
    }
    said = {name: value for name, value in fields.items() if value not in (None, [], "", 0)}
    said = {"name": job.name, **said}
    text = yaml.safe_dump(said, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return _HEAD.format(job_id=job.job_id) + text


def difference(before: str, after: str, command: TyperCommand) -> dict[str, Any]:
    was = read_job_file(before, "the job", command)[0].options
    drafts = read_job_file(after, "your text", command)
    if len(drafts) != 1 or drafts[0].fields:
        raise bad_input("your text: only changeable fields of one job are allowed")
    is_now = drafts[0].options
    changes: dict[str, Any] = {}
    for name in {**was, **is_now}:
        if was.get(name) == is_now.get(name):
            continue
        if name not in _GONE:
            raise bad_input(f"your text: {name} of a job cannot be changed")
        gone = _GONE[name]
        if name in is_now:
            changes[name] = is_now[name]
        elif gone is None:
            raise bad_input(f"your text: {name} cannot be left out: give another value")
        else:
            changes |= gone
    if {"after", "after_any"} & changes.keys():  # the one that stays is said with the other
        changes.pop("no_after", None)
        for name in ("after", "after_any"):
            if name in is_now:
                changes[name] = is_now[name]
    return changes


def _open_editor(path: Path) -> None:
    mine = variables()
    editor = mine.get("VISUAL") or mine.get("EDITOR") or "vi"
    words = [*shlex.split(editor), str(path)]
    try:
        code = subprocess.run(words, check=False).returncode
    except OSError as error:
        raise bad_input(
            f"the editor {words[0]!r} cannot be run: {system_words(error)}",
            "set EDITOR, or use options: tgpu edit 7 --gpus 1",
        ) from error
    if code:
        raise bad_input(f"the editor ended with exit code {code}; nothing was changed")


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def submit_command() -> TyperCommand:
    from tgpu.cli.main import build_command

    return cast(TyperCommand, build_command().commands["submit"])
