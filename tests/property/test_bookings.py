"""Bookings: never two on a GPU at once, found whenever there is one, and the best there is."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_gpu, a_job, a_node, a_state, start, submit
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import BookingSet, NodeSet
from tgpu.core.model.ids import TenantId
from tgpu.core.model.node import Gpu
from tgpu.core.reservations.advance_reservations import (
    AdvanceReservationRequest,
    Refusal,
    Unbookable,
    choose,
    moves,
)
from tgpu.core.state.cluster_state import State

Cost = tuple[int, int, int]

gpu = st.builds(
    lambda gpu_type, island, problem: (gpu_type, island, problem),
    st.sampled_from(["A100", "A100", "H100"]),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, None, None, "lost"]),
)
machine = st.lists(gpu, min_size=1, max_size=5)
times = st.tuples(st.integers(0, 8), st.integers(1, 4)).map(lambda p: (p[0], p[0] + p[1]))
wish = st.tuples(st.integers(1, 4), times, st.sampled_from([None, "A100", "H100"]))
# On which GPU of all, when it ends (None: nobody knows), whether it is preemptible.
holder = st.tuples(st.integers(0, 9), st.sampled_from([None, 2, 5, 20]), st.booleans())


def a_world(machines: list[list[tuple[str, int | None, str | None]]], holders) -> State:
    nodes = [
        a_node(
            f"n{number}",
            [
                a_gpu(index, kind, nvlink_group=island, problem=problem)
                for index, (kind, island, problem) in enumerate(gpus)
            ],
        )
        for number, gpus in enumerate(machines)
    ]
    state = a_state(nodes=nodes)
    places = [(node, gpu) for node in nodes for gpu in node.gpus]
    for number, (place, limit, preemptible) in enumerate(holders):
        if place < len(places):
            node, gpu = places.pop(place)
            job_id = f"j{number}"
            submit(state, a_job(job_id, time_limit_ms=limit, preemptible=preemptible))
            start(state, job_id, gpu.index, node=node.node_id, gpu_type=gpu.gpu_type)
    return state


def book_all(state: State, wishes) -> None:
    for number, (count, (starts_at, ends_at), kind) in enumerate(wishes):
        request = AdvanceReservationRequest(
            f"r-{number}", TenantId("default"), count, starts_at, ends_at, kind
        )
        found = choose(state, request, 0)
        if isinstance(found, AdvanceReservation):
            state.apply(BookingSet(0, found))


def cost(state: State, node: str, gpus: tuple[Gpu, ...], at: int) -> Cost:
    """Counted from the entries: GPUs with jobs that stay, GPUs with jobs that go, islands."""
    stay: set[int] = set()
    go: set[int] = set()
    for entry in state.placed():
        placement, limit = entry.progress.placement, entry.job.options.time_limit_ms
        assert placement is not None
        if placement.node_id == node and (limit is None or limit > at):
            indexes = {share.gpu_index for share in placement.shares}
            (go if entry.job.options.preemptible else stay).update(indexes)
    mine = {gpu.index for gpu in gpus}
    islands = {("none", g.index) if g.nvlink_group is None else g.nvlink_group for g in gpus}
    return len(mine & stay), len(mine & go - stay), len(islands)


def every_choice(
    state: State, request: AdvanceReservationRequest
) -> list[tuple[str, tuple[Gpu, ...]]]:
    found: list[tuple[str, tuple[Gpu, ...]]] = []
    for use in state.ledger.nodes.values():
        for gpus in combinations(use.node.gpus, request.gpus):
            kinds = {gpu.gpu_type for gpu in gpus}
            if len(kinds) > 1 or request.gpu_type not in (None, *kinds):
                continue
            if any(gpu.problem for gpu in gpus):
                continue
            if not any(is_taken(state, use.node.node_id, gpu.index, request) for gpu in gpus):
                found.append((use.node.node_id, gpus))
    return found


def is_taken(state: State, node: str, index: int, request: AdvanceReservationRequest) -> bool:
    return any(
        booking.node_id == node
        and index in booking.gpus
        and any(booking.starts_at <= t < booking.ends_at for t in instants(request))
        for booking in state.ledger.bookings.values()
    )


def instants(request: AdvanceReservationRequest) -> range:
    return range(request.starts_at, request.ends_at)


def check_no_overlap(state: State) -> None:
    held = set()
    for booking in state.ledger.bookings.values():
        for at in range(booking.starts_at, booking.ends_at):
            for index in booking.gpus:
                key = (booking.node_id, index, at)
                assert key not in held, f"{booking.booking_id} meets another at {key}"
                held.add(key)


@settings(deadline=None)
@given(st.lists(machine, min_size=1, max_size=2), st.lists(wish, max_size=8))
def test_no_two_bookings_have_a_gpu_at_the_same_time(machines, wishes):
    state = a_world(machines, [])
    book_all(state, wishes)
    check_no_overlap(state)


@settings(deadline=None)
@given(
    st.lists(machine, min_size=1, max_size=2),
    st.lists(holder, max_size=5),
    st.lists(wish, max_size=5),
    wish,
)
def test_a_booking_is_found_whenever_there_is_one_and_none_is_better(
    machines, holders, wishes, last
):
    state = a_world(machines, holders)
    book_all(state, wishes)
    count, (starts_at, ends_at), kind = last
    request = AdvanceReservationRequest(
        "last", TenantId("default"), count, starts_at, ends_at, kind
    )
    possible = every_choice(state, request)
    found = choose(state, request, 0)
    if not possible:
        assert isinstance(found, Unbookable)
        return
    assert isinstance(found, AdvanceReservation), found
    by_index = {gpu.index: gpu for gpu in state.ledger.node(found.node_id).node.gpus}
    gpus = tuple(by_index[index] for index in found.gpus)
    assert (found.node_id, gpus) in possible
    conflicts = [cost(state, node, gpus, starts_at) for node, gpus in possible]
    mine = cost(state, found.node_id, gpus, starts_at)
    assert mine[:2] == min(conflicts)[:2]


@settings(deadline=None)
@given(st.lists(machine, min_size=1, max_size=2), wish)
def test_where_nothing_stands_against_any_gpu_the_fewest_islands_are_taken(machines, last):
    state = a_world(machines, [])
    count, (starts_at, ends_at), kind = last
    request = AdvanceReservationRequest(
        "last", TenantId("default"), count, starts_at, ends_at, kind
    )
    found = choose(state, request, 0)
    possible = every_choice(state, request)
    assert isinstance(found, AdvanceReservation) == bool(possible)
    if isinstance(found, AdvanceReservation):
        by_index = {gpu.index: gpu for gpu in state.ledger.node(found.node_id).node.gpus}
        mine = tuple(by_index[index] for index in found.gpus)
        fewest = min(cost(state, node, gpus, 0) for node, gpus in possible)
        assert cost(state, found.node_id, mine, 0) == fewest


@settings(deadline=None)
@given(st.lists(machine, min_size=1, max_size=2), st.lists(wish, max_size=8), wish)
def test_when_it_is_said_to_be_possible_it_is_and_no_sooner(machines, wishes, last):
    state = a_world(machines, [])
    book_all(state, wishes)
    count, (starts_at, ends_at), kind = last
    request = AdvanceReservationRequest(
        "last", TenantId("default"), count, starts_at, ends_at, kind
    )
    found = choose(state, request, 0)
    if not isinstance(found, Unbookable) or found.code is not Refusal.BOOKED:
        return
    assert found.free_at is not None
    length = ends_at - starts_at
    for at in range(starts_at, found.free_at + 1):
        later = AdvanceReservationRequest("last", TenantId("default"), count, at, at + length, kind)
        assert isinstance(choose(state, later, 0), AdvanceReservation) == (at == found.free_at)


@settings(deadline=None)
@given(st.lists(machine, min_size=1, max_size=2), st.lists(wish, max_size=6), st.data())
def test_bookings_that_move_meet_no_other_and_keep_their_size(machines, wishes, data):
    state = a_world(machines, [])
    book_all(state, wishes)
    for node_id in list(state.ledger.node_ids()):
        node = state.ledger.node(node_id).node
        lost = data.draw(st.sets(st.integers(0, len(node.gpus) - 1)))
        gpus = [
            a_gpu(
                g.index,
                g.gpu_type,
                nvlink_group=g.nvlink_group,
                problem="x" if g.index in lost else g.problem,
            )
            for g in node.gpus
        ]
        state.apply(NodeSet(0, a_node(node_id, gpus)))
    for moved in moves(state, 0):
        before = state.ledger.bookings[moved.booking_id]
        assert (len(before.gpus), before.gpu_type) == (len(moved.gpus), moved.gpu_type)
        by_index = {gpu.index: gpu for gpu in state.ledger.node(moved.node_id).node.gpus}
        assert all(by_index[index].problem is None for index in moved.gpus)
        state.apply(BookingSet(0, moved))
    check_no_overlap(state)
