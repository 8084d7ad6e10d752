"""What cohorts promise, over random worlds and the real cycle.

Safety: no start takes the cohort beyond its pool or a tenant beyond what it may borrow. And what
was lent is never out of reach: who may not start within its quota can, once others gave back what
they borrowed.
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_job, a_node, a_state, a_tenant, carry_out, end, submit
from tests.builders import started as started_ids
from tgpu.core.admission.admit import refuse
from tgpu.core.admission.cohort import borrowed, lent, may_reclaim
from tgpu.core.capacity.ledger import Ledger
from tgpu.core.cycle import schedule
from tgpu.core.model.job import class_of
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.reasons import ReasonCode
from tgpu.core.model.tenant import Tenant
from tgpu.core.policies import order_policy
from tgpu.core.state.cluster_state import State

NAMES = ("blue", "green", "red")


def a_member(rng: Random, name: str) -> Tenant:
    return a_tenant(
        name,
        rng.choice((0, 1, 2, 3.5, 4)),
        cohort="lab",
        borrow_millis=rng.choice((None, None, 0, 500, 2000)),
        lend_millis=rng.choice((None, None, 0, 500, 2000)),
    )


def a_busy_lab(rng: Random) -> State:
    state = a_state(tenants=[a_member(rng, name) for name in NAMES], nodes=[a_node(gpus=16)])
    for number in range(24):
        gpus = rng.choice((0.5, 1, 1, 2, 3))
        submit(state, a_job(f"j{number}", rng.choice(NAMES), gpus=gpus, submitted_at=number))
        if rng.random() < 0.5:
            cycle(state)
        if rng.random() < 0.3:
            placed = state.placed()
            if placed:
                end(state, rng.choice(placed).job.job_id)
    cycle(state)
    return state


def cycle(state: State) -> list[str]:
    plan = schedule(state, state.now, order_policy("priority", 60))
    carry_out(state, plan, state.now)
    assert_within(state.ledger)
    return started_ids(plan)


def assert_within(ledger: Ledger) -> None:
    members = [use for use in ledger.tenants.values() if use.tenant.shares_quota]
    nominal = sum(use.tenant.max_gpu_millis or 0 for use in members)
    kept = sum(use.tenant.guaranteed_millis for use in members)
    beyond = sum(max(0, use.gpu_millis - use.tenant.guaranteed_millis) for use in members)
    assert beyond <= nominal - kept, "more is lent than there is to lend"
    assert sum(use.gpu_millis for use in members) <= nominal
    for use in members:
        borrow = use.tenant.borrow_millis
        if borrow is not None:
            assert use.gpu_millis <= (use.tenant.max_gpu_millis or 0) + borrow


@given(seed=st.integers(0, 2**32))
@settings(max_examples=100)
def test_no_start_goes_beyond_the_pool_or_a_borrowing_limit(seed: int) -> None:
    a_busy_lab(Random(seed))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=100)
def test_what_is_guaranteed_is_never_refused(seed: int) -> None:
    ledger = a_busy_lab(Random(seed)).ledger
    for name in NAMES:
        use = ledger.tenant(a_tenant(name).tenant_id)
        left = use.tenant.guaranteed_millis - use.gpu_millis
        if left >= 100:
            assert refuse(ledger, class_of(a_job("new", name, gpus=left / 1000))) is None


@given(seed=st.integers(0, 2**32))
@settings(max_examples=100)
def test_what_was_lent_starts_once_others_gave_back_what_they_borrowed(seed: int) -> None:
    state = a_busy_lab(Random(seed))
    for entry in list(state.entries()):
        if entry.progress.state is not JobState.PENDING:
            continue
        job_class = entry.queue.job_class
        refused = refuse(state.ledger, job_class)
        if refused is None or refused.code is not ReasonCode.QUOTA_LENT:
            continue
        assert may_reclaim(state.ledger, job_class)
        assert lent(state.ledger, job_class.tenant_id) > 0
        for other in state.placed():
            if borrowed(state.ledger, other.job.tenant_id):
                end(state, other.job.job_id)
        assert refuse(state.ledger, job_class) is None
        return


@given(seed=st.integers(0, 2**32))
@settings(max_examples=50)
def test_a_cohort_of_one_is_a_plain_quota(seed: int) -> None:
    """Whatever its limits for lending and borrowing: there is nobody to lend to or borrow from."""
    rng = Random(seed)
    member = a_member(rng, "red")
    plain = a_tenant("red", (member.max_gpu_millis or 0) / 1000)
    jobs = [a_job(f"j{n}", "red", gpus=rng.choice((0.5, 1, 2)), submitted_at=n) for n in range(9)]
    plans = []
    for tenant in (member, plain):
        state = a_state(*jobs, tenants=[tenant])
        plans.append(schedule(state, 0, order_policy("priority", 60)))
    assert plans[0] == plans[1]
