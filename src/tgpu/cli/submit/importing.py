"""`tgpu import`: jobs of other queues."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgpu.cli.options import ApiUrl, Json, examples
from tgpu.text.system_words import system_words

if TYPE_CHECKING:
    from tgpu.cli.submit.import_lines import Imported, ImportedJob
    from tgpu.cli.submit.option_fields import JobOptions
    from tgpu.client.http import Client

EPILOG = examples(
    "tgpu import commands.txt --dry-run",
    "tgpu import commands.txt --gpus 2 --hold",
    "tsp -l | tgpu import -",
)


class Form(StrEnum):
    AUTO = "auto"
    COMMANDS = "commands"
    TASK_SPOOLER = "task-spooler"


def import_jobs(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file; - for standard input.")],
    *,
    form: Annotated[
        Form,
        typer.Option("--format", case_sensitive=False, help="Format of the file. Default: detect."),
    ] = Form.AUTO,
    gpus: Annotated[
        str, typer.Option(metavar="N", help="Number of GPUs for lines that do not say.")
    ] = "1",
    shell: Annotated[
        bool, typer.Option("--shell", help="Run each command in sh, for pipes and the like.")
    ] = False,
    cwd: Annotated[
        str | None, typer.Option(metavar="DIR", help="Working directory. Default: this one.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="ID", help="Tenant whose quota they use.")
    ] = None,
    queue: Annotated[str, typer.Option(metavar="NAME", help="Queue of that tenant.")] = "default",
    hold: Annotated[bool, typer.Option("--hold", help="Put them on hold.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be queued, and queue nothing.")
    ] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Queue jobs from a file with one command per line, or from task-spooler's list (`tsp -l`).

    A command may be preceded by gpus=2, name=x, time=2h, priority=N and variables such as SEED=1.
    If any line is invalid, nothing is queued.
    """
    from tgpu.cli.connect import connected, ensure_service
    from tgpu.cli.failures import bad_input
    from tgpu.cli.output import note, say, show_json
    from tgpu.text.plurals import plural

    found = _read(file, form, shell)
    if found.mistakes:
        raise bad_input(found.mistakes[0], _other_mistakes(found.mistakes))
    for line in found.notes:
        note(f"note: {line}")
    common = {"gpus": gpus, "cwd": cwd, "tenant": tenant, "queue": queue, "hold": hold}
    jobs = [(job, common | _said(job)) for job in found.jobs]
    for job, options in jobs:
        _check(options, job.line)
    if dry_run:
        _show(found.jobs, gpus, as_json)
        return
    if not jobs:
        raise bad_input(f"{file}: it has no jobs")
    ensure_service(api_url)
    ids: dict[str, str] = {}
    sent: list[dict[str, object]] = []
    with connected(api_url) as client:
        for job, options in jobs:
            after = [ids[old_id] for old_id in job.after if old_id in ids]
            new_id = _submit(client, {**options, "after": after}, job, len(sent))
            ids[job.old_id] = new_id
            sent.append({"line": job.line, "job_id": new_id})
    if as_json:
        show_json({"jobs": sent})
    else:
        made = [str(each["job_id"]) for each in sent]
        span = made[0] if len(made) == 1 else f"{made[0]} to {made[-1]}"
        say(f"queued {plural(len(sent), 'job')}: {span}")


def _read(file: str, form: Form, by_shell: bool) -> "Imported":
    import sys
    from pathlib import Path

    from tgpu.cli.failures import bad_input
    from tgpu.cli.submit.import_lines import is_listing, read_commands, read_listing

    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).expanduser().read_bytes()
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = system_words(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise bad_input(f"FILE: {file!r} cannot be read: {reason}") from error
    if form is Form.TASK_SPOOLER and not is_listing(text):
        raise bad_input(f"{file}: is not a list of task-spooler", "make one with: tsp -l")
    if form is not Form.COMMANDS and is_listing(text):
        return read_listing(text, by_shell=by_shell)
    return read_commands(text, by_shell=by_shell)


def _other_mistakes(mistakes: list[str]) -> str:
    return "\n  ".join([*mistakes[1:20], "nothing was queued"])


def _said(job: "ImportedJob") -> dict[str, Any]:
    """What its own line says, as options of `tgpu submit`."""
    said = {"command": job.command, "name": job.name, "time": job.time, "priority": job.priority}
    return {**said, "env": job.env, **({"gpus": job.gpus} if job.gpus else {})}


def _check(options: "JobOptions", line: int) -> None:
    """Bad values are found before anything is queued."""
    from tgpu.cli.failures import Failure, bad_input
    from tgpu.cli.submit.send import build

    try:
        build(options, lambda job_id: job_id)
    except Failure as failure:
        raise bad_input(f"line {line}: {failure.message}", failure.remedy) from failure


def _submit(client: "Client", options: "JobOptions", job: "ImportedJob", before: int) -> str:
    from tgpu.cli.failures import Failure
    from tgpu.cli.submit.send import build, submit
    from tgpu.text.plurals import plural

    request, _ = build(options, lambda job_id: job_id)
    try:
        return submit(client, request).job_id
    except Failure as failure:
        queued = f"{plural(before, 'line')} before it {'is' if before == 1 else 'are'} queued"
        failure.message = f"line {job.line}: {failure.message}"
        failure.remedy = "; ".join([*([failure.remedy] if failure.remedy else []), queued])
        raise


def _show(jobs: "list[ImportedJob]", gpus: str, as_json: bool) -> None:
    import shlex

    from tgpu.cli.output import show_json, show_lines, width
    from tgpu.cli.render.grid import Cell, Column, Grid, clean, lay_out

    if as_json:
        fields = [
            {"line": job.line, "gpus": job.gpus or gpus, "name": job.name, "after": list(job.after)}
            | {"command": list(job.command), "environment": list(job.env)}
            for job in jobs
        ]
        show_json({"jobs": fields})
        return
    columns = (Column("LINE"), Column("GPUS"), Column("AFTER"), Column("COMMAND", least=10))
    rows = tuple(
        (
            Cell(str(job.line)),
            Cell(job.gpus or gpus),
            Cell(",".join(job.after) or "-"),
            Cell(clean(shlex.join(job.command))),
        )
        for job in jobs
    )
    show_lines(lay_out(Grid(columns, rows), width()))
