"""Which file a command runs, and whether it lies where the scripts of jobs may lie.

Only looks at files and runs nothing: as the job's user, right before its command begins. What
cannot be told from a command's words (code on the command line, a module, an option that is not
known here) is refused: a rule with holes is none.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tgpu.engines.local.commands import DEFAULT_PATH, NotStarted


class _Interpreter(NamedTuple):
    name: re.Pattern[str]
    flags: re.Pattern[str]  # options without a value, or with one in the same word
    valued: re.Pattern[str]  # options whose value is the next word


class _Wrapper(NamedTuple):
    """Runs the command that follows its own words."""

    first: tuple[str, ...]
    flags: frozenset[str]
    valued: frozenset[str]


_NEVER: Final = re.compile(r"(?!)")
_INTERPRETERS: Final = (
    _Interpreter(
        re.compile(r"(python|pypy)[0-9.]*"),
        re.compile(r"-[bBdEiIOPqRsSuv]+"),
        re.compile(r"-[WX]"),
    ),
    _Interpreter(
        re.compile(r"(ba|da|z|k)?sh"), re.compile(r"[-+][euxvf]+"), re.compile(r"[-+][euxvf]*o")
    ),
    _Interpreter(re.compile(r"Rscript"), re.compile(r"--[a-z-]+(=.*)?"), _NEVER),
    _Interpreter(re.compile(r"julia"), re.compile(r"--[a-z-]+=.*|--project"), _NEVER),
    _Interpreter(re.compile(r"torchrun"), re.compile(r"--[a-z_-]+=.*|--standalone"), _NEVER),
    _Interpreter(re.compile(r"perl[0-9.]*|ruby[0-9.]*|node(js)?"), _NEVER, _NEVER),
)
_CONDA: Final = _Wrapper(
    ("run",),
    frozenset({"--no-capture-output", "--live-stream"}),
    frozenset({"-n", "--name", "-p", "--prefix"}),
)
_WRAPPERS: Final = {
    "conda": _CONDA,
    "mamba": _CONDA,
    "uv": _Wrapper(("run",), frozenset({"--"}), frozenset({"--project", "--python"})),
}


class NotAllowed(NotStarted):
    """The sentence says what of the command is not, and why."""

    def __init__(self, what: str, sentence: str) -> None:
        super().__init__(sentence, retry=False)
        self.what = what


def check(
    argv: Sequence[str], cwd: str, variables: Mapping[str, str], folders: Sequence[str]
) -> None:
    """Raises NotAllowed. Links and `..` are resolved as the kernel does it.

    Without folders everything may run.
    """
    if not folders or not argv:
        return
    here = _Here(cwd, variables.get("PATH", DEFAULT_PATH))
    named = here.file(_script(list(argv), here))
    try:
        # Strictly: what cannot be followed to its end may be led elsewhere afterwards.
        script = os.path.realpath(named, strict=True)
    except OSError as error:
        reason = (error.strerror or "it cannot be found").lower()
        raise NotAllowed(named, f"the script {named} cannot be run: {reason}") from error
    if not any(_is_below(script, os.path.realpath(folder)) for folder in folders):
        raise NotAllowed(
            script,
            f"the script {script} is outside security.allowed_script_paths: {', '.join(folders)}",
        )


class _Here(NamedTuple):
    """Where a job looks for files and programs."""

    cwd: str
    path: str

    def file(self, name: str) -> str:
        return os.path.join(self.cwd, name)

    def program(self, name: str) -> str | None:
        if "/" in name:
            return self.file(name)
        parts = (self.file(part or ".") for part in self.path.split(os.pathsep))
        found = (os.path.join(part, name) for part in parts)
        return next((p for p in found if os.path.isfile(p) and os.access(p, os.X_OK)), None)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _script(words: list[str], here: _Here) -> str:
    """The file that the command runs, as it stands there or as it is found."""
    program, rest = words[0], words[1:]
    found = here.program(program)
    names = {os.path.basename(program)}
    if found is not None:
        # By the file behind the name too, or any link could call itself python.
        names.add(os.path.basename(os.path.realpath(found)))
    for wrapper_name, wrapper in _WRAPPERS.items():
        if names == {wrapper_name}:
            return _wrapped(wrapper_name, wrapper, rest, here)
    for interpreter in _INTERPRETERS:
        if all(interpreter.name.fullmatch(name) for name in names):
            return _first_argument(program, interpreter, rest)
    if found is None:
        raise NotAllowed(program, f"there is no {program} on the job's PATH")
    return found


def _wrapped(name: str, wrapper: _Wrapper, words: list[str], here: _Here) -> str:
    if tuple(words[: len(wrapper.first)]) != wrapper.first:
        raise _untold(name, words[0] if words else "")
    rest = words[len(wrapper.first) :]
    while rest and rest[0].startswith("-"):
        if rest[0] not in wrapper.flags | wrapper.valued:
            raise _untold(name, rest[0])
        rest = rest[2:] if rest[0] in wrapper.valued else rest[1:]
    if not rest:
        raise _untold(name, "")
    if name == "uv" and rest[0].endswith(".py"):
        return rest[0]
    return _script(rest, here)


def _first_argument(program: str, interpreter: _Interpreter, words: list[str]) -> str:
    rest = words
    while rest and rest[0].startswith(("-", "+")):
        if interpreter.valued.fullmatch(rest[0]):
            rest = rest[2:]
        elif interpreter.flags.fullmatch(rest[0]):
            rest = rest[1:]
        else:
            raise _untold(program, rest[0])
    if not rest:
        raise _untold(program, "")
    return rest[0]


def _untold(program: str, word: str) -> NotAllowed:
    shown = f"{program} {word}".strip()
    return NotAllowed(
        shown,
        f"security.allowed_script_paths is set, and `{shown}` does not say which script it runs: "
        f"write {os.path.basename(program)} and the path of a script",
    )
