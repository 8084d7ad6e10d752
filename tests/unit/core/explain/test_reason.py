"""Every reason a job can wait for, and that it is gone when its cause is."""

from collections.abc import Callable

import pytest

from tests.builders import (
    a_booking,
    a_gpu,
    a_job,
    a_node,
    a_queue,
    a_state,
    a_tenant,
    end,
    entry_of,
    explain,
    hold,
    requeue,
    start,
    started,
    submit,
)
from tgpu.core.cycle import schedule
from tgpu.core.explain.reason import never_reason
from tgpu.core.model.events import BookingSet, NodeSet, TenantSet, TimePassed
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import Job, class_of
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.node import Node
from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.model.tenant import Budget, OverBudget, UserLimits
from tgpu.core.policies import order_policy
from tgpu.core.state.cluster_state import State


def why(state: State, job_id: str = "j") -> Reason:
    return explain(state, entry_of(state, job_id))


def facts(found: Reason) -> dict[str, int | str]:
    return dict(found.facts)


def starts_next(state: State, job_id: str = "j") -> bool:
    return job_id in started(schedule(state, state.now, order_policy("priority", 60)))


def test_nothing_in_the_way_means_the_next_cycle() -> None:
    state = a_state(a_job("j"))
    assert why(state) == Reason(ReasonCode.NEXT_CYCLE)
    assert starts_next(state)


def test_held() -> None:
    state = a_state()
    submit(state, a_job("j"), held=["j"])
    assert why(state) == Reason(ReasonCode.HELD)
    hold(state, "j", held=False)
    assert starts_next(state)


def test_dependency_names_the_jobs_that_are_not_over_once_each() -> None:
    state = a_state(a_job("a"), a_job("b"), a_job("j", after=("a:any", "b:any", "b", "old:any")))
    assert why(state) == Reason(ReasonCode.DEPENDENCY, (("jobs", "a, b"),))
    start(state, "b", 0)
    end(state, "b")
    assert facts(why(state)) == {"jobs": "a"}
    end(state, "a", JobState.CANCELLED)
    assert starts_next(state)


def test_dependency_failed_gives_the_cause() -> None:
    state = a_state(a_job("a"), a_job("j", after=("a",)))
    end(state, "a", JobState.CANCELLED)
    expected = (("cause", "job a it depends on cancelled"),)
    assert why(state) == Reason(ReasonCode.DEPENDENCY_FAILED, expected)


def test_backing_off_says_until_when_and_why() -> None:
    state = a_state(a_job("j"))
    start(state, "j", 0)
    requeue(state, "j", eligible_at=500)
    assert why(state).code is ReasonCode.BACKING_OFF
    assert facts(why(state)) == {"until": 500, "cause": "it failed"}
    state.apply(TimePassed(500))
    assert starts_next(state)


def test_array_cap() -> None:
    state = a_state(a_job("a", array="x", array_max=1), a_job("j", array="x", array_max=1))
    start(state, "a", 0)
    assert why(state) == Reason(ReasonCode.ARRAY_CAP, (("running", 1), ("limit", 1)))
    end(state, "a")
    assert starts_next(state)


def test_tenant_quota() -> None:
    state = a_state(a_job("a"), a_job("j", gpus=2), tenants=[a_tenant(gpus=2)])
    start(state, "a", 0)
    assert why(state).code is ReasonCode.TENANT_QUOTA
    assert facts(why(state)) == {
        "tenant": "default",
        "resource": "gpus",
        "requested": 2000,
        "limit": 2000,
        "current": 1000,
    }
    state.apply(TenantSet(0, a_tenant(gpus=3)))
    assert starts_next(state)


def test_an_open_request_whose_every_type_is_over_quota_waits_for_the_quota() -> None:
    state = a_state(
        a_job("j"),
        nodes=[a_node(gpus=[a_gpu(0, "A100"), a_gpu(1, "H100"), a_gpu(2, "H100")])],
        tenants=[a_tenant(by_type={"A100": 0, "H100": 0})],
    )
    assert why(state).code is ReasonCode.TENANT_QUOTA
    assert why(state).fact("resource") == "gpus:H100"
    state.apply(TenantSet(0, a_tenant(by_type={"A100": 0, "H100": 1})))
    assert starts_next(state)


