"""Nodes that jobs can be on and nodes that only report; where all workers of a gang are."""

import pytest

from tests.builders import a_job, a_node, a_state, a_tenant, start
from tgpu.core.check import check_invariants
from tgpu.core.model.events import NodeSet
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import Where, class_of
from tgpu.core.model.node import GpuName, Node, Part, Placement, Share, gone
from tgpu.core.placement.place import could_ever_hold, place
from tgpu.core.state.cluster_state import State

A, B = NodeId("a"), NodeId("b")


def reporting(node: Node) -> Node:
    return Node(node.node_id, node.gpus, node.cpu_millis, node.mem_mib, engine="")


def test_a_placement_names_the_gpus_of_all_workers_each_once() -> None:
    half = (Share(1, 500),)
    gang = Placement(A, "A100", (Share(3, 1000),), (Part(A, half), Part(A, half), Part(B, half)))
    assert gang.gpus() == ((A, 1), (A, 3), (B, 1))
    assert gang.first_indexes() == [1, 3]
    assert Placement(B, "A100", (Share(2, 1000),)).gpus() == (GpuName(B, 2),)


@pytest.mark.parametrize(
    ("where", "allowed"),
    [
        (Where(), True),
        (Where(gpus=(1,)), True),
        (Where(gpus=(0,)), False),
        (Where(gpus=(GpuName(B, 1),)), True),
        (Where(gpus=(GpuName(A, 1),)), False),
        (Where(gpus=(GpuName(A, 1), 1)), True),
        (Where(not_gpus=(1,)), False),
        (Where(not_gpus=(GpuName(A, 1),)), True),
        (Where(not_gpus=(GpuName(B, 1),)), False),
    ],
)
def test_a_name_is_one_gpu_and_a_bare_index_one_of_each_node(where: Where, allowed: bool) -> None:
    assert where.allows_gpu(B, 1) is allowed


def test_a_job_goes_where_the_gpus_are_that_it_names() -> None:
    state = a_state(nodes=[a_node("a", 2), a_node("b", 2)], tenants=[a_tenant()])
    names = (GpuName(B, 1), GpuName(A, 0))
    job = a_job(gpus=1, allowed_gpus=names, not_gpus=(GpuName(A, 0),))
    found = place(state.ledger, class_of(job))
    assert found is not None
    assert found.gpus() == ((B, 1),)


def test_a_node_without_an_engine_is_known_and_in_no_decision() -> None:
    state = a_state(nodes=[a_node("a", 1)], tenants=[a_tenant()])
    state.apply(NodeSet(0, reporting(a_node("b", 8))))
    assert [node.node_id for node in state.ledger.known_nodes()] == ["a", "b"]
    assert state.ledger.node_ids() == ["a"]
    assert not state.ledger.has_several_nodes
    large = class_of(a_job(gpus=2))
    assert place(state.ledger, large) is None
    assert not could_ever_hold((use.node for use in state.ledger.nodes.values()), large)
    assert state.ledger.gpu_millis() == 1000
    state.apply(NodeSet(0, a_node("b", 8)))  # an engine runs jobs there now
    assert place(state.ledger, large) is not None
    assert not state.ledger.reporting
    check_invariants(state)


def test_a_node_whose_engine_goes_is_chosen_no_more() -> None:
    state = a_state(nodes=[a_node("a", 1), a_node("b", 8)], tenants=[a_tenant()])
    large = class_of(a_job(gpus=2))
    assert place(state.ledger, large) is not None  # the indexes are made
    state.apply(NodeSet(0, reporting(a_node("b", 8))))
    assert place(state.ledger, large) is None
    assert place(state.ledger, class_of(a_job(gpus=1))) is not None
    assert state.ledger.gpu_millis() == 1000
    check_invariants(state)


def a_state_with_a_job_on_b() -> State:
    state = a_state(
        a_job("j1", gpus=1), nodes=[a_node("a", 1), a_node("b", 2)], tenants=[a_tenant()]
    )
    start(state, "j1", placement=Placement(B, "A100", (Share(0, 1000),)))
    return state


def test_jobs_keep_their_places_on_a_node_whose_engine_goes() -> None:
    state = a_state_with_a_job_on_b()
    state.apply(NodeSet(0, reporting(a_node("b", 2))))
    use = state.ledger.nodes[B]
    assert list(use.holdings) == ["j1"]
    assert not any(gpu.is_usable for gpu in use.node.gpus)
    check_invariants(state)


def test_a_node_that_is_gone_is_forgotten() -> None:
    state = a_state(nodes=[a_node("a", 1)], tenants=[a_tenant()])
    state.apply(NodeSet(0, reporting(a_node("b", 2))))
    state.apply(NodeSet(0, gone(B)))
    assert state.ledger.known_node(B) is None
    assert [node.node_id for node in state.ledger.known_nodes()] == ["a"]
