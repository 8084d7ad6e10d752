"""The index says what the nodes say, whatever happened before."""

import pytest

from tests.builders import a_gpu, a_job, a_node, a_placement, a_state, a_tenant
from tgpu.core.capacity import node_index
from tgpu.core.capacity.ledger import Ledger, NodeUse
from tgpu.core.capacity.node_index import NodeIndex
from tgpu.core.capacity.packing import GpuShape
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import class_of
from tgpu.core.placement.place import place


def grouped(index: NodeIndex) -> dict[tuple[str, tuple[int, ...]], list[str]]:
    """Nodes by type and by what is free."""
    return {
        (gpu_type, tuple(free for free, _ in group.cells)): list(group.nodes)
        for gpu_type in index.types()
        for group in index.groups(gpu_type)
    }


def test_nodes_alike_are_in_one_group_whichever_gpu_is_taken() -> None:
    ledger = Ledger()
    ledger.set_tenant(a_tenant())
    for node_id in ("n2", "n0", "n1"):
        ledger.set_node(a_node(node_id, 2))
    ledger.take(a_job("a"), a_placement(0, node="n0"))
    ledger.take(a_job("b"), a_placement(1, node="n2"))
    assert grouped(ledger.index()) == {
        ("A100", (1000,)): ["n0", "n2"],
        ("A100", (1000, 1000)): ["n1"],
    }


def test_a_node_comes_back_to_its_group() -> None:
    state = a_state(nodes=[a_node("n0", 1)])
    before = grouped(state.ledger.index())
    state.ledger.take(a_job("a"), a_placement(0))
    assert grouped(state.ledger.index()) == {}
    state.ledger.give(a_job("a"), a_placement(0))
    assert grouped(state.ledger.index()) == before


def test_a_node_that_changed_is_read_again() -> None:
    state = a_state(nodes=[a_node("n0", 1)])
    state.ledger.index()
    state.ledger.set_node(a_node("n0", [a_gpu(0, "H100"), a_gpu(1, "H100", paused="repair")]))
    state.ledger.set_node(a_node("n1", 2))
    assert grouped(state.ledger.index()) == {
        ("H100", (1000,)): ["n0"],
        ("A100", (1000, 1000)): ["n1"],
    }


def test_books_that_got_other_nodes_get_another_index() -> None:
    state = a_state()
    state.ledger.index()
    state.ledger.nodes = {NodeId("n9"): NodeUse(a_node("n9", 1))}
    assert grouped(state.ledger.index()) == {("A100", (1000,)): ["n9"]}


def test_requests_for_memory_that_the_same_gpus_have_are_one_shape() -> None:
    index = a_state(
        nodes=[a_node(gpus=[a_gpu(0, mem_mib=40), a_gpu(1, mem_mib=80)])]
    ).ledger.index()
    assert index.usual("A100", GpuShape(1000, 30)) == GpuShape(1000)
    assert index.usual("A100", GpuShape(1000, 50)) == index.usual("A100", GpuShape(1000, 80))
    assert index.usual("A100", GpuShape(1000, 81)) is None


def test_an_index_that_has_grown_too_large_starts_again(monkeypatch) -> None:
    state = a_state(nodes=[a_node("n0", 2)])
    first = state.ledger.index()
    monkeypatch.setattr(node_index, "_MOST_GROUPS", 0)
    assert state.ledger.index() is not first
    assert grouped(state.ledger.index()) == grouped(first)


def test_searches_forgotten_to_save_room_are_made_again(monkeypatch) -> None:
    monkeypatch.setattr(node_index, "_MOST_FINDERS", 1)
    monkeypatch.setattr(node_index, "_MOST_NEWS", 1)
    state = a_state(nodes=[a_node("n0", 2)])
    for number in range(4):
        found = place(state.ledger, class_of(a_job(gpus=0.5)))
        assert found is not None
        state.ledger.take(a_job(f"j{number}", gpus=0.5), found)
        other = place(state.ledger, class_of(a_job(gpus=0.25)))
        assert (other is None) == (number == 3)


def test_cores_that_come_back_are_seen_by_who_was_refused() -> None:
    state = a_state(nodes=[a_node("n0", 4, cpus=4)])
    state.ledger.take(a_job("a", cpus=3), a_placement(0))
    wanted = class_of(a_job(cpus=2))
    assert place(state.ledger, wanted) is None
    assert place(state.ledger, wanted) is None
    state.ledger.give(a_job("a", cpus=3), a_placement(0))
    assert place(state.ledger, wanted) == a_placement(0)


@pytest.mark.parametrize("few", [0, 64], ids=["by group", "one by one"])
def test_a_label_is_found_however_many_nodes_have_it(few: int, monkeypatch) -> None:
    monkeypatch.setattr(node_index, "_FEW", few)
    near = ("zone", "a")
    state = a_state(nodes=[a_node("n0", 2), a_node("n1", 2, labels=(near,))])
    wanted = class_of(a_job(labels=(near,)))
    assert place(state.ledger, wanted) == a_placement(0, node="n1")
    state.ledger.set_node(a_node("n1", 2))
    assert place(state.ledger, wanted) is None
    state.ledger.set_node(a_node("n0", 2, labels=(near, near)))
    assert place(state.ledger, wanted) == a_placement(0, node="n0")
