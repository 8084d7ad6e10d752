"""How long to wait between tries that fail: each time longer, up to a longest. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pauses:
    first_seconds: float
    longest_seconds: float
    growth: float = 2.0

    def after(self, pause_seconds: float) -> float:
        """The pause that follows one of this length."""
        return min(pause_seconds * self.growth, self.longest_seconds)
