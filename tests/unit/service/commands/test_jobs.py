"""The commands on jobs, in every state they can meet."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.builders import a_job
from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.errors import (
    Conflict,
    Duplicate,
    IllegalMove,
    InvalidRequest,
    NotFound,
    Unavailable,
)
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Dependency, DependencyKind, Options, Request
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.reasons import ReasonCode
from tgpu.service.commands.submission import MAX_ELEMENTS, Submission
from tgpu.store.memory import MemoryStore


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    async with a_box() as made:
        yield made


def after(*names: str) -> tuple[Dependency, ...]:
    """ "a" waits for a to complete, "a:any" for its end."""
    pairs = [name.partition(":") for name in names]
    return tuple(Dependency(JobId(n), DependencyKind(kind or "ok")) for n, _, kind in pairs)


async def ended(box: Box, job_id: str, state: JobState, **options: Any) -> None:
    """A job that has run and is over in this state."""
    made = a_submission("true", job_id=job_id, options=Options(**options))
    await box.submit(made)
    if state is JobState.CANCELLED:
        await box.service.jobs.cancel(JobId(job_id))
        return
    key = await box.run(job_id)
    box.engine.finish(key, 0 if state is JobState.COMPLETED else 3)
    await box.until(job_id, state)


async def in_state(box: Box, name: str) -> str:
    """A job in each state that a command can meet."""
    job_id = name.replace(" ", "-")
    if name in ("completed", "failed", "cancelled"):
        await ended(box, job_id, JobState(name))
        return job_id
    argv = () if "lease" in name else ("true",)
    await box.submit(a_submission(*argv, job_id=job_id, held="held" in name))
    if "running" in name:
        await box.run(job_id)
    elif name == "scheduled":
        box.engine.starts = False
        await box.tick()
    return job_id


# -- submit ----------------------------------------------------------------------------------


async def test_ids_count_up_and_skip_names_that_callers_took(box: Box) -> None:
    await box.submit(a_submission("true", job_id="2"))
    assert [await box.submit(a_submission("true")) for _ in range(3)] == ["1", "3", "4"]


async def test_ids_go_on_where_they_stopped() -> None:
    store = MemoryStore()
    async with a_box(store=store) as first:
        assert await first.submit(a_submission("true")) == "1"
    async with a_box(store=store) as second:
        assert await second.submit(a_submission("true")) == "2"


async def test_an_array_whose_elements_callers_took_gets_the_next_number(box: Box) -> None:
    await box.submit(a_submission("true", job_id="1.2"))
    submitted = await box.service.jobs.submit(a_submission("true", indexes=(1, 2)))
    assert submitted.job_ids == ("2.1", "2.2")


async def test_an_array_is_queued_whole_or_not_at_all(box: Box) -> None:
    await box.submit(a_submission("true", job_id="a.2"))
    with pytest.raises(Duplicate):
        await box.service.jobs.submit(a_submission("true", job_id="a", indexes=(1, 2, 3)))
    assert box.service.state.live_count() == 1


async def test_a_submission_without_a_command_is_a_lease(box: Box) -> None:
    await box.submit(a_submission(job_id="lease"))
    assert await box.tick() == ["lease"]
    assert await box.state_of("lease") is JobState.RUNNING
    assert box.engine.launched == []


async def test_without_an_engine_every_job_is_a_lease() -> None:
    async with a_box(leases=True) as box:
        await box.submit(a_submission("python", "t.py", job_id="j"))
        await box.tick()
        assert await box.state_of("j") is JobState.RUNNING


@pytest.mark.parametrize(
    ("submission", "complaint"),
    [
        (a_submission("t", job_id="../x"), "job_id: an id is"),
        (a_submission("t", job_id="last"), "job_id: an id is .* not 'last'"),
        (a_submission("t", job_id=""), "job_id: an id is"),
        (a_submission("t", tenant="nobody"), "tenant_id: no such tenant; there are: default"),
        (a_submission("t", params=(("x", ()),)), "params: each parameter needs"),
        (
            a_submission("t", indexes=tuple(range(1000)), params=(("x", ("v",) * 101),)),
            f"at most {MAX_ELEMENTS} jobs",
        ),
        (a_submission("t", job_id="a" * 128, indexes=(1,)), "job_id: is too long to add"),
        (a_submission("t", gpus=5), "gpu_count: at most 4 GPUs"),
    ],
)
async def test_what_cannot_be_is_refused_and_leaves_no_trace(
    box: Box, submission: Submission, complaint: str
) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        await box.submit(submission)
    assert box.service.state.live_count() == 0
    assert await box.submit(a_submission("true")) == "1"  # no number was spent on it


async def test_a_job_can_begin_on_hold(box: Box) -> None:
    await box.submit(a_submission("true", job_id="j", held=True))
    assert await box.tick() == []
    await box.service.jobs.hold(JobId("j"), held=False)
    assert await box.tick() == ["j"]


async def test_jobs_that_share_an_environment_store_it_once(box: Box) -> None:
    shell = {"PATH": "/bin", "LANG": "C"}
    await box.submit(a_submission("true", job_id="a", base_environment=shell))
    await box.submit(a_submission("true", job_id="b", base_environment=dict(shell)))
    env_ids = {(await box.service.job(job_id)).detail.env_id for job_id in ("a", "b")}
    assert len(env_ids) == 1
    stored = await box.service.store.environment(env_ids.pop() or "")
    assert not any(word in str(stored) for word in ("PATH", "/bin"))  # on record, encrypted
    assert box.service.sealer.opened(stored) == shell


# -- the same request again --------------------------------------------------------------------


async def test_the_same_id_with_the_same_content_is_the_same_job(box: Box) -> None:
    submission = a_submission("true", job_id="j", name="n", base_environment={"A": "1"})
    first = await box.service.jobs.submit(submission)
    again = await box.service.jobs.submit(submission)
    assert (first.repeated, again.repeated) == (False, True)
    assert first.job_ids == again.job_ids == ("j",)
    assert box.service.state.live_count() == 1


@pytest.mark.parametrize(
    "other",
    [
        a_submission("false", job_id="j"),
        a_submission("true", job_id="j", gpus=2),
        a_submission("true", job_id="j", priority=9),
        a_submission("true", job_id="j", name="another"),
        a_submission("true", job_id="j", base_environment={"A": "1"}),
        a_submission("true", job_id="j", options=Options(max_retries=1)),
        a_submission("true", job_id="j", after=after("other")),
    ],
)
async def test_the_same_id_with_other_content_is_refused(box: Box, other: Submission) -> None:
    await box.submit(a_submission("true", job_id="other"))
    await box.submit(a_submission("true", job_id="j"))
    with pytest.raises(Duplicate):
        await box.submit(other)


async def test_a_repeated_request_is_the_same_job_also_once_it_is_over(box: Box) -> None:
    submission = a_submission("true", job_id="j")
    await box.submit(submission)
    box.engine.finish(await box.run("j"))
    await box.until("j", JobState.COMPLETED)
    assert (await box.service.jobs.submit(submission)).repeated


async def test_a_repeated_request_is_the_same_job_whatever_its_dependency_did(box: Box) -> None:
    await box.submit(a_submission("true", job_id="first"))
    submission = a_submission("true", job_id="j", after=after("first"))
    await box.submit(submission)
    await box.service.jobs.cancel(JobId("first"))
    assert (await box.service.jobs.submit(submission)).repeated


async def test_a_repeated_request_that_drops_a_dependency_is_another_job(box: Box) -> None:
    await box.submit(a_submission("true", job_id="first"))
    submission = a_submission("true", job_id="j", after=after("first"))
    await box.submit(submission)
    with pytest.raises(Duplicate):
        await box.submit(replace(submission, after=()))


async def test_a_repeated_array_is_the_same_array(box: Box) -> None:
    submission = a_submission("true", job_id="a", indexes=(1, 2))
    await box.service.jobs.submit(submission)
    again = await box.service.jobs.submit(submission)
    assert (again.repeated, again.job_ids) == (True, ("a.1", "a.2"))
    with pytest.raises(Duplicate):
        await box.service.jobs.submit(replace(submission, indexes=(1, 2, 3)))


async def test_a_request_sent_twice_at_once_is_one_job_for_both(box: Box) -> None:
    """What a client does whose first try timed out while it was being recorded."""
    submission = a_submission("true", job_id="j")
    answers = await asyncio.gather(*(box.service.jobs.submit(submission) for _ in range(5)))
    assert sorted(answer.repeated for answer in answers) == [False, True, True, True, True]
    assert box.service.state.live_count() == 1


async def test_two_requests_at_once_for_one_id_with_other_content_leave_one(box: Box) -> None:
    one, two = a_submission("true", job_id="j"), a_submission("false", job_id="j")
    answers = await asyncio.gather(
        box.service.jobs.submit(one), box.service.jobs.submit(two), return_exceptions=True
    )
    assert sorted(isinstance(answer, Duplicate) for answer in answers) == [False, True]


# -- the cap of the queue ----------------------------------------------------------------------


async def test_a_full_queue_refuses_until_there_is_room() -> None:
    async with a_box(max_queue_size=2) as box:
        await box.submit(a_submission("true", job_id="a", gpus=4))
        await box.submit(a_submission("true", job_id="b", gpus=4))
        with pytest.raises(Unavailable, match="the queue is full: it holds 2 jobs"):
            await box.submit(a_submission("true"))
        await box.run("a")
        await box.submit(a_submission("true"))


async def test_an_array_larger_than_the_room_is_refused_whole() -> None:
    async with a_box(max_queue_size=2) as box:
        with pytest.raises(Unavailable):
            await box.submit(a_submission("true", indexes=(1, 2, 3)))
        assert box.service.state.live_count() == 0


async def test_requests_that_arrive_together_cannot_overfill_the_queue() -> None:
    async with a_box(max_queue_size=3) as box:
        answers = await asyncio.gather(
            *(box.submit(a_submission("true")) for _ in range(10)), return_exceptions=True
        )
        assert sum(isinstance(answer, Unavailable) for answer in answers) == 7
        assert box.service.state.pending_count() == 3


async def test_a_bulk_load_fills_the_queue_to_its_cap_and_no_further() -> None:
    async with a_box(leases=True, max_queue_size=2) as box:
        jobs = [a_job(f"j{n}", gpu_type="A100", lease=True) for n in range(4)]
        errors = await box.service.jobs.submit_plain(jobs)
        assert [error is None for error in errors] == [True, True, False, False]
        assert isinstance(errors[3], Unavailable)


async def test_zero_means_no_cap() -> None:
    async with a_box(max_queue_size=0) as box:
        await box.submit(a_submission("true", indexes=tuple(range(50))))
        assert box.service.state.pending_count() == 50


async def test_no_more_jobs_run_at_once_than_the_service_may() -> None:
    async with a_box(leases=True, most_jobs=2) as box:
        for name in ("a", "b", "c"):
            await box.submit(a_submission(job_id=name))
        assert sorted(await box.tick()) == ["a", "b"]
        reason = box.service.reason(JobId("c"))
        assert reason is not None
        assert reason.code is ReasonCode.SERVICE_CAP
        await box.service.jobs.complete(JobId("a"))
        assert await box.tick() == ["c"]


# -- plain jobs --------------------------------------------------------------------------------


async def test_plain_jobs_are_taken_each_for_itself() -> None:
    async with a_box(leases=True) as box:
        jobs = [
            a_job("a", lease=True),
            a_job("a", lease=True),
            a_job("b", tenant="nobody", lease=True),
            a_job("c", gpus=64, lease=True),
        ]
        errors = await box.service.jobs.submit_plain(jobs)
        assert [type(error) for error in errors] == [
            type(None),
            Duplicate,
            InvalidRequest,
            type(None),  # it can never fit, and waits: that is the plain contract
        ]


async def test_a_plain_job_whose_id_was_used_long_ago_is_a_duplicate() -> None:
    async with a_box(leases=True) as box:
        await box.service.jobs.submit_plain([a_job("a", lease=True)])
        await box.tick()
        await box.service.jobs.complete(JobId("a"))
        (error,) = await box.service.jobs.submit_plain([a_job("a", lease=True)])
        assert isinstance(error, Duplicate)


# -- dependencies ------------------------------------------------------------------------------


async def test_a_job_waits_for_the_one_it_comes_after(box: Box) -> None:
    await box.submit(a_submission("true", job_id="a"))
    await box.submit(a_submission("true", job_id="b", after=after("a")))
    key = await box.run("a")
    assert await box.state_of("b") is JobState.PENDING
    reason = box.service.reason(JobId("b"))
    assert reason is not None
    assert reason.code is ReasonCode.DEPENDENCY
    box.engine.finish(key)
    await box.until("a", JobState.COMPLETED)
    assert await box.tick() == ["b"]


async def test_a_job_whose_dependency_fails_is_cancelled_with_the_cause(box: Box) -> None:
    await box.submit(a_submission("true", job_id="a"))
    await box.submit(a_submission("true", job_id="b", after=after("a")))
    await box.submit(a_submission("true", job_id="c", after=after("a:any")))
    box.engine.finish(await box.run("a"), 1)
    await box.until("a", JobState.FAILED)
    assert await box.tick() == ["c"]
    progress = (await box.service.job("b")).progress
    assert progress.state is JobState.CANCELLED
    assert progress.cause == "job a it depends on failed"


async def test_a_dependency_that_completed_before_counts_no_more(box: Box) -> None:
    await ended(box, "a", JobState.COMPLETED)
    await box.submit(a_submission("true", job_id="b", after=after("a")))
    assert (await box.service.job("b")).job.after == ()
    assert await box.tick() == ["b"]


@pytest.mark.parametrize(
    ("state", "words"), [(JobState.FAILED, "failed"), (JobState.CANCELLED, "was cancelled")]
)
async def test_a_dependency_that_failed_before_refuses_the_job(
    box: Box, state: JobState, words: str
) -> None:
    await ended(box, "a", state)
    with pytest.raises(InvalidRequest, match=f"that job {words}, so this one would never start"):
        await box.submit(a_submission("true", after=after("a")))
    await box.submit(a_submission("true", job_id="b", after=after("a:any")))
    assert await box.tick() == ["b"]


async def test_a_job_cannot_wait_for_itself_or_for_nobody(box: Box) -> None:
    with pytest.raises(InvalidRequest, match="cannot depend on itself"):
        await box.submit(a_submission("true", job_id="a", after=after("a")))
    with pytest.raises(InvalidRequest, match="there is no such job"):
        await box.submit(a_submission("true", after=after("nobody")))


@pytest.mark.parametrize("names", [("a", "a:any"), ("a:any", "a"), ("a", "a")])
async def test_of_a_dependency_named_twice_the_stricter_holds(
    box: Box, names: tuple[str, ...]
) -> None:
    await box.submit(a_submission("true", job_id="a"))
    await box.submit(a_submission("true", job_id="b", after=after(*names)))
    assert (await box.service.job("b")).job.after == after("a")


async def test_a_dependency_that_ends_while_the_job_is_on_its_way_is_looked_at_again(
    box: Box,
) -> None:
    """The cancel is in the writer's queue when the submission has looked at the state."""
    await box.submit(a_submission("true", job_id="a"))
    cancel = asyncio.create_task(box.service.jobs.cancel(JobId("a")))
    submit = asyncio.create_task(box.submit(a_submission("true", job_id="b", after=after("a:any"))))
    await asyncio.gather(cancel, submit)
    assert (await box.service.job("b")).job.after == ()
    cancel = asyncio.create_task(box.service.jobs.cancel(JobId("b")))
    submit = asyncio.create_task(box.submit(a_submission("true", job_id="c", after=after("b"))))
    with pytest.raises(InvalidRequest, match="was cancelled"):
        await asyncio.gather(cancel, submit)


