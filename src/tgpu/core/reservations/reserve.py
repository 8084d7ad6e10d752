"""Backfill reservations: when and where a job can start, from the time limits of others."""

from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from tgpu.core.capacity.ledger import Ledger, NodeUse, Trial
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import JobClass
from tgpu.core.model.node import Placement
from tgpu.core.placement.place import eligible, place, workers_that_fit
from tgpu.core.reservations.reserved_capacity import FAR, ReservedCapacity, ends_after


class Opening(NamedTuple):
    """The first instant at which a job fits, and where."""

    at: int
    placement: Placement


class _Room(NamedTuple):
    """From `at` on, this many workers fit onto GPUs of one type of a node."""

    at: int
    taken: int  # what others have of the node now: the emptier comes first
    node_id: NodeId
    gpu_type: str
    workers: int


def opening(
    trial: Trial, holds: ReservedCapacity, job_class: JobClass, now: int, *, patient: bool = False
) -> Opening | None:
    """None where no time limit tells; `patient` waits for those too who have none (at `FAR`)."""
    if job_class.booking is not None:
        return None  # it starts when its booking does
    ledger = trial.ledger
    if not (patient or ledger.known_ends or holds):
        return None  # nobody's end is known
    if job_class.request.workers == 1:
        room = _first_room(ledger, holds, job_class, now, patient)
        found = None if room is None else (room.at, {room.node_id})
    else:
        found = _room_for_gang(ledger, holds, job_class, now, patient)
    if found is None:
        return None
    at, node_ids = found
    placement = _placement_at(trial, holds, job_class, at, node_ids)
    return None if placement is None else Opening(at, placement)


def _first_room(
    ledger: Ledger, holds: ReservedCapacity, job_class: JobClass, now: int, patient: bool
) -> _Room | None:
    """Node after node as something of it becomes free, so that few are looked at."""
    turns: list[tuple[int, int, NodeId, list[int]]] = []
    for node_id in ledger.node_ids():
        use = ledger.node(node_id)
        # There is no room now: only nodes on which somebody ends, and from then on.
        later = [at for at in _instants(use, holds, now, patient) if at > now]
        if later:
            turns.append((later[0], sum(use.gpu_millis.values()), node_id, later))
    heapify(turns)
    while turns:
        at, taken, node_id, later = turns[0]
        use = ledger.node(node_id)
        seen = holds.seen(use, job_class, at)
        for gpu_type in sorted(eligible(use.node, job_class)):
            workers = workers_that_fit(seen, job_class, gpu_type)
            if workers:
                return _Room(at, taken, node_id, gpu_type, workers)
        if len(later) > 1:
            heapreplace(turns, (later[1], taken, node_id, later[1:]))
        else:
            heappop(turns)
    return None


def _room_for_gang(
    ledger: Ledger, holds: ReservedCapacity, job_class: JobClass, now: int, patient: bool
) -> tuple[int, set[NodeId]] | None:
    rooms: list[_Room] = []
    for node_id in ledger.node_ids():
        rooms += _rooms(ledger.node(node_id), holds, job_class, now, patient)
    rooms.sort()
    latest: dict[tuple[str, NodeId], int] = {}
    totals: dict[str, int] = {}
    for position, room in enumerate(rooms):
        key = (room.gpu_type, room.node_id)
        totals[room.gpu_type] = totals.get(room.gpu_type, 0) + room.workers - latest.get(key, 0)
        latest[key] = room.workers
        is_last = position + 1 == len(rooms) or rooms[position + 1].at > room.at
        if is_last and max(totals.values()) >= job_class.request.workers:
            enough = {kind for kind, count in totals.items() if count >= job_class.request.workers}
            return room.at, {
                node for (kind, node), count in latest.items() if count and kind in enough
            }
    return None


def _rooms(
    use: NodeUse, holds: ReservedCapacity, job_class: JobClass, now: int, patient: bool
) -> Iterator[_Room]:
    """How many workers fit onto a node as its jobs end, in order of time."""
    types = sorted(eligible(use.node, job_class))
    if not types:
        return
    taken = sum(use.gpu_millis.values())
    for at in _instants(use, holds, now, patient):
        seen = holds.seen(use, job_class, at)
        for gpu_type in types:
            workers = workers_that_fit(seen, job_class, gpu_type)
            yield _Room(at, taken, use.node.node_id, gpu_type, workers)


def _instants(use: NodeUse, holds: ReservedCapacity, now: int, patient: bool) -> list[int]:
    """When something of the node becomes free."""
    found = {now}
    for holding in use.holdings.values():
        if holding.until is not None:
            found.add(max(holding.until, now + 1))
        elif patient:
            found.add(FAR)
    for hold in holds.of(use.node.node_id):
        if hold.ends_at is not None and hold.ends_at > now:
            found.add(hold.ends_at)
    return sorted(found)


def _placement_at(
    trial: Trial,
    holds: ReservedCapacity,
    job_class: JobClass,
    at: int,
    node_ids: Collection[NodeId],
) -> Placement | None:
    """Where it goes then, found by the code that places: on a trial in which others have ended."""

    def view(use: NodeUse) -> NodeUse:
        return holds.seen(use, job_class, at)

    mark = trial.mark()
    for node_id in sorted(node_ids):
        holdings = trial.ledger.node(node_id).holdings
        for job_id in sorted(holdings):
            holding = holdings[job_id]
            if not ends_after(holding, at, holds.now):
                trial.give(holding.job, holding.placement)
    placement = place(trial.ledger, job_class, view, node_ids)
    trial.undo(mark)
    return placement
