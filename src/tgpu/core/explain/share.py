"""The fair shares for people: entitled, used, and when they will be even.

No decision looks at it; `core/policies/fair_share.py` works on the same meters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tgpu.core.accounting.meter import ONE, SCALE, Owner, decay, gpu_millis_ms
from tgpu.core.model.ids import TenantId
from tgpu.core.state.cluster_state import State

MILLION: Final = 1_000_000
_EVEN_PPM: Final = 5_000  # half a per cent: less than that nobody notices


@dataclass(frozen=True, slots=True)
class UsageShare:
    """Of a tenant among all, or of a user inside a tenant. Parts are in millionths."""

    weight_millis: int
    entitled_ppm: int
    used_ppm: int
    used_gpu_millis_ms: int  # decayed
    holds_gpu_millis: int
    # When used and entitled are the same if everybody keeps the GPUs they have now: the present
    # instant where they are, None where they never will be.
    even_at: int | None


@dataclass(frozen=True, slots=True)
class TenantShare:
    tenant_id: TenantId
    share: UsageShare
    users: tuple[tuple[str, UsageShare], ...]  # by name


def shares(state: State, now: int) -> list[TenantShare]:
    """Of every tenant, by id. Who is inactive is entitled to nothing."""
    tenants = sorted(state.ledger.tenants)
    weights: dict[Owner, int] = {}
    for tenant_id in tenants:
        tenant = state.ledger.tenants[tenant_id].tenant
        weights[tenant_id, None] = tenant.weight_millis if tenant.active else 0
    found = _among(state, weights, now)
    users = state.meters.users()
    for queue in state.waiting.all_classes():  # also those who never had a GPU
        users.setdefault(queue.job_class.tenant_id, []).append(queue.job_class.user)
    result = []
    for tenant_id in tenants:
        names = sorted(set(users.get(tenant_id, ())))
        members: dict[Owner, int] = {(tenant_id, user): 1000 for user in names}
        inside = _among(state, members, now)
        named = tuple((user or "", share) for (_, user), share in inside.items())
        result.append(TenantShare(tenant_id, found[tenant_id, None], named))
    return result


def _among(state: State, weights: Mapping[Owner, int], now: int) -> dict[Owner, UsageShare]:
    meters = state.meters
    averages = {owner: meters.average(owner, now) for owner in weights}
    rates = {
        owner: meter.rate if (meter := meters.by_owner.get(owner)) is not None else 0
        for owner in weights
    }
    weight, average, rate = sum(weights.values()), sum(averages.values()), sum(rates.values())
    found = {}
    for owner in weights:
        entitled = MILLION * weights[owner] // weight if weight else 0
        used = MILLION * averages[owner] // average if average else 0
        even_at: int | None = now
        if average and abs(used - entitled) > _EVEN_PPM:
            ahead = _even_after(
                (weights[owner], weight),
                (averages[owner], average),
                (rates[owner], rate),
                meters.half_life_ms,
            )
            even_at = None if ahead is None else now + ahead
        found[owner] = UsageShare(
            weights[owner],
            entitled,
            used,
            gpu_millis_ms(averages[owner], meters.half_life_ms),
            rates[owner],
            even_at,
        )
    return found


def _even_after(
    weights: tuple[int, int], averages: tuple[int, int], rates: tuple[int, int], half_life_ms: int
) -> int | None:
    """How long until the part of an average is the part of the weight, at these rates.

    Each is one's own and that of all. An average goes towards its rate as `rate + (average - rate)
    * left`, `left` being what decay leaves of one: both sides are linear in it.
    """
    (weight, weight_of_all), (average, average_of_all) = weights, averages
    rate, rate_of_all = rates[0] * SCALE, rates[1] * SCALE
    above = weight * rate_of_all - weight_of_all * rate
    below = weight_of_all * (average - rate) - weight * (average_of_all - rate_of_all)
    if below < 0:
        above, below = -above, -below
    if not 0 < above < below:
        return None
    return _time_to(ONE * above // below, half_life_ms)


def _time_to(left: int, half_life_ms: int) -> int | None:
    """The first instant at which decay leaves no more than this."""
    early, late = 0, 64 * half_life_ms
    if not left or decay(late, half_life_ms) > left:
        return None
    while early < late:
        middle = (early + late) // 2
        if decay(middle, half_life_ms) <= left:
            late = middle
        else:
            early = middle + 1
    return late
