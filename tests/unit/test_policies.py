"""The plug-in surface for policies: the built-in ones, and how any is found."""

from importlib.metadata import EntryPoint

import pytest

from tests.builders import a_job
from tgpu import policies
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.policies import (
    BackfillPolicy,
    FairSharePolicy,
    FIFOPolicy,
    Job,
    JobQueue,
    PriorityPolicy,
    SchedulingPolicy,
    ShortestPolicy,
    load_policy,
)

QUEUE = JobQueue(TenantId("t"), "default")


class Newest(SchedulingPolicy):
    def select_next_job(self, queue, pending_jobs):
        return pending_jobs[-1] if pending_jobs else None


class Fails(SchedulingPolicy):
    def __init__(self):
        raise RuntimeError("no licence")

    def select_next_job(self, queue, pending_jobs):
        return None


newest = Newest()


@pytest.fixture
def installed(monkeypatch):
    """Entry points as other packages would bring them."""

    def install(**values: str) -> None:
        points = [EntryPoint(name, value, policies.GROUP) for name, value in values.items()]
        monkeypatch.setattr(policies, "entry_points", lambda group: points)

    install()
    return install


def job(job_id: str, priority: int = 500, submitted_at: int = 0) -> Job:
    return a_job(job_id, priority=priority, submitted_at=submitted_at)


def chosen(policy: SchedulingPolicy, *jobs: Job) -> str | None:
    found = policy.select_next_job(QUEUE, jobs)
    return None if found is None else found.job_id


@pytest.mark.parametrize(
    ("policy", "first"),
    [
        (FIFOPolicy(), "old"),
        (PriorityPolicy(), "high"),
        (FairSharePolicy(), "high"),
        (BackfillPolicy(), "high"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_built_in_policies_choose_as_their_names_say(policy, first):
    assert chosen(policy, job("new", submitted_at=9), job("old"), job("high", 900, 5)) == first


def test_the_shortest_is_chosen_by_its_gpu_time_and_who_has_no_limit_last():
    jobs = [a_job("open"), a_job("wide", gpus=4, time_limit_ms=2), a_job("long", time_limit_ms=9)]
    assert chosen(ShortestPolicy(), *jobs) == "wide"
    assert chosen(ShortestPolicy(), jobs[0], jobs[2]) == "long"


@pytest.mark.parametrize("policy", [FIFOPolicy(), PriorityPolicy(), ShortestPolicy()])
def test_where_nobody_waits_nobody_is_chosen(policy):
    assert chosen(policy) is None


def test_equal_jobs_are_taken_by_age_and_then_by_id():
    assert chosen(PriorityPolicy(), job("b"), job("a"), job("c", submitted_at=-1)) == "c"
    assert chosen(PriorityPolicy(), job("b"), job("a")) == "a"


def test_a_more_important_job_preempts_the_newest_of_the_least_important():
    running = [job("kept", 900), job("old", 100, 1), job("young", 100, 2)]
    victim = PriorityPolicy().should_preempt(running, job("new", 500))
    assert victim is not None
    assert victim.job_id == JobId("young")


def test_equal_importance_preempts_nobody():
    assert PriorityPolicy().should_preempt([job("same")], job("new")) is None
    assert FIFOPolicy().should_preempt([job("low", 1)], job("new")) is None


def test_a_policy_that_only_selects_is_whole():
    assert Newest().should_preempt([job("low", 1)], job("new")) is None


@pytest.mark.parametrize("name", ["priority", "fifo", "fairshare", "shortest", "backfill"])
def test_built_in_names_take_the_fast_path(name, installed):
    policy = load_policy(name, 60)
    assert policy.name == name
    assert not isinstance(policy, ChoicePolicy)


@pytest.mark.parametrize("value", ["Newest", "newest"], ids=["a class", "an object"])
def test_an_installed_policy_is_found_by_its_name(installed, value):
    installed(backwards=f"{__name__}:{value}")
    policy = load_policy("backwards", 60)
    assert isinstance(policy, ChoicePolicy)
    assert policy.name == "backwards"
    found = policy.choose(QUEUE, [job("a"), job("b")])
    assert found is not None
    assert found.job_id == "b"


def test_a_built_in_name_cannot_be_taken_over(installed):
    installed(fifo=f"{__name__}:Newest")
    assert not isinstance(load_policy("fifo", 60), ChoicePolicy)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (f"{__name__}:Fails", "cannot be loaded: no licence"),
        (f"{__name__}:Nothing", "cannot be loaded: "),
        ("no_such_package_at_all:X", "cannot be loaded: No module named"),
        (f"{__name__}:job", "is no tgpu.policies.SchedulingPolicy"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_with_its_origin(installed, value, sentence):
    installed(bad=value)
    with pytest.raises(ValueError, match="scheduling policy 'bad'") as caught:
        load_policy("bad", 60)
    assert sentence in str(caught.value)
    assert value in str(caught.value)


def test_an_unknown_name_lists_those_there_are(installed):
    installed(lottery=f"{__name__}:Newest")
    with pytest.raises(ValueError, match=r"there are: priority, fifo, .*adaptive.*, lottery$"):
        load_policy("best", 60)


def test_a_policy_of_simulations_alone_is_refused_with_what_to_take():
    with pytest.raises(
        ValueError, match=r"'tiresias' .* only in `tgpu sim`; for a service use las"
    ):
        load_policy("tiresias", 60)


def test_another_package_may_bring_a_policy_of_that_name(installed):
    installed(tiresias=f"{__name__}:Newest")
    assert isinstance(load_policy("tiresias", 60), ChoicePolicy)
