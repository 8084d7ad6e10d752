import pytest

from tests.builders import a_job, a_queue, a_state, a_tenant, end, start
from tgpu.core.admission.admit import refuse
from tgpu.core.model.job import class_of
from tgpu.core.model.reasons import ReasonCode


def test_without_limits_everything_is_admitted() -> None:
    assert refuse(a_state().ledger, class_of(a_job(gpus=100, cpus=999))) is None


@pytest.mark.parametrize(
    ("limits", "job", "resource", "numbers"),
    [
        ({"gpus": 2}, {"gpus": 1.5}, "gpus", (1500, 2000, 1000)),
        ({"by_type": {"A100": 1}}, {"gpu_type": "A100"}, "gpus:A100", (1000, 1000, 1000)),
        ({"max_gpu_mem_mib": 50}, {"gpu_mem_mib": 41}, "gpu_memory_mib", (41, 50, 10)),
        ({"max_cpu_millis": 3000}, {"cpus": 2}, "cpu_millis", (2000, 3000, 2000)),
        ({"max_mem_mib": 9}, {"mem_mib": 6}, "memory_mib", (6, 9, 4)),
        ({"max_running_jobs": 1}, {}, "jobs", (1, 1, 1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_limit_is_named_with_its_numbers(limits, job, resource, numbers) -> None:
    state = a_state(a_job("a", gpu_mem_mib=10, cpus=2, mem_mib=4), tenants=[a_tenant(**limits)])
    start(state, "a", 0)
    refused = refuse(state.ledger, class_of(a_job("b", **job)))
    assert refused is not None
    assert refused.code is ReasonCode.TENANT_QUOTA
    named = (refused.fact("requested"), refused.fact("limit"), refused.fact("current"))
    assert (refused.fact("tenant"), refused.fact("resource"), named) == (
        "default",
        resource,
        numbers,
    )


def test_a_job_that_just_fits_its_quota_is_admitted() -> None:
    state = a_state(a_job("a"), tenants=[a_tenant(gpus=2, by_type={"A100": 2})])
    start(state, "a", 0)
    assert refuse(state.ledger, class_of(a_job("b", gpu_type="A100"))) is None


def test_a_quota_by_type_is_not_overstepped_by_the_last_job() -> None:
    state = a_state(a_job("a"), tenants=[a_tenant(by_type={"A100": 2})])
    start(state, "a", 0)
    assert refuse(state.ledger, class_of(a_job("b", gpus=2, gpu_type="A100"))) is not None


def test_a_quota_by_type_leaves_other_types_alone() -> None:
    state = a_state(tenants=[a_tenant(by_type={"A100": 0})])
    assert refuse(state.ledger, class_of(a_job(gpu_type="H100"))) is None


def test_quotas_are_per_tenant() -> None:
    state = a_state(a_job("a", tenant="x"), tenants=[a_tenant("x", gpus=1), a_tenant("y", gpus=1)])
    start(state, "a", 0)
    assert refuse(state.ledger, class_of(a_job("b", tenant="x"))) is not None
    assert refuse(state.ledger, class_of(a_job("c", tenant="y"))) is None


def test_who_asks_for_none_of_it_is_not_stopped_by_a_limit_lowered_below_its_use() -> None:
    state = a_state(a_job("a", cpus=8))
    start(state, "a", 0)
    state.ledger.set_tenant(a_tenant(max_cpu_millis=1000))
    assert refuse(state.ledger, class_of(a_job("b"))) is None
    assert refuse(state.ledger, class_of(a_job("c", cpus=1))) is not None


def test_an_array_at_its_cap_is_refused_and_others_are_not() -> None:
    state = a_state(a_job("a", array="x", array_max=1))
    start(state, "a", 0)
    refused = refuse(state.ledger, class_of(a_job("b", array="x", array_max=1)))
    assert refused is not None
    assert (refused.code, refused.facts) == (ReasonCode.ARRAY_CAP, (("running", 1), ("limit", 1)))
    assert refuse(state.ledger, class_of(a_job("c", array="y", array_max=1))) is None


def test_a_service_at_its_cap_starts_nothing_of_anybody_until_one_ends() -> None:
    state = a_state(a_job("a", tenant="x"), tenants=[a_tenant("x"), a_tenant("y")])
    state.ledger.most_jobs = 1
    assert refuse(state.ledger, class_of(a_job("b", tenant="y"))) is None
    start(state, "a", 0)
    refused = refuse(state.ledger, class_of(a_job("b", tenant="y")))
    assert refused is not None
    assert (refused.code, refused.facts) == (ReasonCode.SERVICE_CAP, (("running", 1), ("limit", 1)))
    end(state, "a")
    assert refuse(state.ledger, class_of(a_job("b", tenant="y"))) is None


def test_limits_that_are_not_enforced_do_not_limit() -> None:
    tenant = a_tenant(gpus=0, by_type={"A100": 0}, max_running_jobs=0, enforce_quota=False)
    state = a_state(tenants=[tenant])
    assert refuse(state.ledger, class_of(a_job(gpu_type="A100"))) is None


def test_an_inactive_tenant_starts_nothing() -> None:
    state = a_state(tenants=[a_tenant(active=False)])
    refused = refuse(state.ledger, class_of(a_job()))
    assert refused is not None
    assert (refused.code, refused.facts) == (
        ReasonCode.TENANT_INACTIVE,
        (("tenant", "default"),),
    )


def test_a_disabled_queue_starts_nothing_and_others_do() -> None:
    state = a_state(queues=[a_queue("night", enabled=False)])
    refused = refuse(state.ledger, class_of(a_job(queue="night")))
    assert refused is not None
    assert refused.code is ReasonCode.QUEUE_DISABLED
    assert refuse(state.ledger, class_of(a_job())) is None


def test_a_queue_at_its_cap_says_how_many_run() -> None:
    state = a_state(a_job("a", queue="night"), queues=[a_queue("night", max_running_jobs=1)])
    start(state, "a", 0)
    refused = refuse(state.ledger, class_of(a_job("b", queue="night")))
    assert refused is not None
    assert refused.code is ReasonCode.QUEUE_CAP
    assert (refused.fact("running"), refused.fact("limit")) == (1, 1)


def test_a_queue_of_the_same_name_of_another_tenant_has_rules_of_its_own() -> None:
    state = a_state(
        tenants=[a_tenant("x"), a_tenant("y")], queues=[a_queue("night", "x", enabled=False)]
    )
    assert refuse(state.ledger, class_of(a_job(tenant="y", queue="night"))) is None
