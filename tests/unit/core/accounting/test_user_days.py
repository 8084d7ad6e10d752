"""What users had today, compared with a plain sum over random lives."""

from dataclasses import replace
from random import Random

import pytest

from tests.builders import a_job, a_node, a_state, a_tenant, end, run, start
from tgpu.core.accounting.budget import DAY_MS
from tgpu.core.admission.admit import refuse
from tgpu.core.model.events import TenantSet, TimePassed
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.reasons import ReasonCode
from tgpu.core.model.tenant import UserLimits
from tgpu.core.policies import order_policy
from tgpu.core.projection.snapshot import picture, state_of
from tgpu.core.state.cluster_state import State

T = TenantId("default")
HOUR = 3_600_000


def a_metered_state(*jobs, gpu_hours: float = 2, **fields) -> State:
    limits = UserLimits(max_gpu_millis_ms_a_day=round(gpu_hours * 1000 * HOUR))
    return a_state(*jobs, tenants=[a_tenant(user_limits=limits, **fields)], nodes=[a_node()])


def at(state: State, now: int) -> State:
    state.apply(TimePassed(now))
    return state


def refused(state: State, job_id: str):
    entry = state.entry(JobId(job_id))
    assert entry is not None
    return refuse(state.ledger, entry.queue.job_class)


def test_whoever_had_their_day_starts_nothing_until_midnight():
    jobs = [a_job(name, user=user) for name, user in (("a", "ann"), ("b", "ann"), ("c", "bob"))]
    state = a_metered_state(*jobs)
    start(state, "a", 0)
    assert refused(at(state, 2 * HOUR - 1), "b") is None
    over = refused(at(state, 2 * HOUR), "b")
    assert over is not None
    assert over.code is ReasonCode.USER_DAY
    assert (over.fact("user"), over.fact("until")) == ("ann", DAY_MS)
    assert refused(state, "c") is None  # everybody has a day of their own
    assert state.wakes_at() == DAY_MS
    assert refused(at(state, DAY_MS), "b") is None
    assert refused(at(state, DAY_MS + 2 * HOUR), "b") is not None  # `a` goes on


def test_a_user_by_name_has_limits_of_their_own_and_nobody_is_no_user():
    state = a_metered_state(a_job("a", user="ann"), a_job("b", user="ann"), a_job("n"), a_job("m"))
    start(state, "a", 0)
    start(state, "n", 0)
    at(state, 5 * HOUR)
    assert refused(state, "b") is not None
    assert refused(state, "m") is None
    tenant = state.ledger.tenant(T).tenant
    state.apply(TenantSet(5 * HOUR, replace(tenant, limits_by_user=(("ann", UserLimits()),))))
    assert refused(state, "b") is None
    state.apply(TenantSet(5 * HOUR, replace(tenant, enforce_quota=False)))
    assert refused(state, "b") is None


def test_a_limit_that_comes_later_counts_from_then_on():
    state = a_state(a_job("a", user="ann"), a_job("b", user="ann"), nodes=[a_node()])
    start(state, "a", 0)
    at(state, 5 * HOUR)
    limits = UserLimits(max_gpu_millis_ms_a_day=1000 * HOUR)
    state.apply(TenantSet(5 * HOUR, a_tenant(user_limits=limits)))
    assert refused(state, "b") is None
    assert refused(at(state, 6 * HOUR), "b") is not None


def test_a_copy_knows_what_was_had():
    state = a_metered_state(a_job("a", user="ann"), a_job("b", user="ann"))
    start(state, "a", 0)
    at(state, 2 * HOUR)
    copy = state_of(picture(state, state.now, order_policy("priority", 60), {}, 100))
    assert copy.ledger.over_day == state.ledger.over_day != {}
    assert at(copy, 3 * HOUR).user_days.spend(T, "ann").upto(3 * HOUR).day == 3000 * HOUR


@pytest.mark.parametrize("seed", range(20))
def test_meters_agree_with_a_plain_sum(seed):
    rng = Random(seed)
    users = ("ann", "bob")
    jobs = [a_job(f"j{n}", gpus=rng.choice((0.5, 1, 2)), user=rng.choice(users)) for n in range(12)]
    state = a_metered_state(*jobs, gpu_hours=10**6)
    spans: dict[str, list[int]] = {}
    now = 0
    for _ in range(40):
        now += rng.choice((1, HOUR, 5 * HOUR, 20 * HOUR))
        at(state, now)
        job = rng.choice(jobs)
        if job.job_id not in spans:
            start(state, job.job_id, jobs.index(job), at=now)
            spans[job.job_id] = [now]
        elif len(spans.get(job.job_id, ())) == 1:
            run(state, job.job_id, at=now)
            end(state, job.job_id, at=now)
            spans[job.job_id].append(now)
        for user in users:
            begins = now - now % DAY_MS
            plain = sum(
                job.request.gpu_millis * max(0, [*span, now][1] - max(span[0], begins))
                for job in jobs
                if job.options.user == user and (span := spans.get(job.job_id))
            )
            assert state.user_days.spend(T, user).upto(now).day == plain
