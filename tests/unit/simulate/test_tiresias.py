"""Tiresias: two queues, by GPU time."""

from tests.builders import a_job, a_state, entry_of, run, start
from tgpu.simulate.tiresias import Tiresias

SECOND = 1000


def test_the_first_queue_ends_after_18_000_gpu_seconds() -> None:
    state = a_state(a_job("a", gpus=2, submitted_at=7, priority=0))
    start(state, "a", 0, 1)
    run(state, "a")
    entry = entry_of(state, "a")
    assert Tiresias().rank(entry, 9_000 * SECOND) == (0, 7)
    assert Tiresias().rank(entry, 9_001 * SECOND) == (1, 7)


def test_a_higher_priority_goes_before_both_queues() -> None:
    state = a_state(a_job("a", gpus=8, priority=1), a_job("b", priority=0))
    start(state, "a", *range(8))
    run(state, "a")
    late = Tiresias().rank(entry_of(state, "a"), 10_000 * SECOND)
    assert late < Tiresias().rank(entry_of(state, "b"), 0)