async def test_a_dependency_that_failed_just_before_a_restart_is_remembered() -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        await box.submit(a_submission("true", job_id="a"))
        await box.submit(a_submission("true", job_id="b", after=after("a")))
        box.engine.finish(await box.run("a"), 1)
        await box.until("a", JobState.FAILED)
    async with a_box(store=store) as again:
        assert await again.tick() == []
        assert await again.state_of("b") is JobState.CANCELLED


# -- cancel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pending", "held", "running lease"])
async def test_what_has_no_processes_is_cancelled_at_once(box: Box, name: str) -> None:
    job_id = await in_state(box, name)
    assert await box.service.jobs.cancel(JobId(job_id)) is JobState.CANCELLED
    assert await box.state_of(job_id) is JobState.CANCELLED
    assert box.engine.stopped == []


@pytest.mark.parametrize("name", ["scheduled", "running"])
async def test_what_has_processes_is_told_to_end_and_is_cancelled_when_it_has(
    box: Box, name: str
) -> None:
    job_id = await in_state(box, name)
    box.engine.stops = False
    assert str(await box.service.jobs.cancel(JobId(job_id))) == name
    await eventually(lambda: box.engine.stopped, "a stop")
    assert (await box.service.job(job_id)).progress.stopping
    assert box.service.state.placed(), "its GPUs are its own until it has ended"
    box.engine.stops = True
    await box.engine.stop(box.engine.stopped[:1], epoch=box.engine.epoch)
    await box.until(job_id, JobState.CANCELLED)
    assert (await box.service.job(job_id)).progress.cause == "cancelled by its owner"


