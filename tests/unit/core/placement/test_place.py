import pytest

from tests.builders import (
    a_gpu,
    a_job,
    a_node,
    a_placement,
    a_state,
    a_tenant,
    end,
    start,
    submit,
)
from tgpu.core.capacity.ledger import NodeUse
from tgpu.core.model.heat import Heat
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import Request, class_of
from tgpu.core.model.node import Gpu
from tgpu.core.placement.place import (
    could_ever_hold,
    eligible,
    gpus_touched,
    memory_each,
    place,
    workers_that_fit,
)
from tgpu.core.state.cluster_state import State


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

    def test_as_few_islands_are_joined_as_will_do_and_no_larger_one_is_broken(self) -> None:
        groups = [0, 1, 1, 1, 2, 2]
        state = on_one_node(*(a_gpu(i, nvlink_group=g) for i, g in enumerate(groups)))
        assert shares(state, gpus=4) == {0: 1000, 1: 1000, 2: 1000, 3: 1000}
        assert shares(state, gpus=5) == {index: 1000 for index in range(1, 6)}

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


def gang(state: State, **job) -> list[tuple[str, dict[int, int]]] | None:
    """Where each worker of such a job would go, by rank."""
    placement = place(state.ledger, class_of(a_job("new", **job)))
    if placement is None:
        return None
    return [
        (part.node_id, {share.gpu_index: share.millis for share in part.shares})
        for part in placement.parts()
    ]


def node_of(state: State, **job) -> str | None:
    placement = place(state.ledger, class_of(a_job("new", **job)))
    return None if placement is None else placement.node_id


class TestFragmentation:
    def test_what_is_left_over_is_used_up_before_a_gpu_is_opened(self) -> None:
        state = a_state(nodes=[a_node("n0", 2), a_node("n1", 2)])
        occupy(state, 1, 750, node="n1")
        assert (node_of(state, gpus=0.25), shares(state, gpus=0.25)) == ("n1", {1: 250})

    def test_a_share_that_leaves_something_useful_is_better_than_a_tighter_one(self) -> None:
        # 0.4 leaves 0.1 of the first, which nobody asks for, and 0.5 of the second.
        state = on_one_node(a_gpu(0), a_gpu(1), a_gpu(2))
        occupy(state, 0, 500)
        occupy(state, 1, 100)
        assert shares(state, gpus=0.4) == {1: 400}

    def test_a_whole_node_is_kept_whole_for_those_who_need_it(self) -> None:
        state = a_state(nodes=[a_node("n0", 8), a_node("n1", 8)])
        occupy(state, 0, node="n1")
        assert node_of(state, gpus=4) == "n1"
        assert node_of(state, gpus=8) == "n0"

    def test_half_a_node_is_kept_for_those_who_need_four(self) -> None:
        state = a_state(nodes=[a_node("n0", 8), a_node("n1", 8)])
        for index in range(4):
            occupy(state, index, node="n0")
        occupy(state, 0, node="n1")
        assert node_of(state, gpus=1) == "n1"

    def test_gpus_of_one_numa_node_are_preferred(self) -> None:
        state = on_one_node(*(a_gpu(i, numa_node=i % 2) for i in range(4)))
        assert shares(state, gpus=2) == {0: 1000, 2: 1000}

    def test_one_island_comes_before_a_fuller_node(self) -> None:
        linked = [a_gpu(i, nvlink_group=0) for i in range(4)]
        apart = [a_gpu(i, nvlink_group=i) for i in range(2)]
        state = a_state(nodes=[a_node("n0", apart), a_node("n1", linked)])
        assert node_of(state, gpus=2) == "n1"

    def test_the_cooler_gpu_is_taken_among_equals(self) -> None:
        assert shares(on_one_node(a_gpu(0, heat=Heat.WARM), a_gpu(1))) == {1: 1000}