def test_an_open_request_waits_for_the_busy_type_it_may_have() -> None:
    state = a_state(
        a_job("a", gpu_type="H100"),
        a_job("j"),
        nodes=[a_node(gpus=[a_gpu(0, "A100"), a_gpu(1, "A100"), a_gpu(2, "H100")])],
        tenants=[a_tenant(by_type={"A100": 0})],
    )
    start(state, "a", 2, gpu_type="H100")
    assert why(state).code is ReasonCode.GPUS_BUSY
    assert (why(state).fact("total"), why(state).fact("free")) == (1000, 0)
    end(state, "a")
    assert starts_next(state)


def test_no_node() -> None:
    state = a_state(a_job("j"), nodes=[])
    assert why(state) == Reason(ReasonCode.NO_NODE)
    state.apply(NodeSet(0, a_node()))
    assert starts_next(state)


def test_no_such_gpu_lists_the_types_there_are() -> None:
    gpus = [a_gpu(0, "H100"), a_gpu(1, "A100")]
    state = a_state(a_job("j", gpu_type="T4"), nodes=[a_node(gpus=gpus)])
    expected = (("gpu_type", "T4"), ("types", "A100, H100"))
    assert why(state) == Reason(ReasonCode.NO_SUCH_GPU, expected)


def test_too_large_in_gpus() -> None:
    state = a_state(a_job("j", gpus=5), nodes=[a_node("n0", 4), a_node("n1", 2)])
    assert why(state).code is ReasonCode.TOO_LARGE
    assert facts(why(state)) == {
        "resource": "gpus",
        "requested": 5000,
        "largest": 4000,
        "gpu_type": "",
        "gpu_mem_mib": 0,
        "by_type": "",
    }


def test_too_large_in_cores_looks_only_where_the_gpus_are() -> None:
    state = a_state(
        a_job("j", gpus=4, cpus=16),
        nodes=[a_node("n0", 4, cpus=8), a_node("n1", 0, cpus=64)],
    )
    assert why(state).code is ReasonCode.TOO_LARGE
    assert facts(why(state)) == {"resource": "cpu_millis", "requested": 16_000, "largest": 8000}


def test_too_large_in_memory_looks_only_where_the_cores_are() -> None:
    state = a_state(
        a_job("j", cpus=16, mem_mib=100),
        nodes=[a_node("n0", 4, cpus=8, mem_mib=200), a_node("n1", 4, cpus=64, mem_mib=50)],
    )
    assert facts(why(state)) == {"resource": "memory_mib", "requested": 100, "largest": 50}


def test_never_reason_of_a_cluster_without_nodes() -> None:
    assert never_reason([], class_of(a_job())).code is ReasonCode.TOO_LARGE


def test_gpus_busy_counts_what_is_free_and_what_is_not_well() -> None:
    gpus = [a_gpu(0), a_gpu(1, paused="for repair"), a_gpu(2, problem="lost"), a_gpu(3)]
    state = a_state(a_job("a"), a_job("j", gpus=2), nodes=[a_node(gpus=gpus)])
    start(state, "a", 0)
    assert why(state).code is ReasonCode.GPUS_BUSY
    assert facts(why(state)) == {
        "requested": 2000,
        "workers": 1,
        "gpu_type": "",
        "total": 4000,
        "free": 1000,
        "empty": 1,
        "types": "A100",
        "free:A100": 1000,
        "total:A100": 4000,
        "nodes": 1,
        "paused": 1,
        "pauses": "for repair",
        "hot": 0,
        "problem": 1,
        "foreign": 0,
        "node": "n0",
        "together": 1000,
    }
    end(state, "a")
    assert starts_next(state)


def test_gpus_busy_shows_when_what_is_free_lies_in_pieces() -> None:
    state = a_state(a_job("a", gpus=0.5), a_job("b", gpus=0.5), a_job("j"), nodes=[a_node(gpus=2)])
    start(state, "a", 0, millis=500)
    start(state, "b", 1, millis=500)
    assert (why(state).fact("free"), why(state).fact("empty")) == (1000, 0)


