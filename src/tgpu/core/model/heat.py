"""The temperature of a GPU in three bands, which change seldom."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Heat(IntEnum):
    """Cooler GPUs are preferred; a hot one takes no new job."""

    COOL = 0
    WARM = 1
    HOT = 2


# Below the threshold by this much a GPU counts as cool: a card at work stays warm, an idle one
# does not (idle data-centre cards stand at 30 to 45 °C).
_WARM_BELOW_C: Final = 15


@dataclass(frozen=True, slots=True)
class HeatLimits:
    """A GPU is hot from the threshold on, until it has cooled below it by the margin."""

    threshold_c: int = 75
    margin_c: int = 5


def heat_of(temperature_c: int | None, before: Heat, limits: HeatLimits) -> Heat:
    """The band of a reading. Down only by the margin, so that a GPU at a limit does not flap.

    A driver that does not tell the temperature leaves the GPU in the band it was in.
    """
    if temperature_c is None:
        return before
    rising = _band(temperature_c, limits)
    falling = _band(temperature_c + limits.margin_c, limits)
    if rising > before:
        return rising
    return min(before, falling)


def _band(temperature_c: int, limits: HeatLimits) -> Heat:
    if temperature_c >= limits.threshold_c:
        return Heat.HOT
    if temperature_c >= limits.threshold_c - _WARM_BELOW_C:
        return Heat.WARM
    return Heat.COOL
