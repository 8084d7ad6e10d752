"""Events in words for people."""

import pytest

from tests.builders import a_job
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Detail
from tgpu.core.model.lifecycle import JobState, Progress
from tgpu.notices.notice import NoticeKind
from tgpu.notices.words import budget_notice, gpu_notice, job_notice
from tgpu.service.accounting.budget_enforcement import BudgetNotice
from tgpu.service.feed.feed_event import FeedEvent
from tgpu.store.api import StoredJob

ALL = frozenset(kind.value for kind in NoticeKind)


def an_event(kind: str, state: JobState = JobState.RUNNING, **data: object) -> FeedEvent:
    return FeedEvent(7, 90_000, kind, JobId("12"), TenantId("vision"), state, data)


def a_stored(name: str = "", started_at: int | None = None, **fields) -> StoredJob:
    progress = Progress(started_at=started_at, state=JobState.COMPLETED, ended_at=90_000)
    return StoredJob(1, a_job("12", **fields), Detail(name=name, user="ada"), progress)


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("job_started", {}, (NoticeKind.START, "job 12 started")),
        ("job_completed", {}, (NoticeKind.END, "job 12 completed")),
        ("job_cancelled", {}, (NoticeKind.END, "job 12 was cancelled")),
        ("job_failed", {}, (NoticeKind.FAILURE, "job 12 failed")),
        (
            "job_preempted",
            {},
            (NoticeKind.PREEMPTION, "job 12 was preempted and is back in the queue"),
        ),
        (
            "job_noted",
            {"cause": "idle: GPU 0 was idle for 30 min"},
            (NoticeKind.IDLE, "job 12 leaves its GPUs idle"),
        ),
    ],
)
def test_what_happens_to_jobs_is_told(kind, data, told):
    notice = job_notice(an_event(kind, **data), None, ALL)
    assert notice is not None
    assert (notice.kind, notice.title) == told


@pytest.mark.parametrize("kind", ["job_submitted", "job_scheduled", "job_requeued", "job_held"])
def test_what_is_no_news_is_not_told(kind):
    assert job_notice(an_event(kind), None, ALL) is None


def test_a_note_about_memory_is_not_taken_for_idleness():
    event = an_event("job_noted", cause="uses 900 MiB of GPU 0's memory; its share is 400 MiB")
    assert job_notice(event, None, ALL) is None


def test_a_note_that_was_taken_back_is_not_told():
    assert job_notice(an_event("job_noted"), None, ALL) is None


def test_who_wants_ends_hears_of_a_failure_once():
    notice = job_notice(an_event("job_failed", JobState.FAILED), None, {"end"})
    assert notice is not None
    assert notice.kind is NoticeKind.END
    assert notice.title == "job 12 failed"


def test_the_lines_say_where_how_and_for_how_long():
    event = an_event(
        "job_completed", JobState.COMPLETED, node="local", gpus=[0, 3], exit_code=0, attempt=2
    )
    notice = job_notice(event, a_stored("train", started_at=10_000), ALL)
    assert notice is not None
    assert notice.title == "job 12 (train) completed"
    assert notice.text.splitlines() == [
        *("tenant: vision", "user: ada", "node: local", "GPUs: 0, 3", "attempt: 2"),
        *("exit code: 0", "ran: 1m20s", "at: 1970-01-01 00:01:30 UTC", "see: tgpu show 12"),
    ]


def test_a_name_stays_on_its_line_and_is_not_endless():
    notice = job_notice(an_event("job_started"), a_stored("a\r\nBcc: b\x1b[31m" + "x" * 900), ALL)
    assert notice is not None
    assert notice.title.isprintable()
    assert len(notice.title) < 600


def test_several_gpus_are_told_together():
    event = FeedEvent(9, 1, "node_changed", data={"node": "n", "problems": {"10": "a", "2": "b"}})
    notice = gpu_notice(event, {})
    assert notice is not None
    assert notice.title == "GPU 2, 10 of n have a problem"
    assert notice.gpus == (2, 10)


def test_another_problem_of_the_same_gpu_is_news():
    event = FeedEvent(9, 1, "node_changed", data={"node": "n", "problems": {"0": "Xid 79"}})
    assert gpu_notice(event, {"0": "Xid 79"}) is None
    assert gpu_notice(event, {"0": "ECC"}) is not None


@pytest.mark.parametrize(
    ("percent", "window", "words"),
    [(80, "month", "has used 80 % of its budget of this month"), (100, "total", "in all")],
)
def test_a_budget_is_told_with_its_window(percent, window, words):
    notice = budget_notice(TenantId("t"), BudgetNotice(window, 5, percent, 1000), at=9)
    assert words in notice.text
