"""Errors in a command line, in our own words with a remedy."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import typer

from tgpu.cli.failures import Failure, bad_input
from tgpu.core.errors import quoted
from tgpu.wire.complaints import remedy_of

# Where the kind of value alone says too little.
_MEANINGS: Final = {
    "--priority": "must be a whole number, higher goes first: 300 is low, 500 normal, 1500 high",
}
# Words that people take for one another, of other tools and of ours.
_SAME: Final = (
    ("create", "add", "new", "set"),
    ("remove", "delete", "rm", "revoke"),
    ("change", "update", "modify", "edit"),
    ("list", "ls", "ps", "squeue", "qstat"),
    ("cancel", "kill", "scancel", "qdel"),
    ("submit", "sbatch", "qsub"),
    ("run", "srun", "exec"),
    ("status", "info", "sinfo"),
    ("show", "describe", "inspect", "get"),
    ("logs", "log", "tail"),
    ("cwd", "dir", "directory", "workdir", "working-dir", "chdir"),
    ("type", "gpu-type"),
    ("time", "time-limit", "max-runtime", "walltime"),
    ("after", "dependency", "depends-on"),
    ("env", "export"),
    ("cpus", "cpus-per-task", "cores"),
    ("mem", "memory", "ram"),
    ("reservation", "booking"),
    ("server", "url", "api-url"),
)
_NOT_A_NUMBER: Final = frozenset({"int_parsing", "int_type", "int_from_float"})
_CHOICES: Final = re.compile(r"is not one of (.*)", re.DOTALL)
_NO_COMMAND: Final = re.compile(r"No such command '(?P<name>.*?)'(?:\.|$)", re.DOTALL)
_TOO_MUCH: Final = re.compile(
    r"Got unexpected extra argument(?:s|\(s\))? \((?P<words>.*)\)", re.DOTALL
)
_FILES: Final = (
    (re.compile(r"\w+ '(.*)' does not exist", re.DOTALL), "there is no {}"),
    (re.compile(r"\w+ '(.*)' is a directory", re.DOTALL), "{} is a folder"),
    (re.compile(r"\w+ '(.*)' is a file", re.DOTALL), "{} is not a folder"),
    (re.compile(r"\w+ '(.*)' is not readable", re.DOTALL), "{} cannot be read by you"),
    (re.compile(r"\w+ '(.*)' is not writable", re.DOTALL), "{} cannot be written by you"),
)


def usage_failure(error: typer.TyperException) -> Failure:
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tgpu"
    return bad_input(usage_sentence(error), f"see: {path} --help")


def usage_sentence(error: typer.TyperException) -> str:
    """What is wrong with the words, wherever they stood: in a command line, a file, a script."""
    context: Any = getattr(error, "ctx", None)
    if hasattr(error, "param") or hasattr(error, "option_name"):
        return _of_parameter(error, context)
    message = error.format_message().rstrip(".").replace("\n", " ")
    if found := _NO_COMMAND.search(message):
        return f"there is no command {found['name']!r}{_near(found['name'], _commands(context))}"
    if found := _TOO_MUCH.search(message):
        return f"{found['words']!r} is too much: nothing more is taken here"
    return "a command is missing" if message == "Missing command" else message


def _of_parameter(error: Any, context: Any) -> str:
    if hasattr(error, "possibilities"):
        return _no_option(error, context)
    if hasattr(error, "option_name"):
        takes = "takes no value" if "does not take" in str(error) else "needs a value"
        return f"{error.option_name} {takes}"
    if hasattr(error, "param_type"):
        return f"{_named(error)} is missing"
    return f"{_named(error)}: {_bad_value(error)}"


def _no_option(error: Any, context: Any) -> str:
    name = str(error.option_name)
    there = [flag for each in _parameters(context) for flag in each.opts if flag.startswith("--")]
    return f"there is no option {name}{_near(name, there)}"


def _bad_value(error: Any) -> str:
    cause = error.__cause__
    errors = getattr(cause, "errors", None)
    if errors is None:
        text = str(error.message).rstrip(".").replace("\n", " ")
        for pattern, words in _FILES:
            if found := pattern.fullmatch(text):
                return words.format(repr(found[1]))
        return text
    first: Mapping[str, Any] = errors(include_url=False)[0]
    remedy = remedy_of(first)
    if choices := _CHOICES.search(remedy):
        remedy = f"must be one of {choices[1].rstrip('.')}"
    if first["type"] in _NOT_A_NUMBER:
        remedy = _MEANINGS.get(_named(error), remedy)
    return f"{remedy} (got {quoted(first['input'])})"


def _named(error: Any) -> str:
    """ "--priority", "JOB"."""
    parameter = error.param
    if parameter is None:
        return str(error.param_hint or "a value")
    flags = [flag for flag in parameter.opts if flag.startswith("--")]
    if flags:
        return str(flags[0])
    return str(parameter.metavar or parameter.name).upper()


def _parameters(context: Any) -> list[Any]:
    return [] if context is None else list(context.command.params)


def _commands(context: Any) -> list[str]:
    return [] if context is None else list(getattr(context.command, "commands", {}))


def _near(name: str, there: list[str]) -> str:
    """Only what was surely meant: a wrong guess is worse than none."""
    bare = name.lstrip("-")
    by_bare = {each.lstrip("-"): each for each in there}
    same = next((words for words in _SAME if bare in words), ())
    near = [
        *get_close_matches(bare, by_bare, n=1, cutoff=0.75),
        *(word for word in same if word in by_bare),
        *(each for each in by_bare if len(bare) > 2 and each.startswith(f"{bare}-")),
    ]
    return f"; did you mean {by_bare[near[0]]}?" if near else ""
