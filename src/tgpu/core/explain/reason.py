"""Why a job waits, found by the code that decides."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import add

from tgpu.core.admission.admit import over_type_quota, refuse
from tgpu.core.capacity.ledger import Ledger, NodeUse
from tgpu.core.capacity.node_index import Group
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.job import ANYWHERE, JobClass
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.plan import Plan
from tgpu.core.model.reasons import Reason, ReasonCode, reason
from tgpu.core.model.units import GPU
from tgpu.core.placement.gpu_count import count_gpus
from tgpu.core.placement.place import (
    allows_type,
    could_ever_hold,
    eligible,
    gpus_touched,
    most_workers,
    place,
    shape_of,
    workers_that_fit,
)
from tgpu.core.reservations.reserved_capacity import FAR, ReservedCapacity, ReservedPart
from tgpu.core.state.cluster_state import Entry, State


def standing_holds(state: State, decided: Plan, now: int) -> ReservedCapacity:
    """What is kept for others since the last cycle."""
    holds = ReservedCapacity(state.ledger, now)
    for entry in state.nominated():
        if entry.progress.claim is not None:
            holds.add(entry.job, entry.progress.claim, now)
    for reservation in decided.reservations:
        other = state.entry(reservation.job_id)
        if other is not None and not state.is_placed(reservation.job_id):
            starts_at = now if reservation.at == FAR else max(now, reservation.at)
            holds.add(other.job, reservation.placement, starts_at)
    return holds


def named(state: State, decided: Plan, found: Reason) -> Reason:
    """A place is kept by a reservation, or for a job that others are preempted for: waiting jobs
    see a different reason for each."""
    if found.code is not ReasonCode.BEHIND_RESERVATION:
        return found
    job_id = JobId(str(found.fact("job")))
    entry = state.entry(job_id)
    has_claim = entry is not None and entry.progress.claim is not None
    if has_claim or any(claim.job_id == job_id for claim in decided.nominations):
        return reason(ReasonCode.PLACE_KEPT, job=job_id)
    return found


def own_reason(state: State, entry: Entry) -> Reason | None:
    """What keeps this job out of the queue, apart from its class."""
    progress, job = entry.progress, entry.job
    cause = state.unsatisfiable_cause(job.job_id)
    if cause is not None:
        return reason(ReasonCode.DEPENDENCY_FAILED, cause=cause)
    if progress.held:
        return reason(ReasonCode.HELD, **({"by": progress.held_by} if progress.held_by else {}))
    if entry.unmet:
        named = dict.fromkeys(dependency.job_id for dependency in job.after)
        others = [job_id for job_id in named if state.entry(job_id) is not None]
        return reason(ReasonCode.DEPENDENCY, jobs=", ".join(others))
    if progress.eligible_at > state.now:
        return reason(
            ReasonCode.BACKING_OFF, until=progress.eligible_at, cause=progress.cause or ""
        )
    if progress.claim is not None:
        leaving = preempted_for(state, job.job_id)
        if leaving:
            return reason(ReasonCode.PROMISED, jobs=", ".join(leaving))
    return None


def preempted_for(state: State, job_id: JobId) -> list[JobId]:
    """The jobs being preempted for this one that still have GPUs, by id."""
    entry = state.entry(job_id)
    if entry is None or entry.progress.claim is None:
        return []
    found = set()
    for part in entry.progress.claim.parts():
        use = state.ledger.nodes.get(part.node_id)
        for other_id in use.holdings if use is not None else ():
            other = state.entry(other_id)
            if other is not None and other.progress.gives_way_to == job_id:
                found.add(other_id)
    return sorted(found)


def explain_class(
    ledger: Ledger, job_class: JobClass, holds: ReservedCapacity | None = None
) -> Reason:
    """The reason of a class on this ledger, with what is kept for others."""
    refused = refuse(ledger, job_class) if holds is None else holds.limits.refuse(job_class)
    if refused is not None:
        return refused
    if job_class.booking is not None and holds is not None:
        return _inside_booking(ledger, job_class, holds)
    if place(ledger, job_class) is None:
        nearest = _nearest(ledger, job_class)
        if nearest is not None:
            return _busy_reason(ledger, [nearest], job_class, None)
        return no_room(ledger, [ledger.node(node_id) for node_id in ledger.node_ids()], job_class)
    kept = None if holds is None else _first_in_the_way(ledger, job_class, holds)
    if kept is None or holds is None:
        return reason(ReasonCode.NEXT_CYCLE)
    return _kept_reason(kept, job_class, holds.now)


def no_room(ledger: Ledger, uses: list[NodeUse], job_class: JobClass) -> Reason:
    """Why a class that may have what it asks for finds none of it on these nodes."""
    if not uses:
        return reason(ReasonCode.NO_NODE)
    if not could_ever_hold([use.node for use in uses], job_class):
        return never_reason(uses, job_class)
    able = [use for use in uses if any(most_workers(use.node, job_class).values())]
    return _busy_reason(ledger, able, job_class, able)


def _nearest(ledger: Ledger, job_class: JobClass) -> NodeUse | None:
    """The node on which one worker comes nearest to starting, by sorts of nodes; None where that
    cannot tell, and every node must be looked at. What it finds is what a look at all would."""
    request, where = job_class.request, job_class.request.where
    by_type = ledger.tenant(job_class.tenant_id).tenant.max_gpu_millis_by_type
    if request.workers > 1 or where.gpus or where.not_gpus or where.exclusive:
        return None
    if by_type and request.gpu_type is None:
        return None
    shape, index = shape_of(request), ledger.index()
    ranked: dict[tuple[bool, int], list[Group]] = {}
    for gpu_type in index.types():
        if allows_type(request, gpu_type):
            for group in index.groups(gpu_type):
                free = sum(free for free, kind in group.cells if shape.allows(kind))
                if free:
                    ranked.setdefault((group.capacity(shape) > 0, free), []).append(group)
    for rank in sorted(ranked, reverse=True):
        last = [
            _last_able(ledger, group.nodes, job_class, group.gpu_type) for group in ranked[rank]
        ]
        found = max((node_id for node_id in last if node_id is not None), default=None)
        if found is not None:
            return ledger.node(found)
    full = _last_able(ledger, ledger.node_ids(), job_class)
    return None if full is None else ledger.node(full)


def _last_able(
    ledger: Ledger, node_ids: list[NodeId], job_class: JobClass, gpu_type: str | None = None
) -> NodeId | None:
    """The last of these that could have a worker if it were free and well."""
    for node_id in reversed(node_ids):
        workers = most_workers(ledger.node(node_id).node, job_class)
        if workers.get(gpu_type) if gpu_type is not None else any(workers.values()):
            return node_id
    return None


def _inside_booking(ledger: Ledger, job_class: JobClass, holds: ReservedCapacity) -> Reason:
    """It sees only the GPUs that are booked, and only while they are."""
    booking = ledger.bookings.get(job_class.booking or "")
    if booking is None or booking.node_id not in ledger.nodes:
        return reason(ReasonCode.NO_NODE)
    if holds.now < booking.starts_at:
        return reason(ReasonCode.BOOKING_AHEAD, booking=booking.booking_id, at=booking.starts_at)
    if place(ledger, job_class, holds.view(job_class)) is not None:
        return reason(ReasonCode.NEXT_CYCLE)
    use = ledger.node(booking.node_id).copy()
    booked = tuple(gpu for gpu in use.node.gpus if gpu.index in booking.gpus)
    use.node = replace(use.node, gpus=booked)
    return no_room(ledger, [use], job_class)


def _first_in_the_way(
    ledger: Ledger, job_class: JobClass, holds: ReservedCapacity
) -> ReservedPart | None:
    """Of what is kept for others, in order, the first without which it would fit so far."""
    owners = holds.owners()

    def fits(count: int) -> bool:
        kept = holds.only({hold.owner for hold in owners[:count]})
        return place(ledger, job_class, kept.view(job_class)) is not None

    if fits(len(owners)):
        return None
    # The more is kept, the less fits: half of them at a time.
    fitting, too_many = 0, len(owners)
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(middle):
            fitting = middle
        else:
            too_many = middle
    return owners[too_many - 1]


def _kept_reason(hold: ReservedPart, job_class: JobClass, now: int) -> Reason:
    limit = max(0, hold.starts_at - now)  # who is over by then is not in the way
    if hold.booking is not None:
        return reason(
            ReasonCode.BOOKED,
            booking=hold.booking,
            at=hold.starts_at,
            until=hold.ends_at or 0,
            limit=limit,
            node=hold.part.node_id,
        )
    return reason(
        ReasonCode.BEHIND_RESERVATION,
        job=hold.owner,
        at=hold.starts_at if limit else 0,
        limit=limit,
        requested=job_class.time_limit_ms or 0,
    )


def never_reason(uses: list[NodeUse], job_class: JobClass) -> Reason:
    """Why the nodes could not hold this class even if they were empty."""
    request = job_class.request
    types = sorted({gpu.gpu_type for use in uses for gpu in use.node.gpus})
    wanted = request.where.gpu_types if request.gpu_type is None else (request.gpu_type,)
    if wanted and not any(gpu_type in types for gpu_type in wanted):
        named = ", ".join(wanted)
        return reason(ReasonCode.NO_SUCH_GPU, gpu_type=named, types=", ".join(types))
    return _unmet_condition([use.node for use in uses], job_class) or _too_large(uses, job_class)


# Conditions of a job by the names that people know them by. Its list of GPUs is not among them:
# who names too few is told how many there are.
_CONDITIONS = {
    "nodes": "nodes",
    "not_nodes": "excluded nodes",
    "labels": "labels",
    "not_gpus": "excluded GPUs",
    "gpu_mem_each_mib": "memory of each GPU",
    "same_island": "same island",
    "gpu_types": "GPU types",
}


def _unmet_condition(nodes: list[Node], job_class: JobClass) -> Reason | None:
    """The one condition without which the nodes could hold it."""
    request = job_class.request
    for name, shown in _CONDITIONS.items():
        value, none = getattr(request.where, name), getattr(ANYWHERE, name)
        if value == none:
            continue
        without = replace(request, where=replace(request.where, **{name: none}))
        if could_ever_hold(nodes, job_class._replace(request=without)):
            return reason(ReasonCode.CONDITION, condition=shown, field=name, value=_text(value))
    return None


def _text(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value)
    return ", ".join("=".join(one) if isinstance(one, tuple) else str(one) for one in value)


def _too_large(uses: list[NodeUse], job_class: JobClass) -> Reason:
    request = job_class.request
    gpu_millis, cpu_millis, mem_mib = request.of_a_worker()
    largest = max((_most_gpus(use, job_class) for use in uses), default=0)
    if largest < gpus_touched(request):
        return reason(
            ReasonCode.TOO_LARGE,
            resource="gpus",
            requested=gpu_millis,
            largest=largest * GPU,
            gpu_type=request.gpu_type or "",
            gpu_mem_mib=request.gpu_mem_mib,
            by_type=_each_most((_lengths(use, job_class) for use in uses), max),
        )
    # Only nodes with the GPUs count from here: the cores of another machine are no help.
    uses = [use for use in uses if _most_gpus(use, job_class) >= gpus_touched(request)]
    cpu = max(use.node.cpu_millis for use in uses)
    if cpu < cpu_millis:
        return reason(
            ReasonCode.TOO_LARGE, resource="cpu_millis", requested=cpu_millis, largest=cpu
        )
    memory = max(use.node.mem_mib for use in uses if use.node.cpu_millis >= cpu_millis)
    if memory < mem_mib:
        return reason(
            ReasonCode.TOO_LARGE, resource="memory_mib", requested=mem_mib, largest=memory
        )
    rooms = [most_workers(use.node, job_class) for use in uses]
    return reason(
        ReasonCode.TOO_LARGE,
        resource="workers",
        requested=request.workers,
        largest=max(_joined(rooms, add).values(), default=0),
        by_type=_each_most(rooms, add),
    )


def _most_gpus(use: NodeUse, job_class: JobClass) -> int:
    return max(_lengths(use, job_class).values(), default=0)


def _lengths(use: NodeUse, job_class: JobClass) -> dict[str, int]:
    return {gpu_type: len(gpus) for gpu_type, gpus in eligible(use.node, job_class).items()}


def _joined(counts: Iterable[dict[str, int]], join: Callable[[int, int], int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for count in counts:
        for gpu_type, number in count.items():
            found[gpu_type] = join(found.get(gpu_type, 0), number)
    return found


def _each_most(counts: Iterable[dict[str, int]], join: Callable[[int, int], int]) -> str:
    """ "4 A100, 2 H100" where there is more than one type to choose from, else ""."""
    found = sorted(_joined(counts, join).items())
    return ", ".join(f"{number} {gpu_type}" for gpu_type, number in found) if found[1:] else ""


@dataclass(frozen=True, slots=True)
class _Spot:
    """The GPUs of one type on one node, or for a gang on all nodes that could have a worker."""

    uses: tuple[NodeUse, ...]
    gpu_type: str
    gpus: tuple[tuple[NodeUse, Gpu], ...]

    @property
    def node(self) -> str:
        return self.uses[0].node.node_id if len(self.uses) == 1 else ""

    def free(self) -> list[int]:
        return [0 if use.closed_by else use.free_millis(gpu) for use, gpu in self.gpus]

    def workers(self, job_class: JobClass) -> int:
        return sum(workers_that_fit(use, job_class, self.gpu_type) for use in self.uses)

    def nearness(self, job_class: JobClass) -> tuple[bool, int, str, str]:
        holds = self.workers(_gpus_only(job_class)) >= job_class.request.workers
        return (holds, sum(self.free()), self.node, self.gpu_type)


def _gpus_only(job_class: JobClass) -> JobClass:
    return job_class._replace(request=replace(job_class.request, cpu_millis=0, mem_mib=0))


def _spots(able: list[NodeUse], job_class: JobClass) -> list[_Spot]:
    """Only those that could hold all of its workers if they were free and well."""
    workers = job_class.request.workers
    by_type: dict[str, list[_Spot]] = {}
    room: dict[str, int] = {}
    for use in able:
        most = most_workers(use.node, job_class)
        for gpu_type, gpus in eligible(use.node, job_class).items():
            if most[gpu_type]:
                spot = _Spot((use,), gpu_type, tuple((use, gpu) for gpu in gpus))
                by_type.setdefault(gpu_type, []).append(spot)
                room[gpu_type] = room.get(gpu_type, 0) + most[gpu_type]
    if workers == 1:
        return [spot for spots in by_type.values() for spot in spots]
    return [
        _Spot(
            tuple(use for spot in spots for use in spot.uses),
            gpu_type,
            tuple(pair for spot in spots for pair in spot.gpus),
        )
        for gpu_type, spots in by_type.items()
        if room[gpu_type] >= workers
    ]


def _busy_reason(
    ledger: Ledger, able: list[NodeUse], job_class: JobClass, among: list[NodeUse] | None
) -> Reason:
    """What is scarce where the job comes nearest to starting: GPUs first, then CPU, then memory.

    GPUs are counted on the nodes `among` which it looks for them, None for all there are.
    """
    request = job_class.request
    tenant_use = ledger.tenant(job_class.tenant_id)
    spots = _spots(able, job_class)
    spots.sort(key=lambda spot: spot.nearness(job_class), reverse=True)
    over = [over_type_quota(tenant_use, spot.gpu_type, request.gpu_millis) for spot in spots]
    for spot, over_quota in zip(spots, over, strict=True):
        if over_quota is None:
            if spot.workers(_gpus_only(job_class)) < request.workers:
                return _gpus_reason(ledger, spot, job_class, among)
            return _scarcest(spot, job_class)
    assert over[0] is not None  # an open request, and the quota of every type is used up
    return over[0]


def _scarcest(spot: _Spot, job_class: JobClass) -> Reason:
    request = job_class.request
    frugal = job_class._replace(request=replace(request, mem_mib=0))
    nodes = [use.node for use in spot.uses]
    if spot.workers(frugal) < request.workers:
        total_cpu = sum(node.cpu_millis for node in nodes)
        return reason(
            ReasonCode.CPU_BUSY,
            requested=request.cpu_millis,
            free=total_cpu - sum(use.cpu_millis for use in spot.uses),
            total=total_cpu,
            node=spot.node,
        )
    total_mem = sum(node.mem_mib for node in nodes)
    return reason(
        ReasonCode.MEMORY_BUSY,
        requested=request.mem_mib,
        free=total_mem - sum(use.mem_mib for use in spot.uses),
        total=total_mem,
        node=spot.node,
    )


def _gpus_reason(
    ledger: Ledger, spot: _Spot, job_class: JobClass, among: list[NodeUse] | None
) -> Reason:
    request = job_class.request
    if request.where.exclusive:
        shared = replace(request, where=replace(request.where, exclusive=False))
        if spot.workers(_gpus_only(job_class._replace(request=shared))) >= request.workers:
            busy = sum(bool(use.holdings) for use in spot.uses)
            return reason(ReasonCode.NOT_ALONE, busy=busy, node=spot.node)
    count = count_gpus(ledger, job_class, among)
    by_type: dict[str, int | str] = {}
    for gpu_type, one in sorted(count.by_type.items()):
        by_type |= {f"free:{gpu_type}": one.free_millis, f"total:{gpu_type}": one.total * GPU}
    return reason(
        ReasonCode.GPUS_BUSY,
        requested=request.gpu_millis,
        workers=request.workers,
        gpu_type=request.gpu_type or "",
        total=count.total * GPU,
        free=count.free_millis,
        empty=count.whole,
        types=", ".join(sorted(count.by_type)),
        **by_type,
        nodes=count.nodes,
        paused=count.paused,
        pauses="; ".join(count.pauses),
        hot=count.hot,
        problem=count.problem,
        foreign=count.foreign,
        node=spot.node,
        together=sum(spot.free()),
    )
