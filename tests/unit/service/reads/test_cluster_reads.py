"""What is read of a state is right, and leads nowhere by which the state could be changed."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, KeysView
from enum import Enum
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from tests.builders import a_booking, a_gpu, a_job, a_node, a_queue, a_state, a_tenant, end, start
from tgpu.core.errors import NotFound
from tgpu.core.model.events import BookingSet, UsageAdded
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.tenant import Budget, MembersSee, Window
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.core.state.cluster_state import State
from tgpu.service.identity.caller import Principal, Role
from tgpu.service.identity.ownership import Action
from tgpu.service.reads.cluster_reads import ClusterReads

RED, BLUE = TenantId("red"), TenantId("blue")
NODE = NodeId("n0")
ADA = Principal("ada", Role.USER, frozenset({RED}))
DAY_BUDGET = Budget(3_600_000_000, Window.DAY)


def a_cluster() -> State:
    """Two tenants of a cohort: one borrows; a queue that was made, a reservation, a second node."""
    state = a_state(
        a_job("runs", "red", gpus=2, user="ada"),
        a_job("waits", "red", queue="night", user="ada"),
        a_job("over", "blue"),
        a_job("booked", "blue", booking="r1"),
        tenants=[
            a_tenant("red", 1, cohort="lab", budget=DAY_BUDGET),
            a_tenant("blue", 4, cohort="lab", members_see=MembersSee.NOTHING),
        ],
        queues=[a_queue("night", "red", priority=5)],
        nodes=[a_node("n0", [a_gpu(0), a_gpu(1), a_gpu(2, paused="dust")]), a_node("n1", 1)],
    )
    state.apply(BookingSet(0, a_booking("r1", 0, tenant="blue")))
    start(state, "over", 0)
    end(state, "over")
    start(state, "runs", 0, 1, at=5)
    state.apply(UsageAdded(0, RED, "night", GpuTimeUsage(3_000_000)))
    return state


@pytest.fixture
def reads() -> ClusterReads:
    return ClusterReads(a_cluster())


def test_jobs_that_are_not_over(reads: ClusterReads) -> None:
    live = reads.job(JobId("runs"))
    assert live is not None
    assert (live.job.job_id, live.progress.state) == ("runs", JobState.SCHEDULED)
    assert reads.job(JobId("over")) is None
    assert [job.job_id for job, _ in reads.placed_jobs()] == ["runs"]
    assert (reads.live_count(), reads.pending_count()) == (3, 2)


def test_counts_by_state_class_and_queue(reads: ClusterReads) -> None:
    counts = {state: count for state, count in reads.job_counts().items() if count}
    assert counts == {JobState.PENDING: 2, JobState.SCHEDULED: 1, JobState.COMPLETED: 1}
    assert sum(jobs for _, jobs in reads.class_counts()) == 3
    night, default = reads.queue_count(RED, "night"), reads.queue_count(RED, "default")
    assert reads.queue_live_count(RED, "night") == 1
    assert (night.live, night.running, night.pending) == (1, 0, 1)
    assert (default.live, default.running, default.pending) == (1, 1, 0)  # nobody has made it


def test_tenants_and_what_they_have(reads: ClusterReads) -> None:
    assert list(reads.tenant_ids) == [RED, BLUE]
    assert [tenant.tenant_id for tenant in reads.tenants()] == [BLUE, RED]
    red, blue = reads.tenant_allocation("red"), reads.tenant_allocation("blue")
    assert (red.jobs, red.gpu_millis, red.gpu_millis_by_type) == (1, 2000, {"A100": 2000})
    assert (red.borrowed_millis, red.lent_millis) == (1000, 0)
    assert (blue.borrowed_millis, blue.lent_millis) == (0, 1000)
    assert [held.tenant.tenant_id for held in reads.tenant_allocations()] == [RED, BLUE]
    assert reads.quota(RED).used_gpu == 2
    assert [(use.user, use.jobs) for use in reads.user_uses(RED, 0)] == [("ada", 1)]


def test_who_is_not_there(reads: ClusterReads) -> None:
    assert reads.find_tenant("green") is None
    assert reads.made_queue(RED, "default") is None
    assert reads.known_node(NodeId("n9")) is None
    assert not reads.has_node("n9")
    assert reads.reservation("r9", None) is None
    asked: list[Callable[[], object]] = [
        lambda: reads.tenant("green"),
        lambda: reads.tenant_allocation("green"),
        lambda: reads.quota(TenantId("green")),
        lambda: reads.queue(RED, "day"),
    ]
    for ask in asked:
        with pytest.raises(NotFound):
            ask()


def test_queues_and_usage(reads: ClusterReads) -> None:
    assert [(q.tenant_id, q.name) for q in reads.queues()] == [
        (RED, "night"),
        (BLUE, "default"),
        (RED, "default"),
    ]
    assert [queue.name for queue in reads.queues(BLUE)] == ["default"]
    assert reads.usage(RED, "night").gpu_millis_ms == 3_000_000
    assert reads.usage(RED) == reads.usage_by_queue()[RED, "night"]
    assert [tenant.tenant_id for tenant in reads.budgeted()] == [RED]
    assert reads.spend(RED).gpu_millis == 2000


def test_nodes_and_what_is_taken_of_their_gpus(reads: ClusterReads) -> None:
    held = reads.node_allocation(NODE)
    assert [held.taken_millis(gpu) for gpu in held.node.gpus] == [1000, 1000, 0]
    assert [held.free_millis(gpu) for gpu in held.node.gpus] == [0, 0, 0]  # the last is paused
    assert [each.node for each in reads.node_allocations()] == reads.nodes()
    assert reads.has_several_nodes
    assert [node.node_id for node in reads.known_nodes()] == ["n0", "n1"]


def test_reservations_and_their_jobs(reads: ClusterReads) -> None:
    assert [each.booking_id for each in reads.reservations()] == ["r1"]
    assert [job.job_id for job in reads.reserved_jobs("r1")] == ["booked"]
    assert reads.reserved_jobs("r9") == []
    assert reads.reservation("r1", [RED]) is None
    assert reads.reservation_problems(0) == {}


def test_what_a_caller_may(reads: ClusterReads) -> None:
    runs, booked = reads.job(JobId("runs")), reads.reserved_jobs("r1")[0]
    assert runs is not None
    assert reads.permits(ADA, Action.CANCEL, runs.job)
    assert not reads.permits(ADA, Action.SEE, booked)
    with pytest.raises(NotFound):
        reads.check(ADA, Action.CANCEL, booked)
    assert reads.sight(ADA).sees_job(runs.job)
    assert reads.members_see(BLUE) is MembersSee.NOTHING


def test_without_a_state_the_cluster_is_empty() -> None:
    reads = ClusterReads()
    assert (reads.live_count(), reads.tenants(), reads.nodes(), reads.now) == (0, [], [], 0)


def test_what_was_read_stays_as_it_was() -> None:
    state = a_cluster()
    reads = ClusterReads(state)
    tenant, node, counts = (
        reads.tenant_allocation("red"),
        reads.node_allocation(NODE),
        reads.job_counts(),
    )
    end(state, "runs")
    assert (tenant.gpu_millis_by_type, node.gpu_millis[0]) == ({"A100": 2000}, 1000)
    assert counts[JobState.SCHEDULED] == 1


# -- nothing leads back ----------------------------------------------------------------------------

# What each read is asked with; those without a line take nothing.
ASKED: dict[str, tuple[object, ...]] = {
    "sight": (ADA,),
    "permits": (ADA, Action.SEE, a_job("runs", "red")),
    "check": (ADA, Action.SEE, a_job("runs", "red")),
    "members_see": (RED,),
    "job": (JobId("runs"),),
    "find_tenant": ("red",),
    "tenant": ("red",),
    "tenant_allocation": ("red",),
    "user_uses": (RED, 0),
    "quota": (RED,),
    "queue": (RED, "night"),
    "queues": (None,),
    "made_queue": (RED, "night"),
    "queue_count": (RED, "night"),
    "queue_live_count": (RED, "night"),
    "usage": (RED,),
    "spend": (RED,),
    "shares": (0,),
    "has_node": ("n0",),
    "known_node": (NODE,),
    "node_allocation": (NODE,),
    "reservation": ("r1", None),
    "reservation_problems": (0,),
    "reserved_jobs": ("r1",),
}
READS = [name for name in vars(ClusterReads) if not name.startswith("_")]


@pytest.mark.parametrize("name", READS)
def test_no_answer_leads_back_to_what_could_be_changed(name: str) -> None:
    state = a_cluster()
    reads = ClusterReads(state)
    own = {id(part): part for part in _parts(state) if _can_change(part)}
    assert len(own) > 20
    answer = getattr(reads, name)
    if inspect.ismethod(answer):
        answer = answer(*ASKED.get(name, ()))
    assert [part for part in _parts(answer) if id(part) in own] == []


def _parts(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Everything that can be reached from a value."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, (str, bytes, int, float, Enum, type)):
        return
    seen.add(id(value))
    yield value
    if isinstance(value, (MappingProxyType, dict)):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset, KeysView, Iterator)):
        inner = list(value)
    else:
        names = [*getattr(value, "__dict__", {}), *_slots(value)]
        inner = [getattr(value, each) for each in names if hasattr(value, each)]
    for part in inner:
        yield from _parts(part, seen)


def _slots(value: Any) -> Iterator[str]:
    if isinstance(value, msgspec.Struct):
        yield from value.__struct_fields__
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _can_change(value: Any) -> bool:
    if isinstance(value, msgspec.Struct):
        return not value.__struct_config__.frozen
    if dataclasses.is_dataclass(value):
        parameters: Any = vars(type(value))["__dataclass_params__"]
        return not parameters.frozen
    return not isinstance(value, (tuple, frozenset, type(None), MappingProxyType))
