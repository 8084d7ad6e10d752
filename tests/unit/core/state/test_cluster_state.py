from dataclasses import replace

import pytest

from tests.builders import (
    a_job,
    a_node,
    a_placement,
    a_queue,
    a_state,
    a_tenant,
    averages,
    end,
    entry_of,
    hold,
    move,
    requeue,
    run,
    snapshot,
    start,
    submit,
    waiting_ids,
)
from tgpu.core.check import check_invariants
from tgpu.core.errors import InvariantBroken
from tgpu.core.model.events import (
    JobChanged,
    JobMoved,
    NodeSet,
    QueueRemoved,
    QueueSet,
    TenantSet,
    TimePassed,
)
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Dependency, DependencyKind
from tgpu.core.model.lifecycle import PENDING, JobState, Move, Progress
from tgpu.core.state.cluster_state import State, unmet_cause


def test_a_new_job_waits() -> None:
    state = a_state(a_job("a"))
    assert waiting_ids(state) == ["a"]
    assert (state.live_count(), state.pending_count(), state.counts[JobState.PENDING]) == (1, 1, 1)


def test_a_placed_job_has_its_gpus_and_waits_no_more() -> None:
    state = a_state(a_job("a", gpus=2, cpus=3, mem_mib=7))
    start(state, "a", 0, 1)
    use = state.ledger.node(a_node().node_id)
    assert use.gpu_millis == {0: 1000, 1: 1000}
    assert (use.cpu_millis, use.mem_mib) == (3000, 7)
    assert waiting_ids(state) == []
    assert state.pending_count() == 0


@pytest.mark.parametrize("to", [JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED])
def test_a_job_that_is_over_is_dropped_and_gives_all_back(to: JobState) -> None:
    state = a_state(a_job("a", array="x", array_max=1))
    before = snapshot(a_state())
    start(state, "a", 0)
    end(state, "a", to)
    assert state.entry(JobId("a")) is None
    assert snapshot(state) == before
    assert state.counts[to] == 1


def test_placed_lists_by_start_then_id() -> None:
    state = a_state(a_job("b"), a_job("a"), a_job("c"))
    start(state, "b", 0, at=5)
    start(state, "c", 1, at=3)
    start(state, "a", 2, at=5)
    assert [entry.job.job_id for entry in state.placed()] == ["c", "a", "b"]


def test_a_held_job_does_not_wait_in_the_queue_until_released() -> None:
    state = a_state()
    submit(state, a_job("a"), held=["a"])
    assert waiting_ids(state) == []
    hold(state, "a", held=False)
    assert waiting_ids(state) == ["a"]


def test_a_preempted_job_waits_only_once_it_is_requeued() -> None:
    state = a_state(a_job("a"))
    start(state, "a", 0)
    move(state, "a", Move.PREEMPT, Progress(state=JobState.PREEMPTED, attempt=1))
    check_invariants(state)
    assert waiting_ids(state) == []
    requeue(state, "a")
    assert waiting_ids(state) == ["a"]