async def test_cancelling_twice_is_the_same_as_once(box: Box) -> None:
    job_id = await in_state(box, "running")
    box.engine.stops = False
    await box.service.jobs.cancel(JobId(job_id), "first")
    await box.service.jobs.cancel(JobId(job_id), "second")
    assert (await box.service.job(job_id)).progress.cause == "first"


# -- hold and release --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pending", "held"])
async def test_a_waiting_job_is_held_and_released(box: Box, name: str) -> None:
    job_id = await in_state(box, name)
    assert await box.service.jobs.hold(JobId(job_id), held=True) is JobState.PENDING
    assert await box.tick() == []
    assert await box.service.jobs.hold(JobId(job_id), held=False) is JobState.PENDING
    assert await box.tick() == [job_id]


@pytest.mark.parametrize("name", ["scheduled", "running", "running lease"])
@pytest.mark.parametrize("held", [True, False])
async def test_what_has_started_can_be_neither_held_nor_released(
    box: Box, name: str, held: bool
) -> None:
    job_id = await in_state(box, name)
    with pytest.raises(IllegalMove):
        await box.service.jobs.hold(JobId(job_id), held=held)


# -- priority ----------------------------------------------------------------------------------


async def test_a_waiting_job_that_is_raised_goes_first(box: Box) -> None:
    first = await box.submit(a_submission("true", gpus=4))
    second = await box.submit(a_submission("true", gpus=4))
    assert await box.service.jobs.rerank(JobId(second), 9000) is JobState.PENDING
    assert (await box.service.job(second)).job.priority == 9000
    assert await box.tick() == [second]
    assert (await box.service.job(first)).progress.state is JobState.PENDING


