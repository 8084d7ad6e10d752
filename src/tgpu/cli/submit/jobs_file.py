"""`tgpu jobs-file`: checks a jobs file, and shows the jobs of the watched one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

if TYPE_CHECKING:
    from tgpu.cli.render.grid import Grid
    from tgpu.wire.jobs_file_v1 import JobsFileAnswer

_CHECK_EPILOG = examples("tgpu jobs-file check jobs.txt", "tgpu jobs-file check --json")
_LIST_EPILOG = examples("tgpu jobs-file list", "tgpu jobs-file list --json | jq .lines")

app = typer.Typer(
    help="Jobs from a watched file: check it and see the job of each line.",
    epilog=examples("tgpu jobs-file check jobs.txt", "tgpu jobs-file list"),
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("check", epilog=_CHECK_EPILOG)
def check(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Default: the file that the scheduler watches."),
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Check a jobs file and list its invalid lines. Nothing is queued."""
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.output import note, say, show_json
    from tgpu.cli.render.grid import clean
    from tgpu.cli.render.words import plural, sentence_text

    found = _watched(api_url) if file is None else read_jobs_file(file)
    bad = [line for line in found.lines if line.problem is not None]
    if as_json:
        show_json(found)
    else:
        for line in bad:
            say(f"{clean(found.path or '')}:{line.line}: {sentence_text(line.problem or '')}")
        if found.problem is not None:
            say(f"{clean(found.path or '')}: {sentence_text(found.problem)}")
        note(f"{plural(len(found.lines) - len(bad), 'line')} can be used, {len(bad)} cannot")
    return ExitCode.FAILURE if bad or found.problem is not None else ExitCode.OK


@app.command("list", epilog=_LIST_EPILOG)
def list_lines(as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show the lines of the watched jobs file and the job of each."""
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out

    found = _watched(api_url)
    if as_json:
        show_json(found)
    elif found.lines:
        show_lines(lay_out(_grid(found), width()))
    else:
        note(_nothing(found))


def read_jobs_file(file: Path) -> "JobsFileAnswer":
    """A file of this machine, judged as the scheduler would, without asking it."""
    from tgpu.jobs_file.format import parse_jobs_file
    from tgpu.wire.jobs_file_v1 import JobsFileAnswer, JobsFileLine

    read = parse_jobs_file(file.read_bytes())
    folder = file.absolute().parent
    lines = [
        JobsFileLine(
            line=line.number,
            text=" ".join((line.script, *line.args)),
            job_id=None,
            state=None,
            tries=0,
            problem=None
            if (folder / Path(line.script).expanduser()).is_file()
            else f"script: there is no file {line.script}",
        )
        for line in read.lines
    ]
    lines += [
        JobsFileLine(line=b.number, text="", job_id=None, state=None, tries=0, problem=b.problem)
        for b in read.bad
    ]
    by_number = {line.line: line for line in lines}
    lines += [
        by_number[first].model_copy(update={"line": number, "text": f"the same as line {first}"})
        for number, first in read.repeats
    ]
    lines.sort(key=lambda line: line.line)
    return JobsFileAnswer(path=str(file), exists=True, problem=None, lines=lines)


def _watched(api_url: str | None) -> "JobsFileAnswer":
    from tgpu.cli.connect import connected
    from tgpu.cli.failures import bad_input

    with connected(api_url) as client:
        found = client.jobs_file()
    if found.path is None:
        raise bad_input("the scheduler watches no jobs file", "set files.jobs_file, or name FILE")
    return found


def _nothing(found: "JobsFileAnswer") -> str:
    if found.problem is not None:
        return f"{found.path}: {found.problem}"
    return f"{found.path} has no jobs" if found.exists else f"there is no {found.path} yet"


def _grid(found: "JobsFileAnswer") -> "Grid":
    from tgpu.cli.render.grid import Cell, Column, Grid, clean

    columns = (
        Column("LINE", right=True),
        Column("JOB"),
        Column("STATE"),
        Column("TRIES", right=True, leave_out=1),
        Column("WHAT", least=20),
    )
    rows = tuple(
        (
            Cell(str(line.line)),
            Cell(clean(line.job_id or "-")),
            Cell(line.state or "not used"),
            Cell(str(line.tries)),
            Cell(clean(line.problem or line.text)),
        )
        for line in found.lines
    )
    return Grid(columns, rows)
