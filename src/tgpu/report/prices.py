"""Prices of GPU time by GPU type, and the format of amounts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tgpu.core.model.units import GPU_HOUR
from tgpu.report.collect import AttemptRun, Collected

_LARGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one GPU for an hour. Nothing has a price where both are empty."""

    usual: float = 0.0
    by_type: Mapping[str, float] = field(default_factory=dict)
    currency: str = ""  # a sign or a code

    @property
    def is_known(self) -> bool:
        return bool(self.usual or self.by_type)

    def of(self, found: Collected, run: AttemptRun) -> float:
        """Of an attempt, by the GPUs that it had."""
        hours = (run.until - run.since) / GPU_HOUR
        return sum(
            hours
            * held.millis
            * self.by_type.get(self._type(found, held.node, held.gpu), self.usual)
            for held in run.gpus
        )

    def text(self, amount: float) -> str:
        """€1,234.50, 1,234.50 EUR, or the number alone"""
        number = f"{amount:,.2f}"
        if not self.currency:
            return number
        is_sign = not any(char.isalnum() for char in self.currency)
        return f"{self.currency}{number}" if is_sign else f"{number} {self.currency}"

    def _type(self, found: Collected, node: str, gpu: int) -> str:
        return found.gpus.get((node, gpu), "").casefold()


def parse_prices(texts: Sequence[str], currency: str, usual: float) -> Prices:
    """ "2.5" is of all types, "H100=4" of one. ValueError for anything else."""
    by_type: dict[str, float] = {}
    for text in texts:
        name, is_named, number = text.rpartition("=")
        price = _number(number, text)
        if is_named and not name.strip():
            raise ValueError(f"{text!r} names no type of GPU: write H100=4")
        if is_named:
            by_type[name.strip().casefold()] = price
        else:
            usual = price
    return Prices(usual, by_type, currency)


def _number(text: str, whole: str) -> float:
    try:
        price = float(text)
    except ValueError:
        raise ValueError(f"{whole!r} is not a price: write 2.5, or H100=4 for one type") from None
    if not 0 <= price <= _LARGEST:
        raise ValueError(f"{whole!r} is not a price from 0 to {_LARGEST:,}")
    return price