def test_gpus_busy_names_the_node_that_comes_nearest() -> None:
    state = a_state(
        *(a_job(f"a{n}") for n in range(4)),
        a_job("j", gpus=4),
        nodes=[a_node("n0", 4), a_node("n1", 4)],
    )
    start(state, "a0", 0, node="n0")
    for number in (1, 2, 3):
        start(state, f"a{number}", number, node="n1")
    assert why(state).fact("node") == "n0"


def test_cpu_busy() -> None:
    state = a_state(a_job("a", cpus=6), a_job("j", cpus=3), nodes=[a_node(cpus=8)])
    start(state, "a", 0)
    assert why(state).code is ReasonCode.CPU_BUSY
    assert facts(why(state)) == {"requested": 3000, "free": 2000, "total": 8000, "node": "n0"}
    end(state, "a")
    assert starts_next(state)


def test_memory_busy() -> None:
    state = a_state(a_job("a", mem_mib=60), a_job("j", mem_mib=50), nodes=[a_node(mem_mib=100)])
    start(state, "a", 0)
    assert why(state).code is ReasonCode.MEMORY_BUSY
    assert facts(why(state)) == {"requested": 50, "free": 40, "total": 100, "node": "n0"}
    end(state, "a")
    assert starts_next(state)


def test_the_nearest_node_is_the_one_whose_gpus_would_do() -> None:
    """The other has more free, but in pieces."""
    nodes = [a_node("n0", gpus=1, cpus=1), a_node("n1", gpus=3)]
    halves = [a_job(f"h{index}", gpus=0.5) for index in range(3)]
    state = a_state(*halves, a_job("j", cpus=1), nodes=nodes)
    for index, half in enumerate(halves):
        start(state, half.job_id, index, node="n1", millis=500)
    state.ledger.node(NodeId("n0")).cpu_millis = 1000  # taken by something without a GPU
    assert why(state).code is ReasonCode.CPU_BUSY
    assert why(state).fact("node") == "n0"


def test_gpus_are_named_before_cores_where_both_are_short() -> None:
    state = a_state(a_job("a", cpus=8), a_job("j", cpus=8), nodes=[a_node(gpus=1, cpus=8)])
    start(state, "a", 0)
    assert why(state).code is ReasonCode.GPUS_BUSY


def _held() -> State:
    state = a_state()
    submit(state, a_job("j"), held=["j"])
    return state


def _after(to: JobState | None) -> State:
    state = a_state(a_job("a"), a_job("j", after=("a",)))
    if to is not None:
        end(state, "a", to)
    return state


def _backing_off() -> State:
    state = a_state(a_job("j"))
    start(state, "j", 0)
    requeue(state, "j", eligible_at=1)
    return state


def _beside(other: Job, job: Job, node: Node) -> State:
    state = a_state(other, job, nodes=[node])
    start(state, other.job_id, 0)
    return state


def _had_all_day() -> State:
    tenant = a_tenant(user_limits=UserLimits(max_gpu_millis_ms_a_day=1000))
    state = a_state(a_job("a", user="ann"), a_job("j", user="ann"), tenants=[tenant])
    start(state, "a", 0)
    state.apply(TimePassed(1))
    return state


def _lent() -> State:
    tenants = [a_tenant(gpus=1, cohort="lab"), a_tenant("other", gpus=0, cohort="lab")]
    state = a_state(a_job("a", "other"), a_job("j"), tenants=tenants)
    start(state, "a", 0)
    return state


def _booked(job: Job) -> State:
    state = a_state(nodes=[a_node(gpus=1)])
    state.apply(BookingSet(0, a_booking("r-1", 0)))
    submit(state, job)
    return state


def _capped() -> State:
    state = a_state(a_job("j"))
    state.ledger.most_jobs = 0
    return state


