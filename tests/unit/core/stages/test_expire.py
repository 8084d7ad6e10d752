"""Leases end by themselves."""

from tests.builders import a_job, a_state, run, start
from tests.unit.core.stages.drafts import a_draft
from tgpu.core.model.ids import JobId
from tgpu.core.stages.expire import expire_leases
from tgpu.core.state.cluster_state import State


def with_a_lease() -> State:
    state = a_state(a_job("lease", gpus=8, lease=True, time_limit_ms=1000), a_job("b"))
    start(state, "lease", *range(8))
    run(state, "lease")
    return state


def test_a_lease_whose_time_is_up_makes_room() -> None:
    draft = a_draft(with_a_lease(), 1000)
    expire_leases(draft)
    assert draft.plan().expired == ("lease",)
    assert draft.place(draft.entry(JobId("b")).queue) is not None


def test_before_that_it_keeps_its_gpus() -> None:
    draft = a_draft(with_a_lease(), 999)
    expire_leases(draft)
    assert draft.plan().expired == ()
    assert draft.place(draft.entry(JobId("b")).queue) is None
