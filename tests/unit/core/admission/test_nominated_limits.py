"""Limits count whoever is nominated, and those who leave until they are gone."""

from tests.builders import a_job, a_node, a_placement, a_queue, a_state, a_tenant, start
from tgpu.core.admission.nominated_limits import NominatedLimits
from tgpu.core.model.job import class_of
from tgpu.core.model.reasons import Reason
from tgpu.core.state.cluster_state import State

LEAVING, NOMINATED, NEW = a_job("leaving"), a_job("nominated"), a_job("new")


def limits_of(state: State, *, is_anybody_leaving: bool = False) -> NominatedLimits:
    """`nominated` is; and perhaps `leaving`, on GPU 0, is being preempted."""
    limits = NominatedLimits(state.ledger)
    limits.add(NOMINATED, a_placement(1))
    if is_anybody_leaving:
        start(state, "leaving", 0)
        limits.leave(LEAVING, a_placement(0))
    return limits


def a_world(**limits: object) -> State:
    return a_state(LEAVING, tenants=[a_tenant(**limits)])  # type: ignore[arg-type]  # as given


def code(refused: Reason | None) -> str | None:
    return None if refused is None else refused.code.value


def test_what_is_nominated_counts_before_it_has_gpus() -> None:
    assert code(limits_of(a_world(gpus=1)).refuse(class_of(NEW))) == "tenant_quota"
    assert limits_of(a_world(gpus=2)).refuse(class_of(NEW)) is None


def test_who_leaves_counts_until_it_is_gone() -> None:
    limits = limits_of(a_world(gpus=1), is_anybody_leaving=True)
    limits.drop(NOMINATED.job_id)
    assert code(limits.refuse(class_of(NOMINATED))) == "tenant_quota"
    assert limits.refuse_by_then(class_of(NOMINATED)) is None


def test_who_is_nominated_has_what_others_leave() -> None:
    """Of two GPUs one is left, for one more job."""
    limits = limits_of(a_world(gpus=2), is_anybody_leaving=True)
    assert limits.refuse(class_of(NEW)) is None
    assert code(limits.refuse(class_of(a_job("new", gpus=2)))) == "tenant_quota"


def test_a_cohort_counts_the_nominated_of_all_its_members() -> None:
    tenants = [a_tenant("default", gpus=1, cohort="us"), a_tenant("red", gpus=1, cohort="us")]
    limits = limits_of(a_state(tenants=tenants))
    assert limits.refuse(class_of(a_job("new", "red"))) is None
    assert code(limits.refuse(class_of(a_job("new", "red", gpus=2)))) == "cohort_quota"


def test_other_tenants_are_not_counted() -> None:
    limits = limits_of(a_state(tenants=[a_tenant(), a_tenant("red", gpus=1)]))
    assert limits.refuse(class_of(a_job("new", "red"))) is None


def test_caps_on_queues_and_on_all_jobs_count_them_too() -> None:
    state = a_state(queues=[a_queue("default", max_running_jobs=1)])
    assert code(limits_of(state).refuse(class_of(NEW))) == "queue_cap"
    state = a_state(tenants=[a_tenant(), a_tenant("red")])
    state.ledger.most_jobs = 1
    assert code(limits_of(state).refuse(class_of(a_job("new", "red")))) == "service_cap"


def test_the_ledger_is_left_as_it_was() -> None:
    state = a_state(LEAVING, nodes=[a_node()], tenants=[a_tenant(gpus=2, cohort="us")])
    limits = limits_of(state, is_anybody_leaving=True)
    with limits.counted():
        assert state.ledger.tenant(NEW.tenant_id).gpu_millis == 1000
    limits.refuse(class_of(NEW))
    assert state.ledger.tenant(NEW.tenant_id).jobs == 1
    assert state.ledger.pools["us"].taken == 1000
