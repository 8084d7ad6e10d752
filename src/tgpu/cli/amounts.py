"""Counts and lists as people write them on a command line: 0.5, 0-3, lr=0.1,0.01, K=V."""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from tgpu.text.gpu_names import as_word, read_gpus

_PROVIDERS: Final = ("nvml", "nvidia", "sim", "auto")  # what `tgpu serve --gpus` takes


def parse_gpu_count(text: str) -> int | float:
    """2, or 0.5 for a share. The scheduler judges what is possible; this only reads the number."""
    try:
        count = Decimal(text.strip())
    except InvalidOperation:
        count = Decimal("NaN")
    if not count.is_finite():
        elsewhere = ""
        if text.strip().lower().startswith(_PROVIDERS):
            elsewhere = "; which GPUs the service uses is said when it starts: tgpu start --gpus"
        raise ValueError(f"{text!r} is not a number of GPUs: write one like 1, 2 or 0.5{elsewhere}")
    return int(count) if count == count.to_integral_value() else float(count)


def parse_gpu_ids(text: str) -> list[int | str]:
    """ "0-2,b/5" is 0, 1, 2, "b/5", as the API has them."""
    return [as_word(gpu) for gpu in read_gpus(text)]


def parse_array(text: str) -> tuple[str, int | None]:
    """ "1-100%8": the indexes, and how many may run at once."""
    indexes, percent, cap = text.partition("%")
    if not re.fullmatch(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", indexes):
        raise ValueError(f"{text!r} is not an array: write one like 1-100, 1,3,5-9 or 1-100%8")
    if not percent:
        return indexes, None
    if not cap.isascii() or not cap.isdigit() or int(cap) < 1:
        raise ValueError(f"{text!r}: after % comes how many may run at once, as in {indexes}%8")
    return indexes, int(cap)


def parse_params(pairs: Sequence[str]) -> dict[str, list[str]]:
    """ "lr=0.1,0.01" and more of them, each name once."""
    params: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, values = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name) or not values:
            raise ValueError(f"{pair!r} is not a parameter: write one like lr=0.1,0.01")
        if name in params:
            raise ValueError(f"{name!r} is given twice: write all its values in one --param")
        params[name] = values.split(",")
    return params


def parse_variables(pairs: Sequence[str], mine: dict[str, str]) -> dict[str, str]:
    """K=V sets a variable, K alone takes it over from `mine`."""
    variables: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or "\0" in pair:
            raise ValueError(f"{pair!r} is not a variable: write it like NAME=value")
        if not equals and name not in mine:
            raise ValueError(f"{name!r} is not set here: write {name}=value")
        variables[name] = value if equals else mine[name]
    return variables


def parse_labels(pairs: Sequence[str]) -> dict[str, str]:
    """ "rack=r1" and more of them, each name once."""
    labels: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{pair!r} is not a label: write one like rack=r1")
        if labels.get(name.strip(), value) != value:
            raise ValueError(f"{name.strip()!r} is given twice: a node has one value of it")
        labels[name.strip()] = value
    return labels


def split_ids(texts: Sequence[str]) -> list[str]:
    """ "3,4" and more of them as single ids, in order."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]