class TestDependencies:
    def test_a_dependent_waits_for_the_other_to_complete(self) -> None:
        state = a_state(a_job("a"), a_job("b", after=("a",)))
        assert waiting_ids(state) == ["a"]
        start(state, "a", 0)
        end(state, "a")
        assert waiting_ids(state) == ["b"]

    @pytest.mark.parametrize("to", [JobState.FAILED, JobState.CANCELLED])
    def test_after_ok_is_unsatisfiable_when_the_other_does_not_complete(self, to: JobState) -> None:
        state = a_state(a_job("a"), a_job("b", after=("a",)))
        start(state, "a", 0)
        end(state, "a", to)
        assert waiting_ids(state) == []
        assert state.unsatisfiable() == [("b", f"job a it depends on {to}")]

    def test_after_any_starts_however_the_other_ended(self) -> None:
        state = a_state(a_job("a"), a_job("b", after=("a:any",)))
        end(state, "a", JobState.CANCELLED)
        assert waiting_ids(state) == ["b"]

    def test_several_dependencies_must_all_be_over(self) -> None:
        state = a_state(a_job("a"), a_job("b"), a_job("c", after=("a:any", "b:any")))
        end(state, "b", JobState.CANCELLED)
        assert waiting_ids(state) == ["a"]
        end(state, "a", JobState.CANCELLED)
        assert waiting_ids(state) == ["c"]

    def test_the_first_failure_stays_the_cause(self) -> None:
        state = a_state(a_job("a"), a_job("b"), a_job("c", after=("a", "b")))
        end(state, "b", JobState.CANCELLED)
        end(state, "a", JobState.CANCELLED)
        assert state.unsatisfiable() == [("c", "job b it depends on cancelled")]

    def test_naming_a_job_twice_waits_for_it_once(self) -> None:
        state = a_state(a_job("a"), a_job("b", after=("a", "a:any")))
        start(state, "a", 0)
        end(state, "a")
        assert waiting_ids(state) == ["b"]
        check_invariants(state)

    def test_a_dependent_cancelled_meanwhile_does_not_come_back(self) -> None:
        state = a_state(a_job("a"), a_job("b", after=("a",)))
        end(state, "b", JobState.CANCELLED)
        start(state, "a", 0)
        end(state, "a", JobState.FAILED)
        assert state.live_count() == 0
        assert state.unsatisfiable() == []

    def test_a_chain_is_given_up_link_by_link(self) -> None:
        state = a_state(a_job("a"), a_job("b", after=("a",)), a_job("c", after=("b",)))
        end(state, "a", JobState.CANCELLED)
        assert [job_id for job_id, _ in state.unsatisfiable()] == ["b"]
        end(state, "b", JobState.CANCELLED)
        assert [job_id for job_id, _ in state.unsatisfiable()] == ["c"]

    def test_a_dependency_that_was_over_before_is_met(self) -> None:
        state = a_state(a_job("b", after=("gone:any",)))
        assert waiting_ids(state) == ["b"]

    def test_a_held_dependent_stays_held_when_its_dependency_is_met(self) -> None:
        state = a_state(a_job("a"))
        submit(state, a_job("b", after=("a:any",)), held=["b"])
        end(state, "a", JobState.CANCELLED)
        assert waiting_ids(state) == []
        hold(state, "b", held=False)
        assert waiting_ids(state) == ["b"]

    def test_a_job_restored_with_an_unmet_dependency_never_waits(self) -> None:
        state = a_state()
        cause = unmet_cause(JobId("a"), JobState.FAILED)
        state.restore(a_job("b", after=("a",)), PENDING, cause)
        assert waiting_ids(state) == []
        assert state.unsatisfiable() == [("b", "job a it depends on failed")]
        assert state.unsatisfiable_cause(JobId("b")) == cause
        check_invariants(state)


class TestTime:
    def test_a_back_off_ends_when_the_clock_reaches_it(self) -> None:
        state = a_state(a_job("a"))
        start(state, "a", 0)
        requeue(state, "a", eligible_at=500)
        assert (waiting_ids(state), state.wakes_at()) == ([], 500)
        state.apply(TimePassed(499))
        assert waiting_ids(state) == []
        state.apply(TimePassed(500))
        assert (waiting_ids(state), state.wakes_at()) == (["a"], None)

    def test_a_back_off_that_is_over_already_does_not_sleep(self) -> None:
        state = a_state(a_job("a"), now=1000)
        start(state, "a", 0)
        requeue(state, "a", eligible_at=1000)
        assert waiting_ids(state) == ["a"]

    def test_a_clock_set_back_puts_nobody_back_to_sleep(self) -> None:
        state = a_state(a_job("a"))
        start(state, "a", 0)
        requeue(state, "a", eligible_at=500)
        state.apply(TimePassed(600))
        state.apply(TimePassed(10))
        assert (state.now, waiting_ids(state)) == (600, ["a"])
        hold(state, "a")
        check_invariants(state)

    def test_a_sleeping_job_that_is_held_sleeps_on_after_release(self) -> None:
        state = a_state(a_job("a"))
        start(state, "a", 0)
        requeue(state, "a", eligible_at=500)
        hold(state, "a")
        assert state.wakes_at() is None
        hold(state, "a", held=False)
        assert state.wakes_at() == 500

    def test_a_lease_is_up_when_its_time_limit_is(self) -> None:
        state = a_state(a_job("a", lease=True, time_limit_ms=100))
        start(state, "a", 0, at=50)
        assert state.wakes_at() == 150
        assert state.expired_leases(149) == []
        assert state.expired_leases(150) == ["a"]

    def test_a_lease_counts_from_when_it_runs(self) -> None:
        state = a_state(a_job("a", lease=True, time_limit_ms=100))
        start(state, "a", 0, at=50)
        run(state, "a", at=70)
        assert state.expired_leases(150) == []
        assert state.expired_leases(170) == ["a"]

    def test_a_lease_that_is_given_back_does_not_expire(self) -> None:
        state = a_state(a_job("a", lease=True, time_limit_ms=100))
        start(state, "a", 0)
        end(state, "a")
        assert (state.expired_leases(10**9), state.wakes_at()) == ([], None)

    @pytest.mark.parametrize("options", [{"lease": True}, {"time_limit_ms": 100}])
    def test_only_a_lease_with_a_limit_expires(self, options) -> None:
        state = a_state(a_job("a", **options))
        start(state, "a", 0)
        assert state.expired_leases(10**9) == []