class TestWhere:
    def test_the_first_listed_type_with_room_is_taken(self) -> None:
        state = on_one_node(a_gpu(0, "A100"), a_gpu(1, "H100"))
        assert shares(state, gpu_types=("H100", "A100")) == {1: 1000}
        occupy(state, 1)
        assert shares(state, gpu_types=("H100", "A100")) == {0: 1000}
        assert shares(state, gpu_types=("T4", "H100")) is None

    def test_a_listed_type_whose_quota_is_used_up_is_passed_over(self) -> None:
        state = a_state(
            nodes=[a_node(gpus=[a_gpu(0, "A100"), a_gpu(1, "H100")])],
            tenants=[a_tenant(by_type={"H100": 0})],
        )
        assert shares(state, gpu_types=("H100", "A100")) == {0: 1000}

    def test_a_named_type_must_also_be_listed(self) -> None:
        assert shares(a_state(), gpu_type="A100", gpu_types=("H100",)) is None

    def test_each_gpu_has_the_memory_asked_for(self) -> None:
        state = on_one_node(a_gpu(0, mem_mib=40_000), a_gpu(1, mem_mib=80_000))
        assert shares(state, gpus=0.5, gpu_mem_each_mib=60_000) == {1: 500}
        assert shares(state, gpu_mem_each_mib=80_001) is None

    def test_excluded_gpus_are_not_taken(self) -> None:
        assert shares(a_state(), gpus=2, not_gpus=(0, 2)) == {1: 1000, 3: 1000}

    def test_only_allowed_nodes_are_taken(self) -> None:
        state = a_state(nodes=[a_node("n0"), a_node("n1"), a_node("n2")])
        assert node_of(state, nodes=("n2", "n1")) == "n1"
        assert node_of(state, not_nodes=("n0", "n1")) == "n2"
        assert node_of(state, nodes=("n9",)) is None

    def test_nodes_carry_every_label_asked_for(self) -> None:
        fast, near = ("disk", "fast"), ("zone", "a")
        state = a_state(nodes=[a_node("n0", labels=(fast,)), a_node("n1", labels=(near, fast))])
        assert node_of(state, labels=(fast,)) == "n0"
        assert node_of(state, labels=(fast, near)) == "n1"
        assert node_of(state, labels=(("zone", "b"),)) is None

    def test_who_wants_a_node_alone_gets_one_that_nobody_is_on(self) -> None:
        state = a_state(nodes=[a_node("n0", 4), a_node("n1", 4)])
        occupy(state, 0, 100, node="n0")
        assert node_of(state, exclusive=True) == "n1"
        occupy(state, 0, 100, node="n1")
        assert node_of(state, exclusive=True) is None

    def test_nobody_joins_who_is_alone_until_it_has_ended(self) -> None:
        state = a_state(a_job("alone", exclusive=True), nodes=[a_node("n0", 4)])
        start(state, "alone", 0)
        assert node_of(state, gpus=0.1) is None
        end(state, "alone")
        assert node_of(state, gpus=0.1) == "n0"

    def test_same_island_waits_rather_than_cross(self) -> None:
        state = on_one_node(*(a_gpu(i, nvlink_group=i // 2) for i in range(4)))
        occupy(state, 0)
        occupy(state, 2)
        assert shares(state, gpus=2) == {1: 1000, 3: 1000}
        assert shares(state, gpus=2, same_island=True) is None
        assert shares(state, gpus=1, same_island=True) == {1: 1000}

    def test_gpus_without_links_are_no_island(self) -> None:
        assert shares(a_state(), gpus=2, same_island=True) is None

    def test_spread_takes_the_emptiest_node_and_gpu(self) -> None:
        state = a_state(nodes=[a_node("n0", 2), a_node("n1", 2)])
        occupy(state, 0, 500, node="n0")
        assert node_of(state, gpus=0.5, spread=True) == "n1"
        assert shares(state, gpus=0.5, spread=True, nodes=("n0",)) == {1: 500}

    def test_a_mig_slice_serves_one_gpu_at_most(self) -> None:
        state = on_one_node(*(a_gpu(i, "1g.10gb", slice_of=0) for i in range(3)))
        assert shares(state, gpu_type="1g.10gb") == {0: 1000}
        assert shares(state, gpus=0.5, gpu_type="1g.10gb") == {0: 500}
        assert shares(state, gpus=2, gpu_type="1g.10gb") is None
        assert gang(state, gpus=2, workers=2, gpu_type="1g.10gb") is not None


class TestGangs:
    def test_workers_share_a_node_where_they_can(self) -> None:
        state = a_state(nodes=[a_node("n0", 2), a_node("n1", 4)])
        assert gang(state, gpus=4, workers=2) == [
            ("n1", {0: 1000, 1: 1000}),
            ("n1", {2: 1000, 3: 1000}),
        ]

    def test_each_worker_is_in_one_island_where_it_can_be(self) -> None:
        gpus = [a_gpu(i, nvlink_group=i % 2) for i in range(4)]
        assert gang(on_one_node(*gpus), gpus=4, workers=2) == [
            ("n0", {0: 1000, 2: 1000}),
            ("n0", {1: 1000, 3: 1000}),
        ]

    def test_all_or_nothing(self) -> None:
        state = a_state(nodes=[a_node("n0", 3), a_node("n1", 3)])
        assert gang(state, gpus=6, workers=3) is None
        assert gang(state, gpus=4, workers=2) == [
            ("n0", {0: 1000, 1: 1000}),
            ("n1", {0: 1000, 1: 1000}),
        ]

    def test_those_left_over_go_where_they_fit_best(self) -> None:
        state = a_state(nodes=[a_node("n0", 8), a_node("n1", 8), a_node("n2", 2)])
        found = gang(state, gpus=10, workers=10)
        assert found is not None
        assert [node_id for node_id, _ in found] == ["n0"] * 8 + ["n2"] * 2

    def test_all_workers_have_one_type(self) -> None:
        state = a_state(nodes=[a_node("n0", 1, "A100"), a_node("n1", 1, "H100")])
        assert gang(state, gpus=2, workers=2) is None

    def test_cores_are_counted_for_each_worker(self) -> None:
        state = a_state(nodes=[a_node("n0", 4, cpus=4), a_node("n1", 4, cpus=4)])
        found = gang(state, gpus=4, workers=4, cpus=8)
        assert found is not None
        assert [node_id for node_id, _ in found] == ["n0", "n0", "n1", "n1"]
        assert gang(state, gpus=8, workers=8, cpus=16) is None

    def test_a_gang_alone_shares_a_node_only_with_itself(self) -> None:
        state = a_state(nodes=[a_node("n0", 4), a_node("n1", 2)])
        occupy(state, 0, 100, node="n0")
        assert gang(state, gpus=2, workers=2, exclusive=True) == [
            ("n1", {0: 1000}),
            ("n1", {1: 1000}),
        ]

    def test_spread_gives_each_worker_the_emptiest_node(self) -> None:
        state = a_state(nodes=[a_node("n0", 2), a_node("n1", 4), a_node("n2", 2)])
        found = gang(state, gpus=4, workers=4, spread=True)
        assert found is not None
        assert [node_id for node_id, _ in found] == ["n0", "n1", "n1", "n1"]

    def test_halves_of_a_gang_share_gpus(self) -> None:
        found = gang(a_state(nodes=[a_node("n0", 3)]), gpus=3, workers=2)
        assert found == [("n0", {0: 1000, 1: 500}), ("n0", {1: 500, 2: 1000})]


class TestViews:
    def test_a_view_is_asked_only_about_nodes_that_are_tried(self) -> None:
        state, asked = a_state(nodes=[a_node("n0"), a_node("n1")]), []

        def view(use: NodeUse) -> NodeUse:
            asked.append(use.node.node_id)
            return use

        assert place(state.ledger, class_of(a_job()), view) is not None
        assert asked == ["n0"]

    def test_what_is_held_for_others_is_not_taken(self) -> None:
        state = a_state(nodes=[a_node("n0", 2), a_node("n1", 2)])

        def view(use: NodeUse) -> NodeUse:
            seen = use.copy()
            seen.gpu_millis[0] = 1000
            return seen

        placement = place(state.ledger, class_of(a_job()), view)
        assert placement == a_placement(1)
        assert place(state.ledger, class_of(a_job(gpus=2)), view) is None

    def test_among_leaves_out_all_other_nodes(self) -> None:
        state = a_state(nodes=[a_node("n0", 2), a_node("n1", 2)])
        one = class_of(a_job())
        assert place(state.ledger, one, among=[NodeId("n1")]) == a_placement(0, node="n1")
        assert place(state.ledger, class_of(a_job(gpus=3, workers=3)), among=[NodeId("n1")]) is None
        assert place(state.ledger, one, among=[]) is None


class TestCounts:
    def test_workers_that_fit_minds_cores_and_conditions(self) -> None:
        use = NodeUse(a_node("n0", 4, cpus=3))
        assert workers_that_fit(use, class_of(a_job()), "A100") == 4
        assert workers_that_fit(use, class_of(a_job(cpus=1)), "A100") == 3
        assert workers_that_fit(use, class_of(a_job(gpus=1.5)), "A100") == 2
        assert workers_that_fit(use, class_of(a_job(not_nodes=("n0",))), "A100") == 0
        assert workers_that_fit(use, class_of(a_job()), "H100") == 0

    def test_a_gang_could_be_held_by_all_nodes_together(self) -> None:
        nodes = [a_node("n0", 2), a_node("n1", 2)]
        assert could_ever_hold(nodes, class_of(a_job(gpus=4, workers=2)))
        assert not could_ever_hold(nodes, class_of(a_job(gpus=6, workers=3)))
        assert not could_ever_hold(nodes, class_of(a_job(gpus=4)))

    def test_a_node_that_the_job_rules_out_has_nothing_for_it(self) -> None:
        assert eligible(a_node(), class_of(a_job(labels=(("zone", "a"),)))) == {}
