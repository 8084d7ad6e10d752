"""`tgpu add`: queues a script like a line of the jobs file."""

import os
import shlex
from typing import Annotated, Final

import typer

from tgpu.cli.options import ApiUrl, Json, examples, read_option
from tgpu.text.system_words import system_words

# What options of `submit` are here: --gpus has the GPUs that are allowed, as in the jobs file.
_HERE: Final = {"--gpu-ids": "--gpus", "--gpus": "GPUs by its model"}

EPILOG = examples(
    'tgpu add train.py --args "--llm qwen2.5-7b-inst --mode test" --priority 1 --gpus 0,1',
    'tgpu add eval.py --conda ml_env --args "--model mistral-7b" --auto',
    "tgpu add run.sh --priority 0 --wait",
)

_SOURCE_BYTES = 1024 * 1024  # of a script, to see whether it takes --cuda
_WHERE = "Where"
_OUTPUT = "Output"


def add(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python or shell script.")],
    *,
    args: Annotated[
        str, typer.Option(metavar="TEXT", help="Its arguments, quoted as for a shell.")
    ] = "",
    priority: Annotated[
        str, typer.Option(metavar="CLASS", help="0 is high, 1 normal, 2 low.")
    ] = "1",
    auto: Annotated[
        bool,
        typer.Option(
            "--auto", help="Choose the number of GPUs from past runs of its model; see `tgpu size`."
        ),
    ] = False,
    gpus: Annotated[
        str,
        typer.Option(
            metavar="IDS",
            help="Only these GPUs: 0-3 or 4,5,6. Default: any.",
            rich_help_panel=_WHERE,
        ),
    ] = "",
    conda: Annotated[
        str,
        typer.Option(metavar="ENV", help="Run in this conda environment.", rich_help_panel=_WHERE),
    ] = "",
    venv: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="Run in this virtual environment.", rich_help_panel=_WHERE
        ),
    ] = "",
    uv: Annotated[
        str, typer.Option(metavar="DIR", help="Run in this uv project.", rich_help_panel=_WHERE)
    ] = "",
    cwd: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Working directory. Default: this one.", rich_help_panel=_WHERE
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Tenant whose quota it uses.", rich_help_panel=_WHERE),
    ] = None,
    queue: Annotated[
        str, typer.Option(metavar="NAME", help="Queue of that tenant.", rich_help_panel=_WHERE)
    ] = "default",
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Show its output and return its exit code.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the id.", rich_help_panel=_OUTPUT)
    ] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Queue a script like a line of the jobs file.

    It gets as many GPUs as the model in its --llm or --model argument needs. An option --cuda of
    the script is set to its GPUs.
    """
    from tgpu.cli.environment import working_dir
    from tgpu.cli.failures import Failure
    from tgpu.cli.submit.send import Answering, send
    from tgpu.jobs_file.format import CLASS_PRIORITY, parse_class, parse_gpus
    from tgpu.jobs_file.script_command import script_command
    from tgpu.text.gpu_names import choices_text

    words = read_option("--args", shlex.split, args)
    level = CLASS_PRIORITY[read_option("--priority", parse_class, priority)]
    gpus_named = read_option("--gpus", parse_gpus, gpus)
    path = os.path.normpath(os.path.join(working_dir(None), os.path.expanduser(script)))
    source = _source(path, script, is_elsewhere=api_url is not None)
    in_environment = bool(conda or venv or uv)
    options = {
        "command": script_command(path, words, source, in_environment=in_environment),
        "name": os.path.basename(path),
        "priority": level,
        "gpu_ids": choices_text(gpus_named),
        **{"auto": auto, "conda": conda, "venv": venv, "uv": uv},
        **{"cwd": cwd, "tenant": tenant, "queue": queue},
    }
    by_model = {} if auto else {"size_by": "model"}
    try:
        return send(options, Answering(api_url, wait, quiet, as_json), by_model)
    except Failure as failure:
        option, colon, rest = failure.message.partition(": ")
        failure.message = f"{_HERE.get(option, option)}{colon}{rest}"
        raise


def _source(path: str, given: str, *, is_elsewhere: bool) -> str:
    """The script's text; a scheduler elsewhere may have files that are not here."""
    from tgpu.cli.failures import bad_input

    try:
        with open(path, "rb") as file:
            return file.read(_SOURCE_BYTES).decode(errors="replace")
    except OSError as error:
        if is_elsewhere:
            return ""
        reason = system_words(error)
        raise bad_input(f"SCRIPT: {given!r} cannot be read: {reason}") from error
