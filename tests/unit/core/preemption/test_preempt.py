"""Which jobs are preempted, on worlds small enough to read."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import (
    a_gpu,
    a_job,
    a_node,
    a_placement,
    a_state,
    a_tenant,
    end,
    entry_of,
    move,
    run,
    start,
    started,
    submit,
)
from tgpu.core.cycle import schedule
from tgpu.core.model.events import NodeSet, TenantSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import Move, ask_preemption, checkpoint, nominate
from tgpu.core.model.plan import Plan
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.model.tenant import Tenant
from tgpu.core.plan_events import plan_events
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.core.state.cluster_state import State

NOW = 100_000


def a_full_box(*victims: Job, tenants: Sequence[Tenant] | None = None, **vip: Any) -> State:
    """Each of the victims runs on GPUs of its own; then comes a job that wants `vip["gpus"]`."""
    gpus = sum(job.request.gpu_millis for job in victims) // 1000
    important = a_job("vip", **{"priority": 900, "gpus": 1, "submitted_at": NOW, **vip})
    state = a_state(*victims, important, nodes=[a_node(gpus=gpus)], tenants=tenants)
    first = 0
    for job in victims:
        count = job.request.gpu_millis // 1000
        start(state, job.job_id, *range(first, first + count), at=job.submitted_at)
        run(state, job.job_id, at=job.submitted_at)
        first += count
    return state


def plan_of(state: State, now: int = NOW, **rules: Any) -> Plan:
    with_preemption = Rules(preemption=PreemptionRules(**rules))
    return schedule(state, now, PriorityWithAging(), rules=with_preemption)


def asked(plan: Plan) -> list[str]:
    return [preemption.victim for preemption in plan.preemptions]


def test_the_one_that_loses_least_is_preempted() -> None:
    state = a_full_box(a_job("old", submitted_at=0), a_job("young", submitted_at=90_000))
    plan = plan_of(state)
    assert asked(plan) == ["young"]
    assert plan.preemptions[0].lost_gpu_millis_ms == 10_000 * 1000
    assert (plan.preemptions[0].to, plan.preemptions[0].cause) == ("vip", "priority")
    assert [share.gpu_index for share in plan.nominations[0].placement.shares] == [1]
    assert not plan.starts


def test_who_is_predicted_to_end_soon_is_spared() -> None:
    state = a_full_box(a_job("old", submitted_at=0), a_job("young", submitted_at=90_000))

    def left(job: Job, elapsed_ms: int, now: int) -> int | None:
        return 5_000 if job.job_id == "young" else None

    assert asked(plan_of(state, left=left, spare_ms=5_000)) == ["old"]
    assert asked(plan_of(state, left=left, spare_ms=4_999)) == ["young"]
    assert asked(plan_of(state, left=left)) == ["young"]  # nobody is to be spared


def test_what_was_saved_is_not_lost() -> None:
    state = a_full_box(a_job("old", submitted_at=0), a_job("young", submitted_at=90_000))
    saved = checkpoint(entry_of(state, "old").job.job_id, entry_of(state, "old").progress, 99_000)
    move(state, "old", Move.CHECKPOINT, saved, 99_000)
    assert asked(plan_of(state)) == ["old"]


def test_one_large_job_is_preempted_rather_than_two_that_lose_more() -> None:
    state = a_full_box(
        a_job("a", submitted_at=0),
        a_job("large", gpus=2, submitted_at=80_000),
        a_job("b", submitted_at=0),
        gpus=2,
    )
    assert asked(plan_of(state)) == ["large"]


def test_no_job_is_preempted_where_that_would_not_be_enough() -> None:
    state = a_full_box(a_job("small"), a_job("equal", priority=900), gpus=2)
    plan = plan_of(state)
    assert (plan.preemptions, plan.nominations) == ((), ())


@pytest.mark.parametrize(
    ("victim", "rules"),
    [
        ({"priority": 900}, {}),
        ({"priority": 850}, {"margin": 51}),
        ({"preemptible": False}, {}),
        ({"time_limit_ms": 10_500, "submitted_at": 90_000}, {"spare_ms": 500}),
        ({"submitted_at": 90_000}, {"min_run_ms": 10_001}),
        ({}, {"most_times": 0}),
        ({}, {"by_priority": False}),
        ({"booking": "r-1"}, {}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_who_is_spared(victim: dict[str, Any], rules: dict[str, Any]) -> None:
    assert asked(plan_of(a_full_box(a_job("other", **victim)), **rules)) == []


def test_a_tenant_that_does_not_allow_it_is_spared() -> None:
    tenants = [a_tenant(), a_tenant("calm", allow_preemption=False)]
    state = a_full_box(a_job("other", tenant="calm"), tenants=tenants)
    assert asked(plan_of(state)) == []


def test_age_is_no_reason_to_push_others_out() -> None:
    state = a_full_box(a_job("other", priority=500), priority=500, submitted_at=0)
    assert asked(plan_of(state, now=10**9)) == []


def test_a_job_over_its_tenants_quota_may_push_out_its_own() -> None:
    tenants = [a_tenant(gpus=1)]
    state = a_state(
        a_job("mine"), a_job("vip", priority=900), nodes=[a_node(gpus=4)], tenants=tenants
    )
    start(state, "mine", 0)
    run(state, "mine")
    assert asked(plan_of(state)) == ["mine"]


def a_cohort(**lender: Any) -> State:
    """Blue has three of the four GPUs, one of them borrowed from red, which wants its two."""
    tenants = [a_tenant("red", gpus=2, cohort="c"), a_tenant("blue", gpus=2, cohort="c")]
    jobs = [a_job(f"b{n}", tenant="blue", priority=900, submitted_at=n * 1000) for n in range(3)]
    mine = a_job("r0", tenant="red", priority=100, submitted_at=5000)
    wants = a_job("r1", tenant="red", priority=100, submitted_at=NOW, **lender)
    state = a_state(*jobs, mine, wants, nodes=[a_node(gpus=4)], tenants=tenants)
    for index, job_id in enumerate(("b0", "b1", "b2", "r0")):
        start(state, job_id, index, at=index * 1000)
        run(state, job_id, at=index * 1000)
    return state


def test_lent_quota_is_taken_back_whatever_the_priority() -> None:
    plan = plan_of(a_cohort())
    assert [(p.victim, p.to, p.cause) for p in plan.preemptions] == [("b2", "r1", "reclaim")]


def test_no_more_is_taken_back_than_was_lent() -> None:
    assert asked(plan_of(a_cohort(gpus=2))) == []


def test_quota_comes_back_also_where_the_borrower_has_more_jobs_than_it_borrowed_for() -> None:
    # Quotas for six GPUs where there are four: nobody is over a quota, and there is no room.
    tenants = [a_tenant("red", gpus=4, cohort="c"), a_tenant("blue", gpus=2, cohort="c")]
    jobs = [a_job(f"b{n}", tenant="blue", submitted_at=n * 1000) for n in range(4)]
    wants = a_job("r", tenant="red", submitted_at=NOW)
    state = a_state(*jobs, wants, nodes=[a_node(gpus=4)], tenants=tenants)
    for index, job in enumerate(jobs):
        start(state, job.job_id, index, at=job.submitted_at)
        run(state, job.job_id, at=job.submitted_at)
    assert asked(plan_of(state)) == ["b3"]


@pytest.mark.parametrize("longer", ["large", "small"])
def test_who_is_asked_first_does_not_decide_whether_enough_comes_back(longer: str) -> None:
    # Three are borrowed: after the large one nothing is left of that, after the small one there is.
    tenants = [a_tenant("red", gpus=3, cohort="c"), a_tenant("blue", gpus=3, cohort="c")]
    victims = [
        a_job(name, tenant="blue", gpus=gpus, submitted_at=0 if name == longer else NOW - 10)
        for name, gpus in (("large", 4), ("small", 2))
    ]
    state = a_full_box(*victims, tenants=tenants, tenant="red", gpus=6)
    assert sorted(asked(plan_of(state))) == ["large", "small"]


def test_without_reclaiming_the_lender_waits() -> None:
    assert asked(plan_of(a_cohort(), reclaim=False)) == []


def test_a_policy_from_elsewhere_names_the_victim() -> None:
    state = a_full_box(a_job("a"), a_job("b"), a_job("c"), gpus=2, priority=1)
    policy = ChoicePolicy("mine", lambda _, jobs: jobs[0], lambda running, _: running[-1])
    plan = schedule(state, NOW, policy, rules=Rules(preemption=PreemptionRules()))
    assert [(p.victim, p.cause) for p in plan.preemptions] == [("c", "policy"), ("b", "policy")]
    assert [claim.job_id for claim in plan.nominations] == ["vip"]


def test_a_policy_that_names_nobody_leaves_all_in_peace() -> None:
    state = a_full_box(a_job("a"))
    policy = ChoicePolicy("mine", lambda _, jobs: jobs[0])
    assert not schedule(state, NOW, policy, rules=Rules(preemption=PreemptionRules())).preemptions


def test_many_that_ask_in_vain_do_not_keep_others_from_asking() -> None:
    vain = [a_job(f"vain {n}", gpus=2, cpus=n, priority=999) for n in range(1, 41)]
    running = [a_job("stays", preemptible=False), a_job("low", priority=1)]
    state = a_state(*running, *vain, a_job("vip", priority=900), nodes=[a_node(gpus=2)])
    for index, job in enumerate(running):
        start(state, job.job_id, index)
        run(state, job.job_id)
    assert asked(plan_of(state)) == ["low"]


def a_nominated_job(*others: Job) -> State:
    """On a box of two GPUs, `low` has given GPU 0 up for `vip`, which has not started yet."""
    jobs = [a_job("low", submitted_at=0), a_job("vip", priority=900, submitted_at=1)]
    tenants = [a_tenant(), a_tenant("other")]
    state = a_state(*jobs, *others, nodes=[a_node(gpus=2)], tenants=tenants)
    promised = nominate(JobId("vip"), entry_of(state, "vip").progress, a_placement(0))
    move(state, "vip", Move.NOMINATE, promised, 2)
    return state


def test_what_is_being_cleared_is_kept_for_who_it_is_cleared_for() -> None:
    state = a_nominated_job(a_job("other", submitted_at=3))
    start(state, "low", 0)
    run(state, "low")
    asked_to_go = ask_preemption(JobId("low"), entry_of(state, "low").progress, JobId("vip"), "")
    move(state, "low", Move.STOP, asked_to_go, 3)
    start(state, "other", 1)
    assert plan_of(state).nominations == ()


def test_who_was_promised_gpus_that_others_have_by_now_is_promised_others() -> None:
    state = a_nominated_job(a_job("other", submitted_at=3))
    for index, job_id in enumerate(("low", "other")):
        start(state, job_id, index)
        run(state, job_id)
    plan = plan_of(state)
    assert asked(plan) == ["low"]
    assert [claim.job_id for claim in plan.nominations] == ["vip"]


def test_who_was_promised_a_gpu_that_failed_is_promised_another() -> None:
    state = a_nominated_job()
    start(state, "low", 1)
    run(state, "low")
    state.apply(NodeSet(5, a_node(gpus=[a_gpu(0, problem="lost"), a_gpu(1)])))
    plan = plan_of(state)
    assert asked(plan) == ["low"]
    assert [share.gpu_index for share in plan.nominations[0].placement.shares] == [1]


def test_nothing_is_kept_for_who_may_not_start_any_more() -> None:
    state = a_nominated_job(a_job("large", gpus=2, submitted_at=3, tenant="other"))
    state.apply(TenantSet(5, a_tenant("default", gpus=0)))
    assert started(plan_of(state)) == ["large"]


def test_nobody_is_preempted_for_a_job_that_a_nominated_one_leaves_no_quota_for() -> None:
    tenants = [a_tenant("red", gpus=1), a_tenant()]
    victims = (a_job("v1", priority=100), a_job("v2", priority=100))
    state = a_full_box(*victims, tenants=tenants, tenant="red")
    submit(state, a_job("next", "red", priority=800, submitted_at=NOW))
    plan = plan_of(state)
    assert [(one.victim, one.to) for one in plan.preemptions] == [("v1", "vip")]
    for event in plan_events(state, plan, NOW):
        state.apply(event)
    assert plan_of(state) == Plan()  # neither while it leaves


def test_nobody_takes_the_quota_that_is_cleared_for_a_nominated_job() -> None:
    """Of its two victims one has gone, with its quota: a newcomer would fit into that."""
    victims = (a_job("v1", priority=100), a_job("v2", priority=100))
    state = a_full_box(*victims, tenants=[a_tenant(gpus=2)], gpus=2)
    for event in plan_events(state, plan_of(state), NOW):
        state.apply(event)
    end(state, "v1", at=NOW)
    submit(state, a_job("small", gpus=0.5, priority=900, submitted_at=NOW))
    state.apply(NodeSet(NOW, a_node("n1", gpus=1)))
    assert plan_of(state).starts == ()
    end(state, "v2", at=NOW)
    assert [one.job_id for one in plan_of(state).starts] == ["vip"]