async def test_a_held_job_gets_another_priority_and_stays_held(box: Box) -> None:
    job_id = await in_state(box, "held")
    await box.service.jobs.rerank(JobId(job_id), 9000)
    assert await box.tick() == []
    await box.service.jobs.hold(JobId(job_id), held=False)
    assert await box.tick() == [job_id]


async def test_the_priority_it_has_is_no_change(box: Box) -> None:
    job_id = await in_state(box, "pending")
    before = len(await box.service.store.journal(0, 100))
    await box.service.jobs.rerank(JobId(job_id), (await box.service.job(job_id)).job.priority)
    assert len(await box.service.store.journal(0, 100)) == before


@pytest.mark.parametrize("name", ["scheduled", "running", "running lease"])
async def test_what_has_started_keeps_its_priority(box: Box, name: str) -> None:
    job_id = await in_state(box, name)
    with pytest.raises(Conflict, match="only a waiting job"):
        await box.service.jobs.rerank(JobId(job_id), 1)


async def test_a_submission_repeated_after_its_priority_was_changed_is_still_the_same(
    box: Box,
) -> None:
    mine = a_submission("true", job_id=JobId("mine"), priority=5)
    await box.submit(mine)
    await box.service.jobs.rerank(JobId("mine"), 7)
    assert await box.submit(mine) == "mine"
    with pytest.raises(Duplicate):
        await box.submit(replace(mine, request=Request(2000)))