class TestBugsAreCaught:
    def test_a_job_that_is_there_twice(self) -> None:
        with pytest.raises(InvariantBroken, match="job a is in the state twice"):
            submit(a_state(a_job("a")), a_job("a"))

    def test_a_job_of_no_tenant(self) -> None:
        with pytest.raises(InvariantBroken, match="job a names unknown tenant nobody"):
            submit(a_state(), a_job("a", tenant="nobody"))

    def test_a_move_of_no_job(self) -> None:
        with pytest.raises(InvariantBroken, match="moves unknown job a"):
            a_state().apply(JobMoved(0, JobId("a"), Move.CANCEL, PENDING))

    def test_a_running_job_that_is_nowhere(self) -> None:
        with pytest.raises(InvariantBroken, match="job a is running nowhere"):
            a_state().restore(a_job("a"), Progress(state=JobState.RUNNING))

    def test_a_running_job_on_no_node(self) -> None:
        progress = Progress(state=JobState.RUNNING, placement=a_placement(0, node="gone"))
        with pytest.raises(InvariantBroken, match="names node gone, which was never set"):
            a_state().restore(a_job("a"), progress)

    def test_a_job_that_is_over(self) -> None:
        with pytest.raises(InvariantBroken, match="job a is failed"):
            a_state().restore(a_job("a"), Progress(state=JobState.FAILED))


def test_a_state_restored_job_by_job_is_the_one_that_lived() -> None:
    lived = a_state(
        a_job("run", lease=True, time_limit_ms=100),
        a_job("wait"),
        a_job("sleep"),
        a_job("after", after=("run",)),
        a_job("over"),
        now=10,
    )
    start(lived, "run", 0, at=10)
    start(lived, "sleep", 1)
    requeue(lived, "sleep", eligible_at=900, counts=True)
    end(lived, "over", JobState.CANCELLED)
    hold(lived, "wait")
    restored = State()
    restored.apply(TenantSet(0, a_tenant()))
    restored.apply(NodeSet(0, a_node()))
    restored.apply(TimePassed(10))
    for entry in lived.entries():
        restored.restore(entry.job, entry.progress)
    restored.restore_meters(averages(lived), now=10)
    assert snapshot(restored) == snapshot(lived)


def test_a_new_quota_or_node_keeps_what_is_in_use() -> None:
    state = a_state(a_job("a"))
    start(state, "a", 0)
    state.apply(TenantSet(0, a_tenant(gpus=0)))
    state.apply(NodeSet(0, a_node(gpus=0)))
    check_invariants(state)
    assert entry_of(state, "a").progress.state is JobState.SCHEDULED
    end(state, "a")
    check_invariants(state)


@pytest.mark.parametrize("held", [False, True])
def test_a_job_with_another_priority_is_of_another_class(held: bool) -> None:
    state = a_state(a_job("a"), a_job("b"))
    if held:
        hold(state, "b")
    state.apply(JobChanged(0, replace(entry_of(state, "b").job, priority=900)))
    check_invariants(state)
    assert entry_of(state, "b").queue.job_class.priority == 900
    assert entry_of(state, "a").queue is not entry_of(state, "b").queue
    assert len(state.waiting) == 1 + (not held)


def test_a_job_that_waits_for_others_than_before_is_filed_by_them() -> None:
    state = a_state(a_job("a"), a_job("b"), a_job("c", after=("a:ok",)))
    job = entry_of(state, "c").job
    state.apply(JobChanged(0, replace(job, after=(Dependency(JobId("b"), DependencyKind.OK),))))
    check_invariants(state)
    end(state, "a", JobState.CANCELLED)
    assert entry_of(state, "c").unmet == 1
    state.apply(JobChanged(0, replace(job, after=())))
    check_invariants(state)
    assert entry_of(state, "c").unmet == 0
    assert len(state.waiting) == 2


def test_an_unknown_job_is_not_changed() -> None:
    with pytest.raises(InvariantBroken, match="unknown job x"):
        a_state().apply(JobChanged(0, a_job("x")))


def test_a_queue_made_or_removed_under_running_jobs_counts_right() -> None:
    state = a_state(a_job("a", queue="q"), a_job("b", queue="q"))
    start(state, "a", 0)
    state.apply(QueueSet(0, a_queue("q")))
    start(state, "b", 1)
    use = state.ledger.queue(TenantId("default"), "q")
    assert use is not None
    assert use.running == 2
    state.apply(QueueRemoved(0, TenantId("default"), "q"))
    end(state, "a")
    state.apply(QueueSet(0, a_queue("q")))
    check_invariants(state)
    end(state, "b")
    check_invariants(state)
