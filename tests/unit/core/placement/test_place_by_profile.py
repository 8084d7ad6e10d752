"""Where jobs go once it is known what is usually asked for: each rule on the smallest world."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import a_gpu, a_job, a_node, a_placement, a_state, a_tenant, start, submit
from tgpu.core.capacity.ledger import NodeUse
from tgpu.core.model.events import NodeSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job, class_of
from tgpu.core.model.node import Node, Placement, Share
from tgpu.core.model.request_profile import RequestProfile, RequestShape
from tgpu.core.model.rules import PlacementRule
from tgpu.core.model.units import CPU, GPU
from tgpu.core.placement.place import place
from tgpu.core.placement.place_by_profile import goes_by_profile
from tgpu.core.state.cluster_state import State

WHOLE_GPUS = RequestShape(GPU)
QUARTERS = RequestShape(250)


def a_world(*usual: RequestShape, nodes: list[Node], **known: Any) -> State:
    """Jobs usually ask for these, one as often as the other."""
    state = a_state(nodes=nodes, **known)
    weight = 10_000 // len(usual)
    state.ledger.request_profile = RequestProfile(tuple((shape, weight) for shape in usual))
    return state


def take(state: State, name: str, job: Job, placement: Placement) -> None:
    submit(state, replace(job, job_id=JobId(name)))
    start(state, name, placement=placement)


def take_part(state: State, gpu: int, millis: int, node: str = "n0") -> None:
    name = f"on-{node}-{gpu}"
    take(state, name, a_job(gpus=millis / GPU), a_placement(gpu, node=node, millis=millis))


def placed(state: State, view: Any = None, **job: Any) -> Placement | None:
    return place(state.ledger, class_of(a_job(**job)), view)


def where(state: State, view: Any = None, **job: Any) -> tuple[str, list[int]] | None:
    found = placed(state, view, **job)
    return None if found is None else (found.node_id, [one.gpu_index for one in found.shares])


# -- who is placed by it -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asks",
    [{}, {"gpus": 0.5}, {"gpu_type": "A100"}, {"gpu_types": ("A100",)}, {"cpus": 4, "mem_mib": 8}],
    ids=str,
)
def test_gpus_types_cores_and_memory_of_one_worker_go_by_the_profile(asks: dict[str, Any]) -> None:
    assert goes_by_profile(a_job(**asks).request)


@pytest.mark.parametrize(
    "asks",
    [
        {"workers": 2, "gpus": 2},
        {"gpu_mem_mib": 1000},
        {"gpu_mem_each_mib": 1000},
        {"nodes": ("n0",)},
        {"not_nodes": ("n0",)},
        {"labels": (("disk", "fast"),)},
        {"exclusive": True},
        {"same_island": True},
        {"spread": True},
    ],
    ids=str,
)
def test_a_gang_or_any_other_condition_does_not(asks: dict[str, Any]) -> None:
    assert not goes_by_profile(a_job(**asks).request)


def test_under_another_placement_rule_nobody_does() -> None:
    state = quarters_fit_into_what_is_left_of_gpu_1()
    state.ledger.placement_rule = PlacementRule.CONSOLIDATED
    assert where(state, gpus=0.3) == ("n0", [0])


# -- which place is best -------------------------------------------------------------------------


def quarters_fit_into_what_is_left_of_gpu_1() -> State:
    """0.3 would leave 0.1 of GPU 0, which is of no use, and 0.25 of GPU 1."""
    state = a_world(QUARTERS, nodes=[a_node(gpus=2)])
    take_part(state, 0, 600)
    take_part(state, 1, 450)
    return state


def test_what_is_left_of_a_gpu_is_what_somebody_usually_asks_for() -> None:
    state = quarters_fit_into_what_is_left_of_gpu_1()
    assert where(state, gpus=0.3) == ("n0", [1])
    state.ledger.request_profile = None
    assert where(state, gpus=0.3) == ("n0", [0])  # the best fit


def test_a_gpu_without_the_cores_that_are_usual_is_taken_first() -> None:
    usual = RequestShape(GPU, 8 * CPU)
    nodes = [a_node("n0", gpus=1, cpus=64), a_node("n1", gpus=1, cpus=4)]
    state = a_world(usual, nodes=nodes)
    assert where(state) == ("n1", [0])
    assert where(state, cpus=8) == ("n0", [0])


def test_a_type_that_others_need_is_left_to_them() -> None:
    nodes = [a_node("n0", gpus=1, gpu_type="A100"), a_node("n1", gpus=1, gpu_type="T4")]
    state = a_world(RequestShape(GPU, gpu_types=("A100",)), nodes=nodes)
    assert where(state) == ("n1", [0])


def test_one_nvlink_island_comes_before_all_that_is_usual() -> None:
    """By what is usual n0 is the better place: it lacks the cores."""
    island = [a_gpu(0, nvlink_group=0), a_gpu(1, nvlink_group=0)]
    nodes = [a_node("n0", gpus=2, cpus=4), a_node("n1", gpus=island, cpus=64)]
    state = a_world(RequestShape(GPU, 8 * CPU), nodes=nodes)
    assert where(state, gpus=1) == ("n0", [0])
    assert where(state, gpus=2) == ("n1", [0, 1])


def test_a_difference_of_a_hundredth_of_a_gpu_does_not_decide() -> None:
    """0.01 would be lost on n0 and nothing on n1: that is chance, and n0 is the better fit."""
    state = a_world(QUARTERS, nodes=[a_node("n0", gpus=1), a_node("n1", gpus=1)])
    take_part(state, 0, 450)
    take_part(state, 0, 210, node="n1")
    assert where(state, gpus=0.54) == ("n0", [0])


def test_of_equal_nodes_the_first_by_name_is_taken() -> None:
    state = a_world(WHOLE_GPUS, nodes=[a_node("n1"), a_node("n0")])
    assert where(state) == ("n0", [0])


def test_a_gpu_and_a_half_are_told_in_the_order_of_the_gpus() -> None:
    state = a_world(WHOLE_GPUS, nodes=[a_node(gpus=2)])
    take_part(state, 1, 500)
    found = placed(state, gpus=1.5)
    assert found is not None
    assert found.shares == (Share(0, 1000), Share(1, 500))


# -- what it may have ----------------------------------------------------------------------------


def two_types(**known: Any) -> State:
    nodes = [a_node("n0", gpus=1, gpu_type="A100"), a_node("n1", gpus=1, gpu_type="T4")]
    return a_world(RequestShape(GPU, gpu_types=("A100",)), nodes=nodes, **known)


def test_the_type_it_names_is_the_only_one() -> None:
    assert where(two_types(), gpu_type="A100") == ("n0", [0])
    assert where(two_types(), gpu_type="H100") is None
    assert where(two_types(), gpu_type="A100", gpu_types=("T4",)) is None


def test_of_a_list_the_first_type_with_room_is_taken_however_good_the_others() -> None:
    state = two_types()
    assert where(state, gpu_types=("A100", "T4")) == ("n0", [0])
    take_part(state, 0, 1000)
    assert where(state, gpu_types=("A100", "T4")) == ("n1", [0])


def test_a_type_beyond_the_quota_is_passed_over() -> None:
    state = two_types(tenants=[a_tenant(by_type={"T4": 0})])
    assert where(state) == ("n0", [0])
    assert where(state, gpu_types=("T4",)) is None


def test_where_there_is_no_room_there_is_no_place() -> None:
    state = a_world(WHOLE_GPUS, nodes=[a_node(gpus=1)])
    take_part(state, 0, 500)
    assert where(state, gpus=0.6) is None


def test_cores_are_counted_exactly_though_nodes_are_alike_by_the_step() -> None:
    """Both have between four and eight cores."""
    state = a_world(WHOLE_GPUS, nodes=[a_node("n0", cpus=5), a_node("n1", cpus=7)])
    assert where(state, cpus=5) == ("n0", [0])
    assert where(state, cpus=6) == ("n1", [0])
    assert where(state, cpus=8) is None


def test_a_node_with_too_little_memory_is_passed_over() -> None:
    state = a_world(WHOLE_GPUS, nodes=[a_node("n0", mem_mib=10), a_node("n1", mem_mib=20)])
    assert where(state, mem_mib=15) == ("n1", [0])
    assert where(state, mem_mib=25) is None


def test_nobody_joins_a_job_that_has_its_node_to_itself() -> None:
    state = a_world(WHOLE_GPUS, nodes=[a_node("n0"), a_node("n1")])
    take(state, "alone", a_job(exclusive=True), a_placement(0))
    assert where(state) == ("n1", [0])


def test_broken_and_paused_gpus_are_left_out() -> None:
    gpus = [a_gpu(0, problem="broken"), a_gpu(1, paused="by hand"), a_gpu(2)]
    assert where(a_world(WHOLE_GPUS, nodes=[a_node(gpus=gpus)])) == ("n0", [2])


# -- what is kept for others ---------------------------------------------------------------------


def keeping(node_id: str, *gpus: int, cpus: int = 0, closed: bool = False) -> Any:
    """These are kept free for somebody else."""

    def view(use: NodeUse) -> NodeUse:
        if use.node.node_id != node_id:
            return use
        seen = use.copy()
        seen.gpu_millis |= dict.fromkeys(gpus, GPU)
        seen.cpu_millis += cpus * CPU
        seen.closed_by += closed
        return seen

    return view


def test_what_is_kept_for_others_is_not_taken() -> None:
    state = a_world(WHOLE_GPUS, nodes=[a_node("n0", gpus=2), a_node("n1", gpus=2)])
    assert where(state, keeping("n0", 0)) == ("n0", [1])
    assert where(state, keeping("n0", 0, 1)) == ("n1", [0])
    assert where(state, keeping("n0", closed=True)) == ("n1", [0])


def test_cores_that_are_kept_for_others_are_not_taken() -> None:
    state = a_world(WHOLE_GPUS, nodes=[a_node("n0", cpus=8), a_node("n1", cpus=8)])
    assert where(state, keeping("n0", cpus=4), cpus=5) == ("n1", [0])


# -- nodes that come and go ----------------------------------------------------------------------


def test_a_node_on_which_no_engine_runs_jobs_any_more_is_forgotten() -> None:
    state = a_world(WHOLE_GPUS, nodes=[a_node("n0", gpus=1), a_node("n1", gpus=2)])
    assert where(state) == ("n0", [0])
    state.apply(NodeSet(0, replace(a_node("n0", gpus=1), engine="")))
    assert where(state) == ("n1", [0])


def test_what_jobs_take_and_give_back_is_seen_at_once() -> None:
    state = a_world(WHOLE_GPUS, nodes=[a_node(gpus=2)])
    assert where(state) == ("n0", [0])
    take_part(state, 0, 1000)
    assert where(state) == ("n0", [1])
    state.apply(NodeSet(0, a_node("a", gpus=1)))
    assert where(state, gpus=2) is None
    assert where(state) == ("a", [0])
