"""Borrowing limits that follow past use, by steps and within bounds.

A tenant that used its quota and still has jobs waiting may borrow a step more; one that used less
than half of it, and has nothing waiting, a step less. In between nothing changes, so a limit
does not swing.
"""

from dataclasses import dataclass
from typing import Final

from tgpu.core.model.tenant import Tenant

# Between the end of one job and the start of the next a busy tenant's GPUs are idle for moments,
# hence less than all; the gap down to the half keeps limits from swinging.
_BUSY_PERCENT: Final = 90
_IDLE_PERCENT: Final = 50


@dataclass(frozen=True, slots=True)
class AdjustRules:
    """In thousandths of a GPU."""

    min_borrow: int
    max_borrow: int
    step: int


@dataclass(frozen=True, slots=True)
class PastUse:
    """Of one tenant since the last adjustment."""

    average_millis: int  # GPUs in use, averaged over the time
    waiting_millis: int  # GPUs that its waiting jobs ask for


@dataclass(frozen=True, slots=True)
class Adjustment:
    before: int | None  # None: there was no limit
    after: int
    why: str


def adjusted(tenant: Tenant, past: PastUse, rules: AdjustRules) -> Adjustment | None:
    """The new borrowing limit; None where it stays, or where nothing is borrowed at all."""
    if not tenant.shares_quota:
        return None
    before = tenant.borrow_millis
    # Who had no limit had all there is; under bounds that is the most they allow.
    limit = rules.max_borrow if before is None else before
    nominal = tenant.max_gpu_millis or 0
    used = past.average_millis * 100
    if past.waiting_millis and used >= nominal * _BUSY_PERCENT:
        limit += rules.step
        why = "it used its quota and has jobs waiting"
    elif not past.waiting_millis and used < nominal * _IDLE_PERCENT:
        limit -= rules.step
        why = "it used less than half of its quota and has nothing waiting"
    else:
        why = "it is within the bounds again"
    limit = max(rules.min_borrow, min(rules.max_borrow, limit))
    return None if limit == before else Adjustment(before, limit, why)
