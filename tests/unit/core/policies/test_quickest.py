"""Who will be over soonest goes first."""

from tests.builders import a_job, a_node, a_state, started
from tgpu.core.cycle import schedule
from tgpu.core.model.job import class_of
from tgpu.core.policies.quickest import Quickest

MINUTE = 60_000
DAY = 86_400_000


class Told:
    """Lengths by when a job was submitted."""

    def __init__(self, lengths, begun=0):
        self.lengths = lengths
        self.begun = begun

    def length_ms(self, job_class, submitted_at, now):
        return self.lengths.get(submitted_at // MINUTE)

    def begun_since(self, job_class, submitted_at):
        return self.begun


def test_without_anybody_to_ask_limits_tell():
    state = a_state(
        a_job("unlimited"),
        a_job("long", gpus=1, time_limit_ms=10 * MINUTE),
        a_job("short", gpus=2, time_limit_ms=MINUTE),
    )
    assert started(schedule(state, 0, Quickest())) == ["short", "long", "unlimited"]


def test_jobs_of_one_class_stand_apart_by_when_they_were_submitted():
    state = a_state(*(a_job(f"j{at}", submitted_at=at * MINUTE) for at in range(4)))
    told = Told({0: 900, 1: 300, 2: 700, 3: 100})
    plan = schedule(state, 4 * MINUTE, Quickest(run_times=told))
    assert started(plan) == ["j3", "j1", "j2", "j0"]


def test_those_submitted_together_go_by_age():
    state = a_state(*(a_job(f"j{at}", submitted_at=at) for at in range(3)))
    plan = schedule(state, MINUTE, Quickest(run_times=Told({0: 5})))
    assert started(plan) == ["j0", "j1", "j2"]


def test_of_equals_the_last_submitted_are_tried_first():
    state = a_state(*(a_job(f"j{at}", submitted_at=at * MINUTE) for at in range(3)))
    plan = schedule(state, 4 * MINUTE, Quickest(run_times=Told({0: 5, 1: 5, 2: 5})))
    assert started(plan) == ["j2", "j1", "j0"]


def test_of_whom_nothing_is_known_comes_last():
    state = a_state(a_job("unknown"), a_job("known", submitted_at=MINUTE))
    plan = schedule(state, MINUTE, Quickest(run_times=Told({1: DAY})))
    assert started(plan) == ["known", "unknown"]


def test_nobody_is_passed_over_longer_than_the_bound():
    state = a_state(a_job("old"), a_job("quick", submitted_at=DAY))
    policy = Quickest(bound_ms=2 * DAY, run_times=Told({0: DAY, DAY // MINUTE: 1}))
    assert started(schedule(state, 2 * DAY, policy)) == ["quick", "old"]
    assert started(schedule(state, 2 * DAY + 1, policy)) == ["old", "quick"]


def gangs(count, **fields):
    return [a_job(f"g{n:02}", gpus=4, workers=2, **fields) for n in range(count)]


def test_a_crowd_of_short_gangs_goes_before_everybody():
    state = a_state(a_job("quick", submitted_at=MINUTE), *gangs(4), nodes=[a_node("n", 8)])
    order = Quickest(run_times=Told({0: 60_000, 1: 1_000})).at(state, MINUTE)
    assert order.crowds == {class_of(gangs(1)[0])}
    plan = schedule(state, MINUTE, Quickest(run_times=Told({0: 60_000, 1: 1_000})))
    assert started(plan) == ["g00", "g01"]


def test_a_few_gangs_or_long_ones_are_no_crowd():
    few = a_state(a_job("quick", submitted_at=MINUTE), *gangs(3), nodes=[a_node("n", 8)])
    plan = schedule(few, MINUTE, Quickest(run_times=Told({0: 60_000, 1: 1_000})))
    assert started(plan) == ["quick", "g00"]
    long = a_state(a_job("quick", submitted_at=MINUTE), *gangs(9), nodes=[a_node("n", 8)])
    plan = schedule(long, MINUTE, Quickest(run_times=Told({0: DAY, 1: 1_000})))
    assert started(plan) == ["quick", "g00"]


def test_a_crowd_is_one_until_its_last_has_begun():
    rest = a_state(a_job("quick", submitted_at=MINUTE), *gangs(1), nodes=[a_node("n", 4)])
    told = Told({0: 60_000, 1: 1_000}, begun=3)
    assert started(schedule(rest, MINUTE, Quickest(run_times=told))) == ["g00"]


def test_many_parts_are_bounded_and_nobody_is_lost():
    jobs = [a_job(f"j{at:03}", submitted_at=at * MINUTE) for at in range(200)]
    state = a_state(*jobs, nodes=[a_node("n", 8) for _ in range(1)])
    policy = Quickest(run_times=Told(dict.fromkeys(range(200), 5)))
    queue = next(iter(state.waiting.classes()))
    parts = list(policy.at(state, 200 * MINUTE).parts([queue]))
    assert len(parts) == 64
    assert sorted(key for part in parts for key in part.keys) == list(queue.keys)