# -- complete ----------------------------------------------------------------------------------


async def test_a_running_lease_is_completed_and_its_gpus_are_free(box: Box) -> None:
    job_id = await in_state(box, "running lease")
    assert await box.service.jobs.complete(JobId(job_id)) is JobState.COMPLETED
    assert box.service.state.placed() == []
    assert (await box.service.job(job_id)).progress.exit_code == 0


async def test_a_running_job_marks_a_checkpoint(box: Box) -> None:
    job_id = await in_state(box, "running")
    assert await box.service.jobs.checkpoint(JobId(job_id)) is JobState.RUNNING
    progress = (await box.service.job(job_id)).progress
    assert progress.checkpoint_at == box.service.clock.now()


async def test_a_job_that_waits_cannot_mark_a_checkpoint(box: Box) -> None:
    job_id = await in_state(box, "pending")
    with pytest.raises(IllegalMove):
        await box.service.jobs.checkpoint(JobId(job_id))


async def test_a_lease_that_waits_cannot_be_completed(box: Box) -> None:
    job_id = await in_state(box, "pending lease")
    with pytest.raises(IllegalMove):
        await box.service.jobs.complete(JobId(job_id))


@pytest.mark.parametrize("name", ["pending", "running"])
async def test_a_job_with_a_command_completes_with_it(box: Box, name: str) -> None:
    job_id = await in_state(box, name)
    with pytest.raises(Conflict, match=f"tgpu cancel {job_id}"):
        await box.service.jobs.complete(JobId(job_id))


