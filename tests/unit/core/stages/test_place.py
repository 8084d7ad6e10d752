import pytest

from gpu_scheduler.core.job import Request, class_of
from gpu_scheduler.core.node import Gpu
from gpu_scheduler.core.stages.place import gpus_touched, memory_each, place
from gpu_scheduler.core.state import State
from tests.builders import a_gpu, a_job, a_node, a_placement, a_state, a_tenant, start, submit


def shares(state: State, **job) -> dict[int, int] | None:
    """Where such a job would go: thousandths by GPU index."""
    placement = place(state.ledger, class_of(a_job("new", **job)))
    if placement is None:
        return None
    return {share.gpu_index: share.millis for share in placement.shares}


def on_one_node(*gpus: Gpu, **node) -> State:
    return a_state(nodes=[a_node(gpus=gpus, **node)])


def occupy(state: State, gpu: int, millis: int = 1000, node: str = "n0") -> None:
    job_id = f"on-{node}-{gpu}-{millis}-{state.live_count()}"
    submit(state, a_job(job_id, gpus=millis / 1000))
    start(state, job_id, placement=a_placement(gpu, node=node, millis=millis))


class TestWhole:
    def test_all_or_nothing(self) -> None:
        state = a_state(nodes=[a_node("n0", 2), a_node("n1", 2)])
        assert shares(state, gpus=3) is None
        assert shares(state, gpus=2) == {0: 1000, 1: 1000}

    def test_lowest_indexes_first_where_nothing_else_counts(self) -> None:
        assert shares(a_state(), gpus=3) == {0: 1000, 1: 1000, 2: 1000}

    def test_a_shared_gpu_is_not_whole(self) -> None:
        state = on_one_node(a_gpu(0), a_gpu(1))
        occupy(state, 0, 100)
        assert shares(state, gpus=1) == {1: 1000}
        assert shares(state, gpus=2) is None


class TestFractions:
    def test_a_part_goes_onto_the_fullest_gpu_that_holds_it(self) -> None:
        state = on_one_node(a_gpu(0), a_gpu(1), a_gpu(2))
        occupy(state, 1, 500)
        occupy(state, 2, 700)
        assert shares(state, gpus=0.5) == {1: 500}
        assert shares(state, gpus=0.3) == {2: 300}
        assert shares(state, gpus=0.6) == {0: 600}

    def test_one_and_a_half_is_a_whole_and_half_of_another(self) -> None:
        state = on_one_node(a_gpu(0), a_gpu(1), a_gpu(2))
        occupy(state, 0, 500)
        assert shares(state, gpus=1.5) == {0: 500, 1: 1000}

    def test_the_half_does_not_lie_on_the_whole(self) -> None:
        assert shares(on_one_node(a_gpu(0)), gpus=1.5) is None

    def test_two_halves_are_not_a_whole(self) -> None:
        state = on_one_node(a_gpu(0), a_gpu(1))
        occupy(state, 0, 500)
        occupy(state, 1, 500)
        assert shares(state, gpus=1) is None

    @pytest.mark.parametrize(
        ("millis", "count"), [(100, 1), (1000, 1), (1010, 2), (1500, 2), (2000, 2)]
    )
    def test_gpus_touched_rounds_up(self, millis: int, count: int) -> None:
        assert gpus_touched(Request(millis)) == count


