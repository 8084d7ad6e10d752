"""Colours of names: a name has the same one in every plot, and in every report of a service.

The hues are those of Paul Tol's muted scheme, which people with any kind of colour blindness can
tell apart, each in a dark and a light shade; others share a grey.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

SERIES: Final = 8  # things side by side that have a colour each, and one for all others
OTHERS: Final = "rest"

_SHADES_ON_LIGHT: Final = (
    *("#332288", "#117733", "#882255", "#999933", "#aa4499", "#cc6677", "#44aa99", "#3d7ba8"),
    *("#7f73bd", "#62a877", "#b9799a", "#c6c276", "#cd93c3", "#e3a9b2", "#8fd0c5", "#88ccee"),
)
_SHADES_ON_DARK: Final = (
    *("#8577e0", "#3fa862", "#c75b8f", "#c2c25a", "#d37cc6", "#e88b99", "#5cc7b5", "#5fa3d3"),
    *("#b3aaf0", "#85cf9c", "#e39abd", "#dfdf96", "#eab3e2", "#f5bcc5", "#9fe3d8", "#a5dcf7"),
)
_COLOURS: Final = len(_SHADES_ON_LIGHT)
_STEP: Final = 3  # has no divisor with that in common, so that all are tried
_GREY_ON_LIGHT, _GREY_ON_DARK = "#9aa3ae", "#6b7685"


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """The class that colours each. By its hash, or the next one that none before it has.

    They come in the order in which they were first seen, which only ever grows: so none changes
    when others come. Beyond as many as there are colours, two may have the same.
    """
    chosen: dict[str, str] = {}
    taken: set[int] = set()
    for name in names:
        first = int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) % _COLOURS
        places = ((first + _STEP * step) % _COLOURS for step in range(_COLOURS))
        place = next((place for place in places if place not in taken), first)
        taken.add(place)
        chosen[name] = f"n{place}"
    return chosen


def colours(*, dark: bool) -> dict[str, str]:
    """All of them by class."""
    shades = _SHADES_ON_DARK if dark else _SHADES_ON_LIGHT
    named = {f"n{number}": shade for number, shade in enumerate(shades)}
    return {**named, OTHERS: _GREY_ON_DARK if dark else _GREY_ON_LIGHT}