# -- over, and unknown -------------------------------------------------------------------------

COMMANDS = ("cancel", "hold", "release", "rerank", "complete")


async def command(box: Box, name: str, job_id: str) -> object:
    jobs = box.service.jobs
    if name in ("hold", "release"):
        return await jobs.hold(JobId(job_id), held=name == "hold")
    if name == "rerank":
        return await jobs.rerank(JobId(job_id), 1)
    return await getattr(jobs, name)(JobId(job_id))


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("state", "words"),
    [("completed", "completed"), ("failed", "failed"), ("cancelled", "was cancelled")],
)
async def test_nothing_can_be_done_to_a_job_that_is_over(
    box: Box, name: str, state: str, words: str
) -> None:
    job_id = await in_state(box, state)
    with pytest.raises(Conflict, match=f"job {job_id} is over: it {words}"):
        await command(box, name, job_id)


@pytest.mark.parametrize("name", [*COMMANDS, "rerun"])
async def test_an_unknown_job_is_not_found(box: Box, name: str) -> None:
    with pytest.raises(NotFound, match="no job named 'nobody'"):
        await command(box, name, "nobody")


# -- rerun -------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["pending", "running", "completed", "failed", "cancelled"])
async def test_a_job_is_run_again_whatever_became_of_it(box: Box, state: str) -> None:
    job_id = await in_state(box, state)
    (again,) = (await box.service.jobs.rerun(JobId(job_id))).job_ids
    old, new = await box.service.job(job_id), await box.service.job(again)
    assert new.job.job_id != old.job.job_id
    assert new.detail == replace(old.detail, rerun_of=JobId(job_id))
    assert (new.job.request, new.job.options) == (old.job.request, old.job.options)
    assert new.progress.state is JobState.PENDING


