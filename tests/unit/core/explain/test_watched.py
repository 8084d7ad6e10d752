from tests.builders import a_job, a_node, a_state, submit
from tgpu.core.cycle import schedule
from tgpu.core.explain.watched import WatchedCycle, watch_cycle
from tgpu.core.model.reasons import ReasonCode
from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.policies.fifo import Fifo
from tgpu.core.state.cluster_state import State


def watched(
    state: State, backfill: BackfillMode = BackfillMode.GREEDY, most: int = 20
) -> WatchedCycle:
    rules = Rules(backfill)
    return watch_cycle(
        state, lambda seen: schedule(state, 0, Fifo(), rules=rules, observer=seen), most
    )


def a_crowd() -> State:
    return a_state(
        a_job("j1", gpus=2, submitted_at=1),
        a_job("j2", gpus=4, submitted_at=2),
        a_job("j3", gpus=4, submitted_at=3),
        a_job("j4", gpus=8, submitted_at=4),
        nodes=[a_node("n0", gpus=4)],
    )


def test_those_who_start_are_told_apart_from_those_who_wait_in_order():
    found = watched(a_crowd())
    assert [start.job_id for start in found.plan.starts] == ["j1"]
    assert [(one.job_id, one.jobs, one.reason.code) for one in found.waits] == [
        ("j2", 2, ReasonCode.GPUS_BUSY),
        ("j4", 1, ReasonCode.TOO_LARGE),
    ]
    assert found.untold == 0


def test_those_behind_a_job_that_nobody_may_pass_wait_for_it():
    state = a_crowd()
    submit(state, a_job("j5", gpus=1, submitted_at=5))
    reasons = {str(one.job_id): one.reason for one in watched(state, BackfillMode.STRICT).waits}
    assert reasons["j2"].code is ReasonCode.GPUS_BUSY
    assert reasons["j5"].code is ReasonCode.STRICT_LINE
    assert reasons["j5"].fact("job") == "j2"


def test_jobs_that_are_kept_back_are_told_after_those_in_the_line():
    state = a_crowd()
    submit(state, a_job("j0", gpus=1), held=["j0"])
    assert [one.job_id for one in watched(state).waits] == ["j2", "j4", "j0"]


def test_beyond_the_most_that_are_asked_about_jobs_are_counted():
    found = watched(a_crowd(), most=1)
    assert [one.job_id for one in found.waits] == ["j2"]
    assert found.untold == 1
