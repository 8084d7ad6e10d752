"""Idle quota is lent within a cohort, never beyond the pool, and can be had back."""

from typing import Any

import pytest

from tests.builders import a_job, a_node, a_state, a_tenant, start, submit
from tgpu.core.admission.admit import refuse
from tgpu.core.admission.cohort import (
    borrowed,
    ceiling,
    lent,
    may_reclaim,
    pool_of,
)
from tgpu.core.model.ids import TenantId
from tgpu.core.model.job import class_of
from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.model.tenant import Tenant
from tgpu.core.state.cluster_state import State

RED, BLUE, GREEN = TenantId("red"), TenantId("blue"), TenantId("green")


def a_member(tenant_id: str, gpus: float | None, **fields: Any) -> Tenant:
    return a_tenant(tenant_id, gpus, cohort="lab", **fields)


def a_lab(*tenants: Tenant, **used: int) -> State:
    """A node of sixteen GPUs; each tenant named uses so many of them."""
    state = a_state(tenants=tenants, nodes=[a_node(gpus=16)])
    gpu = 0
    for tenant, count in used.items():
        job_id = f"of-{tenant}"
        submit(state, a_job(job_id, tenant, gpus=count))
        start(state, job_id, *range(gpu, gpu + count))
        gpu += count
    return state


def asks(state: State, tenant: str, gpus: float) -> Reason | None:
    return refuse(state.ledger, class_of(a_job("j", tenant, gpus=gpus)))


def test_idle_quota_of_others_can_be_used() -> None:
    state = a_lab(a_member("red", 2), a_member("blue", 4))
    assert asks(state, "red", 6) is None


def test_without_a_cohort_the_quota_is_hard() -> None:
    state = a_lab(a_tenant("red", 2), a_member("blue", 4))
    refused = asks(state, "red", 3)
    assert refused is not None
    assert refused.code is ReasonCode.TENANT_QUOTA


def test_cohorts_do_not_lend_to_each_other() -> None:
    state = a_lab(a_member("red", 2), a_tenant("blue", 4, cohort="other"))
    assert asks(state, "red", 2) is None
    assert asks(state, "red", 3) is not None


def test_nobody_has_more_than_the_whole_cohort() -> None:
    state = a_lab(a_member("red", 2), a_member("blue", 4), blue=3)
    assert asks(state, "red", 3) is None
    refused = asks(state, "red", 4)
    assert refused == Reason(
        ReasonCode.COHORT_QUOTA,
        (
            ("tenant", "red"),
            ("cohort", "lab"),
            ("requested", 4000),
            ("nominal", 2000),
            ("current", 0),
            ("pool", 6000),
            ("free", 3000),
        ),
    )


def test_the_borrowing_limit_is_the_tenants_own() -> None:
    state = a_lab(a_member("red", 2, borrow_millis=1000), a_member("blue", 4))
    assert asks(state, "red", 3) is None
    refused = asks(state, "red", 4)
    assert refused is not None
    assert refused.code is ReasonCode.BORROW_LIMIT
    assert (refused.fact("nominal"), refused.fact("borrow")) == (2000, 1000)


def test_what_a_tenant_does_not_lend_is_always_its_own() -> None:
    state = a_lab(a_member("red", 2), a_member("blue", 4, lend_millis=1000))
    assert asks(state, "red", 3) is None
    assert asks(state, "red", 4) is not None
    state = a_lab(a_member("red", 2), a_member("blue", 4, lend_millis=1000), red=3)
    assert asks(state, "blue", 3) is None
    refused = asks(state, "blue", 4)
    assert refused is not None
    assert refused.code is ReasonCode.QUOTA_LENT


def test_the_guaranteed_part_starts_even_where_others_are_beyond_the_pool() -> None:
    """A quota was lowered under running jobs."""
    state = a_lab(a_member("red", 1), a_member("blue", 4, lend_millis=0), red=8)
    assert asks(state, "blue", 4) is None


def test_quota_that_others_borrowed_has_its_own_reason() -> None:
    state = a_lab(a_member("red", 2), a_member("blue", 4), red=5)
    assert asks(state, "blue", 1) is None
    assert asks(state, "blue", 3) == Reason(
        ReasonCode.QUOTA_LENT,
        (
            ("tenant", "blue"),
            ("cohort", "lab"),
            ("requested", 3000),
            ("nominal", 4000),
            ("current", 0),
            ("lent", 3000),
        ),
    )


