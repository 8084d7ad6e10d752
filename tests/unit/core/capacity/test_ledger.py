import contextlib

from tests.builders import a_gpu, a_job, a_node, a_placement, a_state, a_tenant, start
from tgpu.core.capacity.ledger import Trial
from tgpu.core.model.ids import NodeId, TenantId
from tgpu.core.model.node import Part, Placement, Share

N0, US = NodeId("n0"), TenantId("default")


def test_shares_of_one_gpu_add_up() -> None:
    ledger = a_state().ledger
    ledger.take(a_job("a", gpus=0.5), a_placement(0, millis=500))
    ledger.take(a_job("b", gpus=0.3), a_placement(0, millis=300))
    assert ledger.node(N0).free_millis(a_gpu(0)) == 200


def test_a_gpu_that_is_lost_or_paused_has_nothing_free() -> None:
    use = a_state().ledger.node(N0)
    assert use.free_millis(a_gpu(0)) == 1000
    assert use.free_millis(a_gpu(0, problem="lost")) == 0
    assert use.free_millis(a_gpu(0, paused="for repair")) == 0


def test_a_tenant_is_charged_for_all_it_asked_for() -> None:
    ledger = a_state().ledger
    job = a_job(gpus=2, gpu_mem_mib=10, cpus=3, mem_mib=5)
    ledger.take(job, a_placement(0, 1))
    use = ledger.tenant(US)
    assert (use.gpu_millis, use.gpu_millis_by_type) == (2000, {"A100": 2000})
    assert (use.gpu_mem_mib, use.cpu_millis, use.mem_mib, use.jobs) == (10, 3000, 5, 1)


def test_only_arrays_with_a_cap_are_counted() -> None:
    ledger = a_state().ledger
    ledger.take(a_job("a", array="capped", array_max=2), a_placement(0))
    ledger.take(a_job("b", array="open"), a_placement(1))
    assert ledger.arrays == {(US, "capped"): 1}


def test_an_array_of_another_tenant_with_the_same_name_does_not_count() -> None:
    ledger = a_state(tenants=[a_tenant(US), a_tenant("them")]).ledger
    ledger.take(a_job("a", tenant="them", array="x", array_max=1), a_placement(0))
    assert ledger.array_running(US, "x") == 0
    assert ledger.array_running(TenantId("them"), "x") == 1


def test_a_trial_shows_its_changes_while_it_lasts_and_no_longer() -> None:
    state = a_state(a_job("a", array="x", array_max=2))
    start(state, "a", 0)
    ledger = state.ledger
    with Trial(ledger) as trial:
        trial.take(a_job("b", array="x", array_max=2), a_placement(1), 5000)
        assert ledger.node(N0).gpu_millis == {0: 1000, 1: 1000}
        assert (ledger.tenant(US).jobs, ledger.array_running(US, "x")) == (2, 2)
    assert ledger.node(N0).gpu_millis == {0: 1000}
    assert (ledger.tenant(US).jobs, ledger.array_running(US, "x")) == (1, 1)
    assert sorted(ledger.node(N0).holdings) == ["a"]


def test_what_a_trial_gives_back_is_taken_again_with_its_end() -> None:
    job = a_job("a", array="x", array_max=1, time_limit_ms=7000)
    state = a_state(job)
    start(state, "a", 0)
    before = state.ledger.holding(job, a_placement(0))
    assert before.until == 7000
    with Trial(state.ledger) as trial:
        trial.give(job, a_placement(0))
        assert state.ledger.array_running(US, "x") == 0
        assert state.ledger.node(N0).free_millis(a_gpu(0)) == 1000
    assert state.ledger.holding(job, a_placement(0)) == before


def test_a_trial_goes_back_to_a_mark() -> None:
    ledger = a_state().ledger
    with Trial(ledger) as trial:
        trial.take(a_job("a"), a_placement(0))
        mark = trial.mark()
        trial.take(a_job("b"), a_placement(1))
        trial.undo(mark)
        assert ledger.node(N0).gpu_millis == {0: 1000}


def test_a_trial_that_fails_leaves_the_books_as_they_were() -> None:
    ledger = a_state().ledger
    with contextlib.suppress(KeyError), Trial(ledger) as trial:
        trial.take(a_job("a"), a_placement(0))
        trial.give(a_job("b"), a_placement(1))  # has nothing to give
    assert ledger.node(N0).gpu_millis == {}


def test_the_workers_of_a_gang_are_counted_where_they_are() -> None:
    ledger = a_state(nodes=[a_node("n0"), a_node("n1")]).ledger
    gang = a_job("a", gpus=3, cpus=6, workers=3)
    here = Part(N0, (Share(0, 1000),)), Part(N0, (Share(1, 1000),))
    placement = Placement(NodeId("n1"), "A100", (Share(4, 1000),), here)
    ledger.take(gang, placement)
    assert ledger.node(N0).gpu_millis == {0: 1000, 1: 1000}
    assert ledger.node(NodeId("n1")).gpu_millis == {4: 1000}
    assert (ledger.node(N0).cpu_millis, ledger.node(NodeId("n1")).cpu_millis) == (4000, 2000)
    assert ledger.tenant(US).gpu_millis == 3000
    ledger.give(gang, placement)
    assert (ledger.node(N0).gpu_millis, ledger.node(N0).holdings) == ({}, {})


def test_a_node_keeps_its_gpus_by_index() -> None:
    assert [gpu.index for gpu in a_node(gpus=[a_gpu(2), a_gpu(0), a_gpu(1)]).gpus] == [0, 1, 2]
