"""Advance reservations: which GPUs they get, when they end, and what happens if GPUs fail.

Pure. How the cycle keeps booked GPUs free is in `stages/reserved_capacity.py`; who may book is
the service's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from tgpu.core.capacity.ledger import Holding, Ledger, NodeUse
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import NodeId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.node import Gpu
from tgpu.core.model.units import GPU, SECOND
from tgpu.core.state.cluster_state import State

OVER: Final = "its time is over"


@dataclass(frozen=True, slots=True)
class AdvanceReservationRequest:
    """What somebody wants to book. Without a type or a node, any one of them will do."""

    booking_id: str
    tenant_id: TenantId
    gpus: int
    starts_at: int
    ends_at: int
    gpu_type: str | None = None
    node_id: NodeId | None = None
    user: str = ""
    unused_ms: int | None = None


class Refusal(StrEnum):
    NO_NODE = "no_node"  # no machine has reported its GPUs yet
    NO_SUCH_NODE = "no_such_node"  # there
    NO_SUCH_GPU = "no_such_gpu"  # there
    TOO_MANY = "too_many"  # limit: GPUs of one type on one node
    QUOTA = "quota"  # limit, booked: what the tenant has booked in that time already
    USER_QUOTA = "user_quota"  # limit, booked: the same of the user inside the tenant
    UNWELL = "unwell"  # limit: as many are well
    BOOKED = "booked"  # limit: as many are left then; free_at: when it could begin instead


@dataclass(frozen=True, slots=True)
class Unbookable:
    """Why a booking cannot be, with the numbers."""

    code: Refusal
    limit: int = 0
    booked: int = 0
    free_at: int | None = None
    there: tuple[str, ...] = ()


def choose(
    state: State, wanted: AdvanceReservationRequest, now: int
) -> AdvanceReservation | Unbookable:
    """GPUs of one type on one node that nobody else has booked then and that are well.

    Those that are free when it starts go first, then those whose jobs may be preempted;
    among equals as few NVLink islands as possible, and the node with the least to spare.
    """
    ledger = state.ledger
    groups = _groups(ledger, wanted)
    refusal = _never(ledger, wanted, groups) or _over_quota(ledger, wanted, groups)
    if refusal is not None:
        return refusal
    groups = [group for group in groups if _type_room(ledger, wanted, group.gpu_type)]
    taken = _taken(ledger, wanted)
    choices = [_pick(ledger, group, wanted, taken, now) for group in groups]
    found = min((choice for choice in choices if choice is not None), default=None)
    if found is not None:
        return _booking(wanted, found)
    return _not_now(ledger, wanted, groups, taken)


def due(state: State, now: int) -> tuple[tuple[str, str], ...]:
    """Bookings that end now, with the cause, by id."""
    if not state.ledger.bookings:
        return ()
    found = []
    for booking_id, booking in sorted(state.ledger.bookings.items()):
        given_back_at = booking.unused_at
        if booking.ends_at <= now:
            found.append((booking_id, OVER))
        elif given_back_at is not None and given_back_at <= now and not _has_jobs(state, booking):
            found.append((booking_id, unused_cause(booking.unused_ms or 0)))
    return tuple(found)


def unused_cause(unused_ms: int) -> str:
    """The sentence for a booking that is given back."""
    seconds = -(-unused_ms // SECOND)
    minutes, rest = divmod(seconds, 60)
    count, unit = (seconds, "second") if rest or not minutes else (minutes, "minute")
    return f"nothing ran in it within {count} {unit}{'' if count == 1 else 's'} of its start"


def moves(state: State, now: int) -> tuple[AdvanceReservation, ...]:
    """Bookings that lost a GPU, or their node, as they go on with others; by id.

    GPUs that are still well stay where that is possible. A booking in which jobs run stays on its
    node: they must not lose the GPUs they have. One for which there is nothing stays as it is, is
    `broken`, and is looked at again.
    """
    moved: list[AdvanceReservation] = []
    for booking_id, _ in broken(state, now):
        booking = state.ledger.bookings[booking_id]
        found = _elsewhere(state, booking, now, moved)
        if found is not None:
            moved.append(found)
    return tuple(moved)


def broken(state: State, now: int) -> tuple[tuple[str, str], ...]:
    """Bookings that are not over and miss GPUs, with what is wrong, by id."""
    found = []
    for booking_id, booking in sorted(state.ledger.bookings.items()):
        if booking.ends_at > now and (trouble := _trouble(state.ledger, booking)):
            found.append((booking_id, trouble))
    return tuple(found)


def booked_at_most(
    ledger: Ledger,
    tenant_id: TenantId,
    starts_at: int,
    ends_at: int,
    gpu_type: str | None = None,
    *,
    user: str | None = None,
) -> int:
    """The most GPUs that a tenant, or one of its users, has booked at once in that time."""
    mine = [
        booking
        for booking in ledger.bookings.values()
        if booking.tenant_id == tenant_id
        and gpu_type in (None, booking.gpu_type)
        and user in (None, booking.user)
        and booking.overlaps(starts_at, ends_at)
    ]
    # The sum only grows where one begins.
    instants = [starts_at, *(max(starts_at, booking.starts_at) for booking in mine)]
    return max(
        sum(len(b.gpus) for b in mine if b.starts_at <= instant < b.ends_at) for instant in instants
    )


# -- which GPUs ----------------------------------------------------------------------------------


class _Group(NamedTuple):
    """The GPUs of one type on one node."""

    use: NodeUse
    gpu_type: str
    gpus: tuple[Gpu, ...]

    def well(self) -> list[Gpu]:
        return [gpu for gpu in self.gpus if _is_well(gpu)]


class _Choice(NamedTuple):
    """In the order of preference: the least is the best."""

    stubborn: int  # GPUs with jobs that may last and are not preemptible, or hot or foreign
    preemptible: int  # GPUs with jobs that can be preempted
    islands: int
    spare: int  # GPUs that are left over
    node_id: NodeId
    gpu_type: str
    gpus: tuple[int, ...]


_KEPT, _FREE, _PREEMPTIBLE, _STUBBORN = range(4)


def _groups(ledger: Ledger, wanted: AdvanceReservationRequest) -> list[_Group]:
    nodes = ledger.node_ids() if wanted.node_id is None else [wanted.node_id]
    found = []
    for node_id in nodes:
        use = ledger.nodes.get(node_id)
        if use is None:
            continue
        for gpu_type in sorted({gpu.gpu_type for gpu in use.node.gpus}):
            if wanted.gpu_type in (None, gpu_type):
                of_type = tuple(gpu for gpu in use.node.gpus if gpu.gpu_type == gpu_type)
                found.append(_Group(use, gpu_type, of_type))
    return found


def _is_well(gpu: Gpu) -> bool:
    """Heat and foreign processes pass; what is lost or paused is not counted on."""
    return gpu.problem is None and gpu.paused is None


def _taken(ledger: Ledger, wanted: AdvanceReservationRequest) -> set[tuple[NodeId, int]]:
    """GPUs that others have booked in that time."""
    return {
        (booking.node_id, index)
        for booking in ledger.bookings.values()
        if booking.booking_id != wanted.booking_id
        and booking.overlaps(wanted.starts_at, wanted.ends_at)
        for index in booking.gpus
    }


def _pick(
    ledger: Ledger,
    group: _Group,
    wanted: AdvanceReservationRequest,
    taken: set[tuple[NodeId, int]],
    now: int,
    *,
    kept: frozenset[int] = frozenset(),
) -> _Choice | None:
    """The best GPUs of a group; None where there are too few. Those `kept` go before all."""
    node_id = group.use.node.node_id
    gpus = [gpu for gpu in group.well() if (node_id, gpu.index) not in taken]
    if len(gpus) < wanted.gpus:
        return None
    levels = _levels(ledger, group.use, max(now, wanted.starts_at))
    ranks = {
        gpu.index: _KEPT if gpu.index in kept else _rank(gpu, levels.get(gpu.index, _FREE))
        for gpu in gpus
    }
    chosen: list[Gpu] = []
    for level in (_KEPT, _FREE, _PREEMPTIBLE, _STUBBORN):
        alike = [gpu for gpu in gpus if ranks[gpu.index] == level]
        chosen += _from_few_islands(alike, chosen, wanted.gpus - len(chosen))
    counts = [ranks[gpu.index] for gpu in chosen]
    return _Choice(
        counts.count(_STUBBORN),
        counts.count(_PREEMPTIBLE),
        len({_island(gpu) for gpu in chosen}),
        len(gpus) - len(chosen),
        node_id,
        group.gpu_type,
        tuple(sorted(gpu.index for gpu in chosen)),
    )


def _rank(gpu: Gpu, level: int) -> int:
    return level if gpu.is_usable else _STUBBORN


def _levels(ledger: Ledger, use: NodeUse, at: int) -> dict[int, int]:
    """How much stands against each GPU at that instant, by index; nothing where it is free."""
    levels: dict[int, int] = {}
    for holding in use.holdings.values():  # in no order: only the largest counts
        if holding.until is not None and holding.until <= at:
            continue
        level = _PREEMPTIBLE if _may_be_preempted(ledger, holding.job) else _STUBBORN
        for index in _kept_from_others(holding, use):
            levels[index] = max(level, levels.get(index, _FREE))
    return levels


def _kept_from_others(holding: Holding, use: NodeUse) -> set[int]:
    """The GPUs of a node that nobody else can have whole as long as this job is there."""
    if holding.job.request.where.exclusive:
        return {gpu.index for gpu in use.node.gpus}
    node_id = use.node.node_id
    parts = (part for part in holding.placement.parts() if part.node_id == node_id)
    return {share.gpu_index for part in parts for share in part.shares}


def _may_be_preempted(ledger: Ledger, job: Job) -> bool:
    return job.options.preemptible and ledger.tenant(job.tenant_id).tenant.allow_preemption


def _island(gpu: Gpu) -> int:
    return ~gpu.index if gpu.nvlink_group is None else gpu.nvlink_group


def _from_few_islands(gpus: list[Gpu], beside: list[Gpu], count: int) -> list[Gpu]:
    """So many of these, on as few islands as can be beyond those that are used `beside` them."""
    islands: dict[int, list[Gpu]] = {}
    for gpu in gpus:
        islands.setdefault(_island(gpu), []).append(gpu)
    chosen: list[Gpu] = []
    for island in sorted({_island(gpu) for gpu in beside}):
        chosen += islands.pop(island, [])[: max(0, count - len(chosen))]
    while len(chosen) < count and islands:
        missing = count - len(chosen)
        enough = [name for name, members in islands.items() if len(members) >= missing]
        # The smallest that is enough leaves the others whole; else the largest leaves fewest.
        key = (
            min(enough, key=lambda name: (len(islands[name]), islands[name][0].index))
            if enough
            else min(islands, key=lambda name: (-len(islands[name]), islands[name][0].index))
        )
        chosen += islands.pop(key)[:missing]
    return chosen


def _booking(wanted: AdvanceReservationRequest, choice: _Choice) -> AdvanceReservation:
    return AdvanceReservation(
        wanted.booking_id,
        wanted.tenant_id,
        choice.node_id,
        choice.gpus,
        choice.gpu_type,
        wanted.starts_at,
        wanted.ends_at,
        user=wanted.user,
        unused_ms=wanted.unused_ms,
    )


# -- why not -------------------------------------------------------------------------------------


def _never(
    ledger: Ledger, wanted: AdvanceReservationRequest, groups: list[_Group]
) -> Unbookable | None:
    """What no other time would change."""
    if not ledger.nodes:
        return Unbookable(Refusal.NO_NODE)
    if wanted.node_id is not None and wanted.node_id not in ledger.nodes:
        return Unbookable(Refusal.NO_SUCH_NODE, there=tuple(ledger.node_ids()))
    if not groups:
        uses = [ledger.nodes[node_id] for node_id in ledger.node_ids()]
        there = [use for use in uses if wanted.node_id in (None, use.node.node_id)]
        types = {gpu.gpu_type for use in there for gpu in use.node.gpus}
        return Unbookable(Refusal.NO_SUCH_GPU, there=tuple(sorted(types)))
    largest = max(len(group.gpus) for group in groups)
    if wanted.gpus > largest:
        return Unbookable(Refusal.TOO_MANY, limit=largest)
    return None


def _over_quota(
    ledger: Ledger, wanted: AdvanceReservationRequest, groups: list[_Group]
) -> Unbookable | None:
    tenant = ledger.tenant(wanted.tenant_id).tenant
    if not tenant.enforce_quota:
        return None
    limit = tenant.max_gpu_millis
    booked = booked_at_most(ledger, wanted.tenant_id, wanted.starts_at, wanted.ends_at)
    if limit is not None and (booked + wanted.gpus) * GPU > limit:
        return Unbookable(Refusal.QUOTA, limit=limit // GPU, booked=booked)
    limit = tenant.limits_of(wanted.user).max_gpu_millis
    times = (wanted.starts_at, wanted.ends_at)
    booked = booked_at_most(ledger, wanted.tenant_id, *times, user=wanted.user)
    if limit is not None and (booked + wanted.gpus) * GPU > limit:
        return Unbookable(Refusal.USER_QUOTA, limit=limit // GPU, booked=booked)
    types = sorted({group.gpu_type for group in groups})
    if any(_type_room(ledger, wanted, gpu_type) for gpu_type in types):
        return None
    limits = [((tenant.max_of_type(gpu_type) or 0) // GPU, gpu_type) for gpu_type in types]
    most, gpu_type = max(limits)
    booked = booked_at_most(ledger, wanted.tenant_id, wanted.starts_at, wanted.ends_at, gpu_type)
    return Unbookable(Refusal.QUOTA, limit=most, booked=booked, there=(gpu_type,))


def _type_room(ledger: Ledger, wanted: AdvanceReservationRequest, gpu_type: str) -> bool:
    """Whether the tenant's quota of that type leaves room for it."""
    tenant = ledger.tenant(wanted.tenant_id).tenant
    limit = tenant.max_of_type(gpu_type)
    if limit is None or not tenant.enforce_quota:
        return True
    booked = booked_at_most(ledger, wanted.tenant_id, wanted.starts_at, wanted.ends_at, gpu_type)
    return (booked + wanted.gpus) * GPU <= limit


