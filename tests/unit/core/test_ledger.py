from gpu_scheduler.core.ids import NodeId, TenantId
from gpu_scheduler.core.ledger import Draft
from tests.builders import a_gpu, a_job, a_node, a_placement, a_state, start

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
    assert ledger.arrays == {"capped": 1}


def test_a_draft_sees_the_books_below_and_its_own_changes() -> None:
    state = a_state(a_job("a", array="x", array_max=2))
    start(state, "a", 0)
    draft = Draft(state.ledger)
    draft.take(a_job("b", array="x", array_max=2), a_placement(1))
    assert draft.node(N0).gpu_millis == {0: 1000, 1: 1000}
    assert (draft.tenant(US).jobs, draft.array_running("x")) == (2, 2)
    assert (state.ledger.tenant(US).jobs, state.ledger.array_running("x")) == (1, 1)


def test_what_a_draft_gives_back_counts_as_free_in_it_alone() -> None:
    state = a_state(a_job("a", array="x", array_max=1))
    start(state, "a", 0)
    draft = Draft(state.ledger)
    draft.give(a_job("a", array="x", array_max=1), a_placement(0))
    assert draft.array_running("x") == 0
    assert draft.node(N0).free_millis(a_gpu(0)) == 1000
    assert state.ledger.array_running("x") == 1


def test_a_draft_of_a_draft_leaves_the_first_alone() -> None:
    first = Draft(a_state().ledger)
    first.take(a_job("a"), a_placement(0))
    Draft(first).take(a_job("b"), a_placement(1))
    assert first.node(N0).gpu_millis == {0: 1000}


def test_a_node_keeps_its_gpus_by_index() -> None:
    assert [gpu.index for gpu in a_node(gpus=[a_gpu(2), a_gpu(0), a_gpu(1)]).gpus] == [0, 1, 2]
