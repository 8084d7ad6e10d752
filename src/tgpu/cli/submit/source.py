"""What was given to `tgpu submit`: a command, a script or a job file."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import typer
from typer.core import TyperCommand

from tgpu.cli.failures import bad_input
from tgpu.cli.option_words import WrongWords, is_behind_dashes, read_words, typed_names
from tgpu.cli.output import note
from tgpu.cli.submit.drafts import Given, JobDraft, job_options, laid_over
from tgpu.cli.submit.job_file import read_job_file
from tgpu.cli.submit.script_head import (
    Script,
    command_words,
    has_options,
    has_slurm_options,
    read_head,
    replaced_by_sweep,
)
from tgpu.cli.submit.send import Answering, send
from tgpu.cli.submit.send_many import Sending, send_many
from tgpu.text.system_words import system_words

_JOB_FILES: Final = (".yaml", ".yml", ".json")
_SCRIPTS: Final = (".sh", ".bash", ".py")
_STANDARD_INPUT: Final = "-"
_MOST_BYTES: Final = 4 * 1024 * 1024  # of a file; larger ones are something else


def send_source(context: typer.Context, how: Answering, *, by_path: bool) -> int:
    """The exit code of `tgpu submit`. Behind `--` stands a command, whatever it is called."""
    given = Given(job_options(context.params), typed_names(context))
    words = list(given.options["command"] or ())
    command = cast(TyperCommand, context.command)
    if words and not is_behind_dashes(context, words):
        if words[0].lower().endswith(_JOB_FILES) and not shutil.which(words[0]):
            return _send_files(words, command, given, how)
        script = _script(words[0])
        if script is not None and not script.is_file and not script.text.startswith("#!"):
            drafts = read_job_file(script.text, script.shown, command)
            return _send_drafts(drafts, *_with_options(words[1:], command, given, how))
        if script is not None:
            return _send_script(script, words[1:], command, given, how, by_path=by_path)
    if by_path:
        raise bad_input("--by-path needs a script")
    return send(given.options, how)


def _send_files(words: list[str], command: TyperCommand, given: Given, how: Answering) -> int:
    """Several files may be named, and options behind them."""
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    drafts = [
        draft for name in words[:count] for draft in read_job_file(_text(name), name, command)
    ]
    return _send_drafts(drafts, *_with_options(words[count:], command, given, how))


def _with_options(
    words: Sequence[str], command: TyperCommand, given: Given, how: Answering
) -> tuple[Given, Answering]:
    """With the options that stand behind the name of a job file."""
    try:
        read, rest = read_words(command, words)
    except WrongWords as error:
        raise bad_input(str(error), "see: tgpu submit --help") from error
    if rest:
        raise bad_input(f"{rest[0]!r}: a job file contains its command", "leave that out")
    answering = {
        name: read.pop(name) for name in ("wait", "quiet", "as_json", "when") if name in read
    }
    read.pop("by_path", None)
    url = read.pop("api_url", None) or how.api_url
    options, _ = laid_over(replace(given, names=frozenset()), JobDraft("", 0, read))
    return Given(options, given.names | read.keys()), replace(how, api_url=url, **answering)


def _send_drafts(drafts: list[JobDraft], given: Given, how: Answering) -> int:
    jobs = []
    for draft in drafts:
        options, fields = laid_over(given, draft)
        options["command"] = draft.options.get("command")
        jobs.append(Sending(options, fields, draft.without(given.names).placed))
    return send_many(jobs, how)


def _send_script(
    script: Script,
    args: Sequence[str],
    command: TyperCommand,
    given: Given,
    how: Answering,
    *,
    by_path: bool,
) -> int:
    if has_slurm_options(script.text):
        note(
            f"note: #SBATCH lines are not read: write them as #TGPU lines, with the options of "
            f"`tgpu submit` ({script.shown})"
        )
    draft = read_head(script, command)
    options, _ = laid_over(given, draft)
    names = [pair.partition("=")[0] for pair in options.get("param") or ()]
    words = command_words(script, args, by_path=by_path)
    if script.text in words and (name := replaced_by_sweep(script, names)) is not None:
        raise bad_input(
            f"{script.shown}: --param {name} would replace part of ${{{name}}}",
            f"write $TGPU_PARAM_{name} there instead",
        )
    options |= {"command": words, "name": options.get("name") or script.name}
    return send_many([Sending(options, {}, draft.without(given.names).placed)], how)


def _script(name: str) -> Script | None:
    """None: it is a command, as it would be found on the PATH."""
    if name == _STANDARD_INPUT:
        return Script(
            "standard input",
            "stdin",
            _decoded("standard input", sys.stdin.buffer.read(_MOST_BYTES + 1)),
        )
    path = Path(name).expanduser()
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        text = raw.decode()
    except (OSError, UnicodeDecodeError):
        return None
    if "\0" in text or len(raw) > _MOST_BYTES:
        return None
    is_script = text.startswith("#!") or name.endswith(_SCRIPTS)
    if has_options(text) or (is_script and shutil.which(name) is None):
        return Script(name, str(path.absolute()), text)
    return None


def _text(name: str) -> str:
    try:
        with Path(name).expanduser().open("rb") as file:
            return _decoded(name, file.read(_MOST_BYTES + 1))
    except OSError as error:
        raise bad_input(f"{name}: cannot be read: {system_words(error)}") from error


def _decoded(name: str, raw: bytes) -> str:
    if len(raw) > _MOST_BYTES:
        raise bad_input(f"{name}: has more than {_MOST_BYTES // 1024**2} MiB, too much for jobs")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise bad_input(f"{name}: is not UTF-8 text (byte {error.start})") from error