def _not_now(
    ledger: Ledger,
    wanted: AdvanceReservationRequest,
    groups: list[_Group],
    taken: set[tuple[NodeId, int]],
) -> Unbookable:
    """Too few are well, or too few are left of those: then also from when there are enough."""
    most_well = max(len(group.well()) for group in groups)
    if wanted.gpus > most_well:
        return Unbookable(Refusal.UNWELL, limit=most_well)
    left = max(
        sum((group.use.node.node_id, gpu.index) not in taken for gpu in group.well())
        for group in groups
    )
    instants = [at for group in groups if (at := _free_at(ledger, wanted, group)) is not None]
    return Unbookable(Refusal.BOOKED, limit=left, free_at=min(instants, default=None))


def _free_at(ledger: Ledger, wanted: AdvanceReservationRequest, group: _Group) -> int | None:
    """From when a group has enough for as long as wanted; None: too few of it are well."""
    indexes = {gpu.index for gpu in group.well()}
    if len(indexes) < wanted.gpus:
        return None
    node_id, length = group.use.node.node_id, wanted.ends_at - wanted.starts_at
    here = [
        booking
        for booking in ledger.bookings.values()
        if booking.node_id == node_id and booking.ends_at > wanted.starts_at
    ]
    for at in sorted({booking.ends_at for booking in here}):  # room is only gained at an end
        busy = {index for b in here if b.overlaps(at, at + length) for index in b.gpus}
        if len(indexes - busy) >= wanted.gpus:
            return at
    return wanted.starts_at


