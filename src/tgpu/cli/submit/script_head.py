"""A script to submit: the options in its header, and how it is passed to the job. Pure."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from typer.core import TyperCommand

from tgpu.cli.failures import bad_input
from tgpu.cli.option_words import ANSWERING, WrongWords, read_words
from tgpu.cli.submit.drafts import JobDraft

_OURS: Final = re.compile(r"#TGPU(?:\s+(.*))?$")
_SHELL: Final = re.compile(r"(ba|da|z|k)?sh")
_LONGEST: Final = 131_071  # bytes that the kernel takes for one argument


@dataclass(frozen=True, slots=True)
class Script:
    """`path` is absolute, or only a name where the text came from standard input."""

    shown: str  # as it was named
    path: str
    text: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_file(self) -> bool:
        return self.path.startswith("/")


def head_lines(text: str) -> Iterator[tuple[int, str]]:
    """The comments that a script begins with, up to the first line of anything else."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return
        yield number, stripped


def has_options(text: str) -> bool:
    return any(_OURS.match(line) for _, line in head_lines(text))


def has_slurm_options(text: str) -> bool:
    return any(line.startswith("#SBATCH") for _, line in head_lines(text))


def read_head(script: Script, command: TyperCommand) -> JobDraft:
    """What the #TGPU lines say; later ones go before earlier ones. Raises Failure."""
    options: dict[str, Any] = {}
    places: dict[str, tuple[str, int]] = {}
    for number, line in head_lines(script.text):
        match = _OURS.match(line)
        if match is None:
            continue
        where = f"{script.shown}, line {number}"
        try:
            words = shlex.split(match[1] or "", comments=True)
            read, rest = read_words(command, words)
        except WrongWords as error:
            raise bad_input(f"{where}: {error}", "see: tgpu submit --help") from error
        except ValueError as error:
            raise bad_input(f"{where}: a quote is not closed: {line}") from error
        if rest:
            remedy = "a #TGPU line takes only options of `tgpu submit`, as in: #TGPU --gpus 2"
            raise bad_input(f"{where}: {rest[0]!r} is not an option", remedy)
        for name, value in read.items():
            if name in ANSWERING:
                flag = "--" + {"as_json": "json"}.get(name, name).replace("_", "-")
                raise bad_input(f"{where}: {flag} is for the command line, not for a script")
            options[name] = [*options.get(name, []), *value] if isinstance(value, list) else value
        places |= {word.partition("=")[0]: (word.partition("=")[0], number) for word in words}
    return JobDraft(script.shown, 0, options, {}, places)


def command_words(script: Script, args: Sequence[str], *, by_path: bool) -> list[str]:
    """The command of a script. A shell's is sent along as it is now, as Slurm does it.

    Others have to lie where they lie: a program of Python finds its modules beside itself.
    """
    interpreter, program = _interpreter(script)
    is_shell = _SHELL.fullmatch(program.rpartition("/")[2]) is not None
    if not is_shell and not script.is_file:
        raise bad_input(
            f"{script.shown}: only a shell script can be read from there, not one for {program}",
            "write it into a file and submit that",
        )
    if script.is_file and (by_path or not is_shell):
        return [*interpreter, script.path, *args]
    if len(script.text.encode()) > _LONGEST:
        raise bad_input(
            f"{script.shown} has more than {_LONGEST} bytes, the maximum that can be sent along",
            "--by-path runs it from its file",
        )
    return [*interpreter, "-c", script.text, script.path, *args]


def replaced_by_sweep(script: Script, parameters: Sequence[str]) -> str | None:
    """A parameter whose {name} stands in the script as a variable of the shell, ${name}."""
    return next((name for name in parameters if f"${{{name}}}" in script.text), None)


def _interpreter(script: Script) -> tuple[list[str], str]:
    """The words before the script, and the program among them."""
    first = script.text.partition("\n")[0]
    words = first[2:].split() if first.startswith("#!") else []
    if words and words[0].rpartition("/")[2] == "env":
        called = [word for word in words[1:] if word != "-S"]
        program = next((w for w in called if "=" not in w and not w.startswith("-")), "")
        words = called if called[:1] == [program] else [words[0], *called]
        return words, program
    if not words:
        words = ["python3"] if script.path.endswith(".py") else ["bash"]
    return words, words[0]