def test_members_without_a_quota_or_with_one_not_enforced_are_no_part_of_it() -> None:
    free = a_member("green", None)
    shown = a_member("gold", 8, enforce_quota=False)
    state = a_lab(a_member("red", 2), free, shown, green=6)
    assert asks(state, "green", 9) is None
    assert asks(state, "gold", 9) is None
    assert asks(state, "red", 2) is None
    assert asks(state, "red", 3) is not None
    assert borrowed(state.ledger, GREEN) == 0


def test_only_gpus_in_all_are_lent() -> None:
    by_type = a_member("red", 2, by_type={"A100": 1})
    state = a_lab(by_type, a_member("blue", 8))
    refused = refuse(state.ledger, class_of(a_job("j", "red", gpus=2, gpu_type="A100")))
    assert refused is not None
    assert refused.fact("resource") == "gpus:A100"
    state = a_lab(a_member("red", 2, max_running_jobs=0), a_member("blue", 8))
    refused = asks(state, "red", 1)
    assert refused is not None
    assert refused.fact("resource") == "jobs"


def test_borrowed_is_what_is_beyond_the_quota() -> None:
    state = a_lab(a_member("red", 2), a_member("blue", 4), red=5, blue=1)
    assert borrowed(state.ledger, RED) == 3000
    assert borrowed(state.ledger, BLUE) == 0
    state = a_lab(a_tenant("red", 2), red=5)
    assert borrowed(state.ledger, RED) == 0


def test_lent_is_what_a_tenant_could_not_have_at_once() -> None:
    state = a_lab(a_member("red", 2), a_member("blue", 4), red=4)
    assert lent(state.ledger, BLUE) == 2000
    assert lent(state.ledger, RED) == 0
    # With a third that is idle there is enough for all.
    state = a_lab(a_member("red", 2), a_member("blue", 4), a_member("green", 4), red=4)
    assert lent(state.ledger, BLUE) == 0


@pytest.mark.parametrize(
    ("borrow", "lend", "expected"),
    [(None, None, 6000), (1000, None, 3000), (9000, None, 6000), (None, 500, 2500)],
)
def test_the_ceiling_is_what_it_could_ever_have(
    borrow: int | None, lend: int | None, expected: int
) -> None:
    red = a_member("red", 2, borrow_millis=borrow)
    state = a_lab(red, a_member("blue", 4, lend_millis=lend))
    assert ceiling(state.ledger, red) == expected


def test_the_ceiling_of_a_tenant_alone_is_its_quota() -> None:
    state = a_lab(a_tenant("red", 2), a_tenant("blue"))
    assert ceiling(state.ledger, state.ledger.tenant(RED).tenant) == 2000
    assert ceiling(state.ledger, state.ledger.tenant(BLUE).tenant) is None


def test_a_tenant_lends_no_more_than_it_has() -> None:
    greedy = a_member("red", 2, lend_millis=9000)
    assert greedy.guaranteed_millis == 0
    assert pool_of(a_lab(greedy).ledger, "lab").size == 2000


def reclaims(state: State, tenant: str, gpus: float) -> bool:
    return may_reclaim(state.ledger, class_of(a_job("j", tenant, gpus=gpus)))


def test_who_stays_within_its_quota_may_reclaim_from_those_beyond_theirs() -> None:
    state = a_lab(a_member("red", 2), a_member("blue", 4), red=5)
    assert reclaims(state, "blue", 4)
    assert not reclaims(state, "blue", 5)  # that would be borrowing
    assert not reclaims(state, "red", 1)  # it has borrowed itself


def test_where_nobody_borrowed_there_is_nothing_to_reclaim() -> None:
    state = a_lab(a_member("red", 2), a_member("blue", 4), red=2)
    assert not reclaims(state, "blue", 4)


def test_a_tenant_without_a_cohort_reclaims_nothing() -> None:
    state = a_lab(a_member("red", 2), a_member("blue", 4), a_tenant("green", 4), red=5)
    assert not reclaims(state, "green", 1)