async def test_a_rerun_has_the_environment_and_the_parameters_of_the_old_one(box: Box) -> None:
    submission = a_submission(
        "t", "{lr}", params=(("lr", ("1", "2")),), base_environment={"A": "1"}
    )
    first, *_ = (await box.service.jobs.submit(submission)).job_ids
    (again,) = (await box.service.jobs.rerun(first)).job_ids
    detail = (await box.service.job(again)).detail
    assert (detail.argv, detail.params) == (("t", "1"), (("lr", "1"),))
    assert detail.env_id == (await box.service.job(first)).detail.env_id


# -- gangs, deadlines, reservations ----------------------------------------------------------------


async def test_a_job_counts_for_the_user_that_its_details_name(box: Box) -> None:
    made = a_submission("true")
    job_id = await box.submit(replace(made, detail=replace(made.detail, user="ada")))
    assert (await box.service.job(job_id)).job.options.user == "ada"


async def test_workers_are_refused_where_gangs_are_switched_off() -> None:
    async with a_box(gangs=False) as box:
        with pytest.raises(InvalidRequest, match=r"workers: must be 1: scheduler\.enable_gang"):
            await box.submit(a_submission("true", request=Request(2000, workers=2)))
        assert await box.submit(a_submission("true", gpus=2))


async def test_a_deadline_that_has_passed_is_refused(box: Box) -> None:
    await box.tick(5_000)
    with pytest.raises(InvalidRequest, match="deadline: is in the past"):
        await box.submit(a_submission("true", options=Options(deadline_at=5_000)))
    assert await box.submit(a_submission("true", options=Options(deadline_at=5_001)))


async def test_a_repeated_request_is_answered_also_once_its_deadline_has_passed(box: Box) -> None:
    made = a_submission("true", job_id="a", options=Options(deadline_at=1_000))
    await box.submit(made)
    await box.tick(2_000)
    assert (await box.service.jobs.submit(made)).repeated


async def test_a_job_that_is_run_again_is_free_of_a_deadline_that_has_passed(box: Box) -> None:
    await box.submit(a_submission("true", job_id="a", options=Options(deadline_at=1_000)))
    await box.tick(2_000)
    again = await box.service.jobs.rerun(JobId("a"))
    assert (await box.service.job(again.base_id)).job.options.deadline_at is None


async def test_a_reservation_must_be_there_and_of_the_same_tenant(box: Box) -> None:
    bookings = box.service.state.ledger.bookings
    for name, owner in (("r1", "default"), ("r2", "other")):
        bookings[name] = AdvanceReservation(
            name, TenantId(owner), NodeId("local"), (0,), "A100", 0, 9
        )
    for name in ("r2", "r3"):
        with pytest.raises(InvalidRequest, match=r"reservation: .* there are: r1"):
            await box.submit(a_submission("true", options=Options(booking=name)))
    assert await box.submit(a_submission("true", options=Options(booking="r1")))


@pytest.mark.parametrize(("gpus", "fits"), [(0.25, True), (1, True), (1.5, True), (0.3, False)])
async def test_parts_of_gpus_come_in_the_steps_that_are_set(gpus: float, fits: bool) -> None:
    async with a_box(step_millis=250) as box:
        if fits:
            await box.submit(a_submission(gpus=gpus))
        else:
            with pytest.raises(InvalidRequest, match=r"GPUs come in steps of 0\.25"):
                await box.submit(a_submission(gpus=gpus))
