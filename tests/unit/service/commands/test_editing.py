"""`edit`: jobs that wait become others."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.service.world import Box, a_box, a_submission
from tgpu.api.translate.submissions import submission_of
from tgpu.core.errors import Conflict, Duplicate, InvalidRequest
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import ANYWHERE, Dependency, DependencyKind, Job, Options, Request, Where
from tgpu.core.model.lifecycle import JobState
from tgpu.service.commands.editing import Edit
from tgpu.service.commands.job_fields import job_fields
from tgpu.service.commands.submission import Submission
from tgpu.store.sqlite import SqliteStore
from tgpu.wire.v1 import SubmitRequest


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    async with a_box() as made:
        yield made


def made_with(**fields: object) -> Edit:
    def made(job: Job) -> Submission:
        return submission_of(SubmitRequest.model_validate({**job_fields(job), **fields}))

    return Edit(made, has_after="after" in fields, has_limit="max_runtime" in fields)


def test_a_job_is_the_same_after_it_was_told_in_the_words_of_the_api() -> None:
    where = Where(("A100", "H100"), 10, (0, 1), (3,), ("n1",), ("n2",), (("rack", "r1"),), True)
    request = Request(3000, None, 30, 1500, 3072, 3, where)
    options = Options(1500, 2, 500, True, deadline_at=1234, preemptible=False, checkpoint_signal=10)
    after = (Dependency(JobId("9"), DependencyKind.ANY),)
    job = Job(JobId("1"), "t", -7, 5, request, "night", options, after)  # type: ignore[arg-type]
    again = submission_of(SubmitRequest.model_validate(job_fields(job)))
    assert (again.request, again.options, again.after) == (request, options, after)
    assert (again.priority, again.queue) == (-7, "night")
    plain = submission_of(
        SubmitRequest.model_validate(job_fields(replace(job, request=Request(1000))))
    )
    assert plain.request.where is ANYWHERE


async def test_all_of_a_job_is_changed_in_one_event_that_says_what(box: Box) -> None:
    job_id = JobId(await box.submit(a_submission("true", gpus=4)))
    before = (await box.service.job(job_id)).job
    edit = replace(made_with(gpu_count=1, max_runtime=7200, priority=900), name="second")
    edited = await box.service.editing.edit([job_id], edit)
    assert edited.changed == (job_id,)
    stored = await box.service.job(job_id)
    assert stored.job.request.gpu_millis == 1000
    assert stored.job.options == replace(before.options, time_limit_ms=7_200_000)
    assert (stored.job.priority, stored.detail.name) == (900, "second")
    assert stored.job.submitted_at == before.submitted_at
    rows = await box.service.store.journal(0, 100, job_id)
    assert [row.kind for row in rows] == ["jobs_submitted", "job_changed"]
    assert {name: (was, is_now) for name, was, is_now in edited.changes} == {
        "priority": ("500", "900"),
        "gpu_count": ("4", "1"),
        "max_runtime": ("nothing", "7200"),
        "name": ("nothing", "second"),
    }


async def test_a_smaller_job_starts_where_the_larger_one_waited(box: Box) -> None:
    await box.run(await box.submit(a_submission("true", gpus=3)))
    job_id = JobId(await box.submit(a_submission("true", gpus=4)))
    assert await box.tick() == []
    await box.service.editing.edit([job_id], made_with(gpu_count=1))
    assert await box.tick() == [job_id]


async def test_what_could_never_start_is_refused_and_nothing_changes(box: Box) -> None:
    job_id = JobId(await box.submit(a_submission("true")))
    before = (await box.service.job(job_id)).job
    for fields in ({"gpu_count": 99}, {"queue": "nowhere"}, {"after": [{"job_id": "none"}]}):
        with pytest.raises(InvalidRequest):
            await box.service.editing.edit([job_id], made_with(**fields))
    assert (await box.service.job(job_id)).job == before


async def test_a_circle_of_jobs_is_refused(box: Box) -> None:
    first = JobId(await box.submit(a_submission("true")))
    after = (Dependency(first, DependencyKind.OK),)
    second = JobId(await box.submit(replace(a_submission("true"), after=after)))
    with pytest.raises(InvalidRequest, match="circular dependency"):
        await box.service.editing.edit([first], made_with(after=[{"job_id": second}]))
    with pytest.raises(InvalidRequest, match="itself"):
        await box.service.editing.edit([first], made_with(after=[{"job_id": first}]))
    await box.service.editing.edit([second], made_with(after=[]))
    await box.service.editing.edit([first], made_with(after=[{"job_id": second}]))
    assert await box.tick() == [second]


@pytest.mark.parametrize("fields", [{"priority": 1}, {"gpu_count": 1}])
async def test_what_has_started_is_a_conflict(box: Box, fields: dict[str, object]) -> None:
    job_id = JobId(await box.submit(a_submission("true", gpus=2)))
    await box.run(job_id)
    with pytest.raises(Conflict, match="only a waiting job"):
        await box.service.editing.edit([job_id], made_with(**fields))


async def test_what_waits_of_an_array_is_changed_in_one_commit(box: Box) -> None:
    await box.submit(replace(a_submission("true", gpus=3), indexes=(1, 2, 3)))
    ids = [JobId(entry.job.job_id) for entry in box.service.state.entries()]
    assert len(await box.tick()) == 1
    edited = await box.service.editing.edit(ids, made_with(gpu_count=1))
    assert (len(edited.changed), edited.left) == (2, 1)
    sizes = sorted(entry.job.request.gpu_millis for entry in box.service.state.entries())
    assert sizes == [1000, 1000, 3000]


async def test_a_job_that_is_changed_meanwhile_keeps_both_changes(box: Box) -> None:
    job_id = JobId(await box.submit(a_submission("true")))
    changed = box.service.jobs.changed

    async def slowly(job, submission, **how):
        box.service.jobs.changed = changed  # type: ignore[method-assign]
        found = await changed(job, submission, **how)
        await box.service.editing.edit([job_id], made_with(priority=7))
        return found

    box.service.jobs.changed = slowly  # type: ignore[method-assign]
    await box.service.editing.edit([job_id], made_with(gpu_count=2))
    job = (await box.service.job(job_id)).job
    assert (job.priority, job.request.gpu_millis) == (7, 2000)


async def test_a_submission_repeated_after_it_was_edited_is_still_the_same(box: Box) -> None:
    mine = a_submission("true", job_id=JobId("mine"))
    await box.submit(mine)
    edit = replace(made_with(gpu_count=2, priority=7), name="other")
    await box.service.editing.edit([JobId("mine")], edit)
    assert await box.submit(mine) == "mine"
    with pytest.raises(Duplicate):
        await box.submit(replace(mine, request=Request(1000, mem_mib=1)))


async def test_an_array_repeated_after_it_was_edited_is_still_the_same(tmp_path: Path) -> None:
    async with a_box(store=SqliteStore(tmp_path / "db")) as box:
        mine = replace(a_submission("true", job_id=JobId("mine")), indexes=(1, 2))
        await box.submit(mine)
        ids = [entry.job.job_id for entry in box.service.state.entries()]
        await box.service.editing.edit(ids, made_with(gpu_count=2))
        assert (await box.service.jobs.submit(mine)).repeated
        with pytest.raises(Duplicate):
            await box.submit(replace(mine, priority=3))


async def test_a_change_that_changes_nothing_leaves_no_event(box: Box) -> None:
    job_id = JobId(await box.submit(a_submission("true")))
    before = len(await box.service.store.journal(0, 100))
    edited = await box.service.editing.edit([job_id], made_with())
    assert edited.changes == ()
    assert len(await box.service.store.journal(0, 100)) == before
    assert (await box.service.job(job_id)).progress.state is JobState.PENDING
