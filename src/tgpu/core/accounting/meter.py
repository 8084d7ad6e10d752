"""Recent GPU time of a tenant or user, with exponential decay.

What a meter keeps is an average of the GPUs held, in which an instant one half-life ago weighs half
as much as now. That is decayed GPU time divided by a constant, and its sum over a constant rate is
exact: `rate + (average - rate) * 2 ** (-time / half_life)`. Integers alone, so that every machine
and every replay comes to the same number.
"""

from math import isqrt
from typing import Final, NamedTuple

from tgpu.core.model.ids import TenantId

# Averages are in this part of a thousandth of a GPU: a millisecond of a year's half-life still
# moves one that belongs to a hundredth of a GPU.
SCALE: Final = 1 << 40

DEFAULT_HALF_LIFE_MS: Final = 168 * 3_600_000  # a week

# What somebody holds counts as if held for this much longer, so that the starts of one cycle weigh
# on each other although no time passes between them. An hour: about as long as a small job; less
# where even that would outweigh what was used before.
LOOK_AHEAD_MS: Final = 3_600_000

Owner = tuple[TenantId, str | None]  # a tenant, or with a name one of its users

_BITS: Final = 62  # of a factor
_FINE: Final = 128  # while the tables are made, so that their errors stay below the last bit
_DIGIT: Final = 10  # a half-life is divided into 1024 parts, each of these too, …
_DIGITS: Final = 4  # … this often: 2 ** 40 parts, of which a year's half-life has 35 a millisecond
_LN2: Final = (693_147_180_559_945_309, 10**18)


class Meter(NamedTuple):
    """The average at one instant, and the thousandths of a GPU held since then."""

    average: int
    rate: int
    at: int


def advanced(meter: Meter, at: int, half_life_ms: int) -> Meter:
    """The same meter later. A clock that was set back changes nothing until it caught up."""
    elapsed = at - meter.at
    if elapsed <= 0:
        return meter
    held = meter.rate * SCALE
    factor = decay(elapsed, half_life_ms)
    return Meter(held + ((meter.average - held) * factor >> _BITS), meter.rate, at)


def changed(meter: Meter | None, by: int, at: int, half_life_ms: int) -> Meter:
    """The meter after somebody got (or with a negative amount gave back) GPUs at this instant."""
    if meter is None:
        return Meter(0, max(0, by), at)
    now = advanced(meter, at, half_life_ms)
    return Meter(now.average, max(0, now.rate + by), now.at)


def decay(elapsed_ms: int, half_life_ms: int) -> int:
    """What is left of one after this long, as a part of `ONE`. No half-life: nothing."""
    if half_life_ms <= 0:
        return 0
    halvings, rest = divmod(elapsed_ms, half_life_ms)
    if halvings > _BITS:
        return 0
    parts = ((rest << _DIGIT * _DIGITS) + half_life_ms // 2) // half_life_ms
    parts = min(parts, (1 << _DIGIT * _DIGITS) - 1)
    left = ONE
    for table in reversed(_TABLES):
        digit = parts & (1 << _DIGIT) - 1
        if digit:
            left = left * table[digit] >> _BITS
        parts >>= _DIGIT
    return left >> halvings


def gpu_millis_ms(average: int, half_life_ms: int) -> int:
    """The decayed GPU time that an average stands for."""
    part, whole = _LN2
    return average * half_life_ms * whole // (SCALE * part)


def look_ahead(half_life_ms: int) -> int:
    """What each thousandth of a GPU that is held now adds to an average in the look-ahead."""
    if half_life_ms <= 0:
        return SCALE
    part, whole = _LN2
    ahead_ms = min(LOOK_AHEAD_MS, -(-half_life_ms // 8))
    return SCALE * ahead_ms * part // (half_life_ms * whole)


ONE: Final = 1 << _BITS


def _tables() -> tuple[tuple[int, ...], ...]:
    """`2 ** (-i / 1024 ** (level + 1))` for each level and each digit `i`."""
    tables = []
    root = 1 << (_FINE - 1)  # one half
    for _ in range(_DIGITS):
        for _ in range(_DIGIT):
            root = isqrt(root << _FINE)
        powers = [1 << _FINE]
        for _ in range((1 << _DIGIT) - 1):
            powers.append(powers[-1] * root >> _FINE)
        tables.append(tuple(power >> (_FINE - _BITS) for power in powers))
    return tuple(tables)


_TABLES: Final = _tables()


class Meters:
    """The meters of tenants and of their users."""

    def __init__(self, half_life_ms: int = DEFAULT_HALF_LIFE_MS) -> None:
        self.half_life_ms = half_life_ms
        self.by_owner: dict[Owner, Meter] = {}

    def change(self, tenant_id: TenantId, user: str, by: int, at: int) -> None:
        """A job of theirs got GPUs, or gave them back."""
        for owner in owners(tenant_id, user):
            meter = self.by_owner.get(owner)
            self.by_owner[owner] = changed(meter, by, at, self.half_life_ms)

    def step(self, by: int) -> None:
        """The clock was set: no time has passed."""
        self.by_owner = {o: m._replace(at=m.at + by) for o, m in self.by_owner.items()}

    def average(self, owner: Owner, now: int) -> int:
        meter = self.by_owner.get(owner)
        return 0 if meter is None else advanced(meter, now, self.half_life_ms).average

    def users(self) -> dict[TenantId, list[str]]:
        """Those who ever had a GPU, by tenant and name."""
        found: dict[TenantId, list[str]] = {}
        for tenant_id, user in self.by_owner:
            if user is not None:
                found.setdefault(tenant_id, []).append(user)
        for names in found.values():
            names.sort()
        return found


def owners(tenant_id: TenantId, user: str) -> tuple[Owner, Owner]:
    return (tenant_id, None), (tenant_id, user)
