"""Parses options of `tgpu submit` that are not on its command line, as in scripts and job files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperOption

from tgpu.cli.usage_words import usage_sentence

# How `tgpu` answers, and not what the job is: for the command line alone.
ANSWERING: Final = frozenset({"when", "wait", "quiet", "as_json", "api_url", "by_path"})
_WORDS = "tgpu.submit.words"


class SubmitCommand(TyperCommand):
    """Remembers its words: whether `--` stood before a command is lost by reading them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)


def is_behind_dashes(context: typer.Context, command: Sequence[str]) -> bool:
    words = context.meta.get(_WORDS, [])
    return len(words) > len(command) > 0 and words[-len(command) - 1] == "--"


def typed_names(context: Any) -> frozenset[str]:
    """The parameters that stand on the command line; not those of variables and defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(
        name
        for name, source in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    )


@dataclass(frozen=True, slots=True)
class Option:
    """One option of `tgpu submit`."""

    name: str  # of the parameter
    flag: str  # "--gpus"
    is_switch: bool
    is_list: bool
    help: str


def options_of(command: TyperCommand) -> dict[str, Option]:
    """By their long names without dashes, both as gpu-mem and as gpu_mem; hidden ones too."""
    found: dict[str, Option] = {}
    for parameter in command.params:
        if not isinstance(parameter, TyperOption) or parameter.name in (*ANSWERING, "help"):
            continue
        flags = [flag for flag in parameter.opts if flag.startswith("--")]
        for flag in flags:
            option = Option(
                str(parameter.name),
                flags[0],
                bool(parameter.is_flag),
                bool(parameter.multiple),
                parameter.help or "",
            )
            found[flag.removeprefix("--")] = option
            found[flag.removeprefix("--").replace("-", "_")] = option
    return found


class WrongWords(Exception):
    """What is wrong with options that were read; the sentence names the option."""


def read_words(command: TyperCommand, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The parameters that the words set, and the words behind them. Raises WrongWords."""
    try:
        context = command.make_context("submit", list(words))
    except typer.TyperException as error:
        raise WrongWords(usage_sentence(error)) from error
    except typer.Exit:  # --help
        raise WrongWords("--help is for the command line") from None
    read = {name: context.params[name] for name in typed_names(context)}
    rest = read.pop("command", None) or []
    return read, rest