class TestIslands:
    def test_the_smallest_island_that_has_enough_is_taken(self) -> None:
        groups = [0, 0, 0, 0, 1, 1]
        state = on_one_node(*(a_gpu(i, nvlink_group=g) for i, g in enumerate(groups)))
        assert shares(state, gpus=2) == {4: 1000, 5: 1000}
        assert shares(state, gpus=3) == {0: 1000, 1: 1000, 2: 1000}

    def test_a_gpu_without_links_is_taken_before_an_island_is_broken(self) -> None:
        state = on_one_node(
            a_gpu(0, nvlink_group=0), a_gpu(1, nvlink_group=0), a_gpu(2, nvlink_group=None)
        )
        assert shares(state, gpus=1) == {2: 1000}

    def test_islands_are_joined_from_the_largest_down(self) -> None:
        groups = [0, 1, 1, 1, 2, 2]
        state = on_one_node(*(a_gpu(i, nvlink_group=g) for i, g in enumerate(groups)))
        assert shares(state, gpus=4) == {1: 1000, 2: 1000, 3: 1000, 4: 1000}

    def test_an_island_counts_only_its_empty_gpus(self) -> None:
        state = on_one_node(*(a_gpu(i, nvlink_group=i // 2) for i in range(4)))
        occupy(state, 0)
        assert shares(state, gpus=2) == {2: 1000, 3: 1000}
        assert shares(state, gpus=1) == {1: 1000}


class TestConstraints:
    def test_the_type_is_as_asked(self) -> None:
        state = on_one_node(a_gpu(0, "A100"), a_gpu(1, "H100"))
        assert shares(state, gpu_type="H100") == {1: 1000}
        assert shares(state, gpu_type="T4") is None

    def test_an_open_request_takes_one_type_only(self) -> None:
        state = on_one_node(a_gpu(0, "A100"), a_gpu(1, "H100"), a_gpu(2, "H100"))
        assert shares(state, gpus=2) == {1: 1000, 2: 1000}
        assert shares(state, gpus=3) is None

    def test_memory_is_asked_over_all_gpus_together(self) -> None:
        state = on_one_node(a_gpu(0, mem_mib=40_000), a_gpu(1, mem_mib=80_000))
        assert shares(state, gpus=1, gpu_mem_mib=60_000) == {1: 1000}
        assert shares(state, gpus=2, gpu_mem_mib=80_000) == {0: 1000, 1: 1000}
        assert shares(state, gpus=2, gpu_mem_mib=80_001) is None

    def test_half_a_gpu_has_half_its_memory(self) -> None:
        state = on_one_node(a_gpu(0, mem_mib=40_000))
        assert shares(state, gpus=0.5, gpu_mem_mib=20_000) == {0: 500}
        assert shares(state, gpus=0.5, gpu_mem_mib=20_001) is None
        assert memory_each(Request(500, gpu_mem_mib=20_001)) == 40_002

    def test_only_allowed_gpus_are_taken(self) -> None:
        assert shares(a_state(), gpus=2, allowed_gpus=(5, 3)) == {3: 1000, 5: 1000}
        assert shares(a_state(), gpus=3, allowed_gpus=(5, 3)) is None

    @pytest.mark.parametrize("fault", [{"problem": "lost"}, {"paused": "for repair"}])
    def test_a_gpu_that_is_not_well_is_passed_over(self, fault) -> None:
        assert shares(on_one_node(a_gpu(0, **fault), a_gpu(1))) == {1: 1000}

    def test_cores_and_memory_of_the_node_count(self) -> None:
        state = a_state(nodes=[a_node(gpus=2, cpus=4, mem_mib=100)])
        assert shares(state, cpus=4, mem_mib=100) is not None
        assert shares(state, cpus=5) is None
        assert shares(state, mem_mib=101) is None

    def test_who_asks_for_no_cores_starts_on_a_node_that_lost_some(self) -> None:
        state = a_state(a_job("a", cpus=4), nodes=[a_node(gpus=2, cpus=4)])
        start(state, "a", 0)
        state.ledger.set_node(a_node(gpus=2, cpus=2))
        assert shares(state) == {1: 1000}
        assert shares(state, cpus=1) is None


class TestNodes:
    def test_the_fuller_node_is_filled_first(self) -> None:
        state = a_state(nodes=[a_node("n0", 4), a_node("n1", 4)])
        occupy(state, 0, node="n1")
        placement = place(state.ledger, class_of(a_job()))
        assert placement is not None
        assert placement.node_id == "n1"

    def test_of_equal_nodes_the_first_by_name(self) -> None:
        state = a_state(nodes=[a_node("n1", 4), a_node("n0", 4)])
        placement = place(state.ledger, class_of(a_job()))
        assert placement is not None
        assert placement.node_id == "n0"

    def test_no_node_no_place(self) -> None:
        assert shares(a_state(nodes=[])) is None


def test_a_quota_by_type_steers_an_open_request_to_another_type() -> None:
    state = a_state(
        nodes=[a_node(gpus=[a_gpu(0, "A100"), a_gpu(1, "H100"), a_gpu(2, "H100")])],
        tenants=[a_tenant(by_type={"A100": 0})],
    )
    assert shares(state) == {1: 1000}
