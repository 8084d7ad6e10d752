"""What a job has used up, from its moves."""

from tests.builders import a_job, a_placement
from tgpu.core.accounting.receipt import receipt_of
from tgpu.core.model import lifecycle
from tgpu.core.model.cause import Fault
from tgpu.core.model.events import JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import PENDING, JobState, Move, Progress

JOB = a_job("j", gpus=2, submitted_at=100)
ID = JobId("j")


class Story:
    """The moves of one job, and how it stands."""

    def __init__(self) -> None:
        self.moves: list[JobMoved] = []
        self.progress = PENDING

    def then(self, at: int, move: Move, progress: Progress) -> "Story":
        self.progress = progress
        self.moves.append(JobMoved(at, ID, move, progress))
        return self

    def start(self, at: int) -> "Story":
        return self.then(
            at, Move.START, lifecycle.place(ID, self.progress, a_placement(0, 1), at)
        ).then(at + 1, Move.RUN, lifecycle.run(ID, self.progress, at + 1, 7))

    def end(self, at: int) -> "Story":
        over = lifecycle.end(ID, self.progress, JobState.COMPLETED, at, exit_code=0)
        return self.then(at, Move.COMPLETE, over)

    def preempt(self, at: int) -> "Story":
        gone = lifecycle.preempt(ID, self.progress, at, 2000)
        return self.then(at, Move.PREEMPT, gone).then(
            at, Move.REQUEUE, lifecycle.requeue(ID, gone, at, "preempted", counts=False)
        )


def test_a_job_that_ran_once_has_its_wait_and_its_gpu_time() -> None:
    story = Story().start(1_100).end(5_101)
    found = receipt_of(JOB, story.progress, story.moves, 9_999)
    assert (found.wait_ms, found.run_ms, found.gpu_millis_ms) == (1_000, 4_000, 8_000_000)
    assert found.complete
    (attempt,) = found.attempts
    assert (attempt.attempt, attempt.gpus, attempt.ended_at) == (1, (("n0", 0), ("n0", 1)), 5_101)
    assert attempt.fault is None


def test_every_attempt_counts_and_so_does_the_wait_between() -> None:
    story = Story().start(1_100).preempt(2_101).start(4_101).end(5_102)
    found = receipt_of(JOB, story.progress, story.moves, 9_999)
    assert (found.wait_ms, found.run_ms) == (1_000 + 2_000, 1_000 + 1_000)
    assert [each.fault for each in found.attempts] == [Fault.PREEMPTED, None]


def test_what_runs_counts_until_now() -> None:
    story = Story().start(1_100)
    found = receipt_of(JOB, story.progress, story.moves, 3_101)
    assert (found.run_ms, found.gpu_millis_ms) == (2_000, 4_000_000)
    assert found.attempts[0].ended_at is None


def test_a_job_that_waits_has_waited_until_now() -> None:
    found = receipt_of(JOB, PENDING, [], 600)
    assert (found.wait_ms, found.run_ms, found.attempts) == (500, 0, ())


def test_one_that_was_cancelled_before_it_began_waited_until_then() -> None:
    over = lifecycle.end(ID, PENDING, JobState.CANCELLED, 400)
    moves = [JobMoved(400, ID, Move.CANCEL, over)]
    assert receipt_of(JOB, over, moves, 9_999).wait_ms == 300


def test_where_the_record_is_cut_the_last_attempt_alone_is_told_and_that_it_is() -> None:
    story = Story().start(1_100).preempt(2_101).start(4_101).end(5_102)
    found = receipt_of(JOB, story.progress, story.moves[3:], 9_999)
    assert not found.complete
    assert [(each.attempt, each.run_ms) for each in found.attempts] == [(2, 1_000)]


def test_where_the_record_is_cut_before_a_start_there_is_nothing_to_tell() -> None:
    story = Story().start(1_100).preempt(2_101)
    found = receipt_of(JOB, story.progress, [], 9_999)
    assert (found.complete, found.attempts) == (False, ())
