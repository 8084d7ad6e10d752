"""A job in the place of another, for as long as somebody wonders."""

import pytest

from tests.builders import a_job, a_node, a_state, entry_of, snapshot, start, started, waiting_ids
from tgpu.core.cycle import schedule
from tgpu.core.explain.what_if import instead
from tgpu.core.policies.fifo import Fifo


def test_the_other_waits_as_the_newest_and_the_job_itself_is_gone() -> None:
    state = a_state(a_job("j"), a_job("k"), now=7)
    with instead(state, entry_of(state, "j"), a_job("j", gpus=2), 7) as job_id:
        assert waiting_ids(state) == ["k", job_id]
        other = entry_of(state, job_id).job
        assert (other.submitted_at, other.request.gpu_millis) == (7, 2000)
    assert waiting_ids(state) == ["j", "k"]


def test_the_state_is_what_it_was_also_after_an_error() -> None:
    state = a_state(a_job("a"), a_job("j"), a_job("k", after=("j",)))
    start(state, "a", 0)
    before = snapshot(state)
    with (
        pytest.raises(ZeroDivisionError),
        instead(state, entry_of(state, "j"), a_job("j", queue="other"), 0),
    ):
        raise ZeroDivisionError
    assert snapshot(state) == before


def test_the_cycle_starts_the_other() -> None:
    state = a_state(a_job("j", gpus=2), nodes=[a_node(gpus=1)])
    policy = Fifo()
    assert started(schedule(state, 0, policy)) == []
    with instead(state, entry_of(state, "j"), a_job("j", gpus=1), 0) as job_id:
        assert started(schedule(state, 0, policy)) == [job_id]
