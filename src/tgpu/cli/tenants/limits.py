"""Limits as users write them: a number or a size, or `none` to remove one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from tgpu.cli.amounts import parse_gpu_count
from tgpu.cli.options import read_option
from tgpu.text.sizes import parse_mebibytes

_T = TypeVar("_T")

NONE: Final = "none"

Parse = Callable[[str], object]


def parse_number(text: str) -> float:
    """0 or more."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(
            f"{text!r} is not a number: write one like 16 or 0.5, or none for no limit"
        )
    return number


def parse_count(text: str) -> int:
    number = parse_number(text)
    if number != int(number):
        raise ValueError(f"{text!r} is not a whole number")
    return int(number)


def parse_size(text: str) -> int:
    """In MiB. Nothing at all is a limit too."""
    return 0 if text.strip() == "0" else parse_mebibytes(text)


def parse_gpus(text: str) -> float:
    return float(parse_gpu_count(text))


def given_limits(texts: Mapping[tuple[str, str], tuple[str | None, Parse]]) -> dict[str, object]:
    """The limits that were given, by field. Keys are (field, option); `none` becomes None."""
    found: dict[str, object] = {}
    for (name, option), (text, parse) in texts.items():
        if text is not None:
            found[name] = _or_none(option, text, parse)
    return found


def by_type(texts: Sequence[str]) -> dict[str, float]:
    """["A100=2", "H100=1"]; ValueError for anything else."""
    found: dict[str, float] = {}
    for text in texts:
        kind, sign, number = text.partition("=")
        if not (kind and sign):
            raise ValueError(f"{text!r} is not a limit for a type: write one like A100=2")
        found[kind] = parse_gpus(number)
    return found


def _or_none(option: str, text: str, parse: Parse) -> object:
    return None if text.strip().lower() == NONE else read_option(option, parse, text)
