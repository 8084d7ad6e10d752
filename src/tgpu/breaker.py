"""A circuit breaker: after several failures in a row, calls are skipped and retried now and then.

Pure: it decides, others call and count. Closed, everybody may call; open, nobody; half open, one
call is out to try whether it works again.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"

    @property
    def is_well(self) -> bool:
        return self is BreakerState.CLOSED


@dataclass(frozen=True, slots=True)
class BreakerRules:
    failures: int = 3  # in a row, until it opens
    retry_ms: int = 10_000  # from a failure to the next try


@dataclass(frozen=True, slots=True)
class Breaker:
    state: BreakerState = BreakerState.CLOSED
    failures: int = 0  # in a row
    failed_at: int = 0
    problem: str | None = None  # of the first failure: the same sentence for as long as it lasts

    def may_call(self, now: int, rules: BreakerRules) -> bool:
        match self.state:
            case BreakerState.CLOSED:
                return True
            case BreakerState.OPEN:
                return now - self.failed_at >= rules.retry_ms
            case BreakerState.HALF_OPEN:
                return False

    def called(self) -> "Breaker":
        """A call goes out that it allowed."""
        if self.state is BreakerState.OPEN:
            return replace(self, state=BreakerState.HALF_OPEN)
        return self

    def given_up(self) -> "Breaker":
        """A call has ended that tells neither way, as one that nobody awaits any longer."""
        if self.state is BreakerState.HALF_OPEN:
            return replace(self, state=BreakerState.OPEN)
        return self

    def failed(self, now: int, problem: str, rules: BreakerRules) -> "Breaker":
        failures = self.failures + 1
        is_open = self.state is not BreakerState.CLOSED or failures >= rules.failures
        state = BreakerState.OPEN if is_open else BreakerState.CLOSED
        return Breaker(state, failures, now, self.problem or problem)

    @property
    def is_closed(self) -> bool:
        return self.state.is_well


CLOSED = Breaker()
