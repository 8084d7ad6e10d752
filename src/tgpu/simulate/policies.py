"""Published policies that simulations have to compare with, besides those of a service."""

from collections.abc import Callable, Mapping
from typing import Final

from tgpu.core.policies import RANKED_NAMES, TICK_MS
from tgpu.simulate.time_slicing import TimeSliced
from tgpu.simulate.tiresias import Tiresias

_PUBLISHED: Final[Mapping[str, Callable[[], TimeSliced]]] = {Tiresias.name: Tiresias}
PUBLISHED_NAMES: Final = tuple(_PUBLISHED)


def time_slicing_of(name: str) -> TimeSliced | None:
    """The published policy with this name; None where it is none."""
    make = _PUBLISHED.get(name)
    return None if make is None else make()


def service_policy_of(name: str) -> str:
    """The policy of a service whose rules hold: under a published one those of the ranked ones."""
    return RANKED_NAMES[0] if name in _PUBLISHED else name


def tick_of(name: str) -> int | None:
    """How often somebody must look at least, in ms; None: where something happens is enough."""
    return TICK_MS if name in (*RANKED_NAMES, *_PUBLISHED) else None