# A new code without a world here fails: somebody must have seen it reached.
WORLDS: dict[ReasonCode, Callable[[], State]] = {
    ReasonCode.HELD: _held,
    ReasonCode.DEPENDENCY: lambda: _after(None),
    ReasonCode.DEPENDENCY_FAILED: lambda: _after(JobState.CANCELLED),
    ReasonCode.BACKING_OFF: _backing_off,
    ReasonCode.SERVICE_CAP: _capped,
    ReasonCode.ARRAY_CAP: lambda: a_state(a_job("j", array="x", array_max=0)),
    ReasonCode.TENANT_INACTIVE: lambda: a_state(a_job("j"), tenants=[a_tenant(active=False)]),
    ReasonCode.QUEUE_DISABLED: lambda: a_state(
        a_job("j", queue="q"), queues=[a_queue("q", enabled=False)]
    ),
    ReasonCode.QUEUE_CAP: lambda: a_state(
        a_job("j", queue="q"), queues=[a_queue("q", max_running_jobs=0)]
    ),
    ReasonCode.TENANT_QUOTA: lambda: a_state(a_job("j"), tenants=[a_tenant(gpus=0)]),
    ReasonCode.USER_LIMIT: lambda: a_state(
        a_job("j", user="ann"), tenants=[a_tenant(user_limits=UserLimits(max_running_jobs=0))]
    ),
    ReasonCode.USER_DAY: _had_all_day,
    ReasonCode.QUOTA_LENT: _lent,
    ReasonCode.BORROW_LIMIT: lambda: a_state(
        a_job("j"), tenants=[a_tenant(gpus=0, cohort="lab", borrow_millis=0)]
    ),
    ReasonCode.COHORT_QUOTA: lambda: a_state(a_job("j"), tenants=[a_tenant(gpus=0, cohort="lab")]),
    ReasonCode.BUDGET: lambda: a_state(
        a_job("j"), tenants=[a_tenant(budget=Budget(0, action=OverBudget.HOLD))]
    ),
    ReasonCode.NO_SUCH_GPU: lambda: a_state(a_job("j", gpu_type="T4")),
    ReasonCode.BOOKED: lambda: _booked(a_job("j")),
    ReasonCode.BOOKING_AHEAD: lambda: _booked(a_job("j", booking="r-1")),
    ReasonCode.TOO_LARGE: lambda: a_state(a_job("j", gpus=9)),
    ReasonCode.CONDITION: lambda: a_state(a_job("j", labels=(("zone", "moon"),))),
    ReasonCode.NOT_ALONE: lambda: _beside(a_job("a"), a_job("j", exclusive=True), a_node()),
    ReasonCode.GPUS_BUSY: lambda: _beside(a_job("a"), a_job("j"), a_node(gpus=1)),
    ReasonCode.CPU_BUSY: lambda: _beside(a_job("a", cpus=1), a_job("j", cpus=1), a_node(cpus=1)),
    ReasonCode.MEMORY_BUSY: lambda: _beside(
        a_job("a", mem_mib=1), a_job("j", mem_mib=1), a_node(mem_mib=1)
    ),
    ReasonCode.NO_NODE: lambda: a_state(a_job("j"), nodes=[]),
    ReasonCode.NEXT_CYCLE: lambda: a_state(a_job("j")),
}


# A quota provider of another package is asked by the service, not by the core; what is kept for
# others, and whom they may not pass, is a matter of the rules: see tests/unit/core/why.
BY_RULES = {
    ReasonCode.QUOTA_PROVIDER,
    ReasonCode.BEHIND_RESERVATION,
    ReasonCode.PLACE_KEPT,
    ReasonCode.STRICT_LINE,
    ReasonCode.PROMISED,
    ReasonCode.NOT_CHOSEN,
}
OURS = [code for code in ReasonCode if code not in BY_RULES]


@pytest.mark.parametrize("code", OURS)
def test_every_reason_can_be_reached(code: ReasonCode) -> None:
    assert why(WORLDS[code]()).code is code


@pytest.mark.parametrize("code", [code for code in OURS if code is not ReasonCode.NEXT_CYCLE])
def test_no_job_with_a_reason_to_wait_starts(code: ReasonCode) -> None:
    assert not starts_next(WORLDS[code]())
