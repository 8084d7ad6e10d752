"""The checker of histories finds each fault that is planted, and nothing where there is none."""

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from tests.builders import a_job, a_placement
from tgpu.core.model import lifecycle
from tgpu.core.model.cause import Fault
from tgpu.core.model.events import Event, JobMoved, JobsSubmitted
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.lifecycle import PENDING, JobState, Move, Progress
from tgpu.core.model.node import Part, Share
from tgpu.engines.api import AttemptKey, Place, RecordedStart
from tgpu.journal.history_check import check_history

A, B = JobId("a"), JobId("b")
NODE = a_placement(0).node_id


class Story:
    """A good history of two jobs, one behind the other on GPU 0; the second still runs."""

    def __init__(self) -> None:
        self.now: dict[JobId, Progress] = {A: PENDING, B: PENDING}
        self.events: list[Event] = [JobsSubmitted(0, (a_job("a"), a_job("b")))]
        self.runs: list[RecordedStart] = []
        self.start(A, 10)
        self.run(A, 11)
        self.end(A, 20, JobState.COMPLETED, exit_code=0)
        self.runs.append(RecordedStart(AttemptKey("a", 1), 11, 20))
        self.start(B, 20)
        self.run(B, 21)
        self.runs.append(RecordedStart(AttemptKey("b", 1), 21, is_alive=True))

    def start(self, job_id: JobId, at: int, gpu: int = 0) -> None:
        self.move(
            at, job_id, Move.START, lifecycle.place(job_id, self.now[job_id], a_placement(gpu), at)
        )

    def run(self, job_id: JobId, at: int) -> None:
        self.move(at, job_id, Move.RUN, lifecycle.run(job_id, self.now[job_id], at, 1))

    def end(self, job_id: JobId, at: int, to: JobState, **facts: object) -> None:
        moves = {JobState.COMPLETED: Move.COMPLETE, JobState.FAILED: Move.FAIL}
        over = lifecycle.end(job_id, self.now[job_id], to, at, **facts)  # type: ignore[arg-type]
        self.move(at, job_id, moves[to], over)

    def move(self, at: int, job_id: JobId, move: Move, progress: Progress) -> None:
        self.now[job_id] = progress
        self.events.append(JobMoved(at, job_id, move, progress))

    def faults(self, acknowledged: Sequence[str] = ("a", "b")) -> list[str]:
        return check_history(self.events, self.runs, acknowledged=acknowledged, is_settled=True)


def test_a_good_history_has_no_faults() -> None:
    assert Story().faults() == []


def again(story: Story) -> None:
    story.runs.append(RecordedStart(AttemptKey("b", 1), 25, 26))


def undecided(story: Story) -> None:
    story.runs.append(RecordedStart(AttemptKey("a", 2), 25, 26))


def same_number(story: Story) -> None:
    story.now[B] = lifecycle.requeue(B, story.now[B], 30, "node failed", counts=False, at=30)
    story.events.append(JobMoved(30, B, Move.REQUEUE, story.now[B]))
    placed = lifecycle.place(B, story.now[B], a_placement(1), 31)
    story.move(31, B, Move.START, replace(placed, attempt=1))


def runs_twice_in_the_books(story: Story) -> None:
    story.events.append(story.events[-1])


def on_a_taken_gpu(story: Story) -> None:
    story.events.insert(0, JobsSubmitted(0, (a_job("c"),)))
    story.now[JobId("c")] = PENDING
    story.start(JobId("c"), 30)


def overlapping(story: Story) -> None:
    story.runs[0] = RecordedStart(AttemptKey("a", 1), 11, 22)


def overlapping_where_the_engine_put_them(story: Story) -> None:
    place = Place((Part(NodeId("x"), (Share(3, 1000),)),))
    story.runs = [
        RecordedStart(AttemptKey("a", 1), 11, 22, place=place),
        RecordedStart(AttemptKey("b", 1), 21, is_alive=True, place=place),
    ]


def never_ended(story: Story) -> None:
    story.runs[0] = RecordedStart(AttemptKey("a", 1), 11, is_alive=True)


def gone(story: Story) -> None:
    story.runs[1] = RecordedStart(AttemptKey("b", 1), 21, 22)


def without_a_cause(story: Story) -> None:
    story.end(B, 30, JobState.FAILED, exit_code=1)


def nobody_to_blame(story: Story) -> None:
    story.end(B, 30, JobState.FAILED, exit_code=1, cause="exit code 1")
    story.runs[1] = RecordedStart(AttemptKey("b", 1), 21, 30)


def completed_with_another_code(story: Story) -> None:
    story.end(B, 30, JobState.COMPLETED, exit_code=3)


def after_its_end(story: Story) -> None:
    story.events.append(JobMoved(40, A, Move.RUN, story.now[B]))


def never_submitted(story: Story) -> None:
    del story.events[0]


def twice_submitted(story: Story) -> None:
    story.events.append(story.events[0])


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (again, "attempt 1 of job b was started 2 times by the engine"),
        (undecided, "attempt 2 of job a ran, and nobody had decided it"),
        (same_number, "attempt 1 of job b was started twice"),
        (runs_twice_in_the_books, "attempt 1 of job b began to run twice"),
        (on_a_taken_gpu, f"GPU 0 of node {NODE} was given to job c too: 2000 thousandths"),
        (overlapping, f"GPU 0 of node {NODE} had job b on it too, from 21 on"),
        (overlapping_where_the_engine_put_them, "GPU 3 of node x had job b on it too, from 21 on"),
        (never_ended, "attempt 1 of job a runs, and no job asks for it"),
        (gone, "attempt 1 of job b should run, and the engine has it not alive"),
        (without_a_cause, "job b came to fail without a cause"),
        (nobody_to_blame, "job b failed, and nobody is to blame"),
        (completed_with_another_code, "job b completed with exit code 3 and not 0"),
        (after_its_end, "job a was completed and cannot run"),
        (never_submitted, "job a moved and was never submitted"),
        (twice_submitted, "job a was submitted twice"),
    ],
)
def test_a_planted_fault_is_found(plant: Callable[[Story], None], found: str) -> None:
    story = Story()
    plant(story)
    assert any(fault.startswith(found) for fault in story.faults()), story.faults()


def test_a_job_that_was_acknowledged_and_is_gone_is_found() -> None:
    assert Story().faults(["a", "b", "z"]) == ["job z was acknowledged and is not in the journal"]


def test_one_that_was_preempted_must_wait_again() -> None:
    story = Story()
    story.move(
        30,
        B,
        Move.PREEMPT,
        replace(lifecycle.preempt(B, story.now[B], 30, 1000), cause="preempted for job c"),
    )
    story.runs[1] = RecordedStart(AttemptKey("b", 1), 21, 30)
    assert story.faults() == ["job b was preempted and is neither waiting nor over"]


def test_what_failed_with_a_cause_and_a_fault_is_well() -> None:
    story = Story()
    over = lifecycle.end(B, story.now[B], JobState.FAILED, 30, exit_code=1, cause="exit code 1")
    story.move(30, B, Move.FAIL, replace(over, fault=Fault.USER_ERROR))
    story.runs[1] = RecordedStart(AttemptKey("b", 1), 21, 30)
    assert story.faults() == []


def test_an_attempt_that_nobody_saw_end_is_over_when_that_was_concluded() -> None:
    story = Story()
    story.runs[0] = RecordedStart(AttemptKey("a", 1), 11)
    assert story.faults() == []


def test_before_all_is_told_both_sides_may_differ() -> None:
    story = Story()
    gone(story)
    assert check_history(story.events, story.runs) == []