# -- what becomes of one ---------------------------------------------------------------------------


def _has_jobs(state: State, booking: AdvanceReservation) -> bool:
    """Whether a job of it is not over."""
    return any(
        queue.job_class.booking == booking.booking_id for queue in state.waiting.all_classes()
    )


def _trouble(ledger: Ledger, booking: AdvanceReservation) -> str | None:
    use = ledger.nodes.get(booking.node_id)
    if use is None:
        return f"node {booking.node_id} is gone"
    by_index = {gpu.index: gpu for gpu in use.node.gpus}
    for index in booking.gpus:
        gpu = by_index.get(index)
        if gpu is None:
            return f"GPU {index} of node {booking.node_id} is gone"
        if not _is_well(gpu):
            word = gpu.problem or f"paused: {gpu.paused}"
            return f"GPU {index} of node {booking.node_id}: {word}"
    return None


def _elsewhere(
    state: State, booking: AdvanceReservation, now: int, moved: list[AdvanceReservation]
) -> AdvanceReservation | None:
    ledger = state.ledger
    wanted = AdvanceReservationRequest(
        booking.booking_id,
        booking.tenant_id,
        len(booking.gpus),
        max(now, booking.starts_at),
        booking.ends_at,
        gpu_type=booking.gpu_type,
        node_id=booking.node_id,
    )
    taken = _taken(ledger, wanted)
    for other in moved:  # where they go in the same moment
        if other.overlaps(wanted.starts_at, wanted.ends_at):
            taken |= {(other.node_id, index) for index in other.gpus}
    kept = frozenset(booking.gpus)
    choices = [_pick(ledger, g, wanted, taken, now, kept=kept) for g in _groups(ledger, wanted)]
    if not any(choices) and not any(_jobs_there(ledger, booking)):
        anywhere = replace(wanted, node_id=None)
        choices = [_pick(ledger, g, anywhere, taken, now) for g in _groups(ledger, anywhere)]
    found = min((choice for choice in choices if choice is not None), default=None)
    return None if found is None else replace(booking, node_id=found.node_id, gpus=found.gpus)


def _jobs_there(ledger: Ledger, booking: AdvanceReservation) -> Iterator[bool]:
    use = ledger.nodes.get(booking.node_id)
    if use is not None:
        for holding in use.holdings.values():
            yield holding.job.options.booking == booking.booking_id
