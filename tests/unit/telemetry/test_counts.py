"""The numbers behind the metrics."""

import pytest
from msgspec.structs import replace

from tests.builders import a_job, a_placement, a_queue, a_state
from tgpu.core.accounting.sla import Promise
from tgpu.core.model import lifecycle
from tgpu.core.model.cause import Fault
from tgpu.core.model.events import JobMoved, JobsSubmitted
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.lifecycle import PENDING, JobState, Move, Progress
from tgpu.core.model.plan import Plan, Start
from tgpu.core.projection.estimate import Announced
from tgpu.devices.api import Snapshot
from tgpu.service.reads.cluster_reads import ClusterReads
from tgpu.telemetry.counts import Counts, HistogramTally

J1 = JobId("j1")


@pytest.fixture
def counts() -> Counts:
    counts = Counts()
    counts.opening(ClusterReads(a_state(a_job("j1", submitted_at=1000))))
    return counts


def started(at: int = 4000, attempt: int = 1) -> JobMoved:
    before = Progress(attempt=attempt - 1)
    return JobMoved(at, J1, Move.START, lifecycle.place(J1, before, a_placement(0), at))


def ended(state: JobState = JobState.COMPLETED, at: int = 9000) -> JobMoved:
    running = lifecycle.run(J1, started().progress, 4000, pid=1)
    move = Move.COMPLETE if state is JobState.COMPLETED else Move.FAIL
    return JobMoved(at, J1, move, lifecycle.end(J1, running, state, at))


def test_a_value_on_a_bound_counts_below_it():
    tally = HistogramTally((1.0, 5.0))
    for value in (0.5, 1.0, 5.0, 7.0):
        tally.add(value)
    assert tally.buckets() == [("1.0", 2), ("5.0", 3), ("+Inf", 4)]
    assert (tally.count, tally.sum) == (4, 13.5)


def test_jobs_that_are_submitted_together_count_each(counts):
    counts.committed([JobsSubmitted(0, (a_job("a"), a_job("b")))], [], 0.01)
    assert counts.entered == {JobState.PENDING: 2}


def test_a_move_counts_the_state_it_leads_to(counts):
    counts.committed([started(), ended(JobState.FAILED)], [], 0.01)
    assert counts.entered == {JobState.SCHEDULED: 1, JobState.FAILED: 1}


@pytest.mark.parametrize("move", [Move.HOLD, Move.RELEASE])
def test_a_move_that_changes_no_state_counts_for_none(counts, move):
    progress = lifecycle.hold(J1, PENDING, move is Move.HOLD)
    counts.committed([JobMoved(0, J1, move, progress)], [], 0.01)
    assert counts.entered.total() == 0


def test_the_wait_ends_with_the_first_start(counts):
    counts.committed([started(at=4000)], [], 0.01)
    counts.committed([started(at=90_000, attempt=2)], [], 0.01)
    assert (counts.waits.count, counts.waits.sum) == (1, 3.0)
    assert [tally.sum for tally in counts.waits_of.values()] == [3.0]


def test_the_run_time_is_kept_by_how_the_job_ended(counts):
    counts.committed([ended(JobState.FAILED, at=9000)], [], 0.01)
    assert counts.runs[JobState.FAILED].sum == 5.0
    assert counts.runs[JobState.COMPLETED].count == 0


def test_a_job_cancelled_before_it_started_has_no_run_time(counts):
    over = lifecycle.end(J1, PENDING, JobState.CANCELLED, 5000)
    counts.committed([JobMoved(5000, J1, Move.CANCEL, over)], [], 0.01)
    assert counts.entered[JobState.CANCELLED] == 1
    assert counts.runs[JobState.CANCELLED].count == 0


def test_a_clock_that_was_set_back_makes_no_negative_time(counts):
    counts.committed([started(at=0)], [], 0.01)
    assert counts.waits.sum == 0


def test_a_preemption_is_counted(counts):
    progress = Progress(JobState.PREEMPTED, attempt=1)
    counts.committed([JobMoved(0, J1, Move.PREEMPT, progress)], [], 0.01)
    assert counts.preemptions == 1


def test_attempts_that_did_not_end_well_are_counted_by_whose_fault_it_was(counts):
    failed = Progress(JobState.FAILED, attempt=2, fault=Fault.XID)
    again = Progress(JobState.PENDING, attempt=1, fault=Fault.XID)
    held = replace(again, held=True)
    moves = [(Move.REQUEUE, again), (Move.HOLD, held), (Move.FAIL, failed)]
    counts.committed([JobMoved(0, J1, move, after) for move, after in moves], [], 0.01)
    assert counts.failures == {Fault.XID: 2}


def test_commits_events_and_failures_are_counted(counts):
    counts.committed([started(), ended()], [], 0.25)
    counts.commit_failed("disk full")
    assert (counts.commits.count, counts.commits.sum, counts.events) == (1, 0.25, 2)
    assert counts.commit_failures == 1


def test_the_time_since_the_last_cycle_starts_anew_with_each():
    now = 100.0
    counts = Counts(lambda: now)
    now = 130.0
    assert counts.seconds_since_cycle() == 30
    counts.cycled(Plan((Start(J1, a_placement(0)),)), 0.5)
    now = 131.0
    assert counts.seconds_since_cycle() == 1
    assert counts.uptime_seconds() == 31
    assert (counts.starts, counts.cycles.sum) == (1, 0.5)


def test_the_newest_reading_of_each_node_is_kept(counts):
    counts.measured(NodeId("n0"), Snapshot("simulated", ()))
    newer = Snapshot("simulated", (), problem="slow")
    counts.measured(NodeId("n0"), newer)
    assert counts.snapshots == {"n0": newer}


def test_missed_deadlines_and_wait_targets_are_counted(counts):
    queue = a_queue("default", wait_target_ms=2000)
    counts.opening(
        ClusterReads(a_state(a_job("j1", submitted_at=1000, deadline_at=8000), queues=[queue]))
    )
    counts.committed([started(at=3000), ended(at=8000)], [], 0.01)
    assert not counts.broken
    counts.committed([started(at=3001), started(at=4000, attempt=2), ended(at=8001)], [], 0.01)
    assert counts.broken == {Promise.WAIT_TARGET: 1, Promise.DEADLINE: 1}


def test_starts_that_were_foreseen_count_by_what_of_it_was_kept():
    counts = Counts()
    for started_at in (900, 1000, 1500, 2000, 2001):
        job_id, tenant_id = JobId(str(started_at)), TenantId("t")
        counts.start_scored(
            Announced(job_id, tenant_id, "default", 0, 1000, 1000, 2000, started_at)
        )
    assert counts.estimated == {"p50": 2, "p90": 2, "later": 1}
    assert counts.estimate_errors.count == 5
    assert counts.estimate_errors.sum == pytest.approx(2.601)
