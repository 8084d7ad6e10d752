"""The jobs file is watched: each new line is queued once, bad ones are told and stop nothing."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, FailingStore, a_box
from tgpu.core.model.lifecycle import JobState
from tgpu.service.commands.jobs_file import JobsFileSettings, JobsFileWatch
from tgpu.service.recording.clock import Clock, WallClock
from tgpu.store.memory import MemoryStore

NEVER = 3600.0  # by itself: what happens sooner was brought about by an event


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("print(1)\n")
    return tmp_path / "jobs.txt"


def settings(file: Path, **fields: Any) -> JobsFileSettings:
    return JobsFileSettings(file, **{"interval_seconds": NEVER, "wait_ms": 0, **fields})


def watch_of(box: Box) -> JobsFileWatch:
    watch = box.service.jobs_file
    assert watch is not None
    return watch


async def look(box: Box) -> None:
    await watch_of(box).look(box.service.jobs)


async def commands(box: Box) -> list[list[str]]:
    """What is queued, in order."""
    return [
        list((await box.service.job(entry.job.job_id)).detail.argv)
        for entry in box.service.state.entries()
    ]


def save(file: Path, text: str) -> None:
    """With a time of its own, whatever the file system's clock is."""
    file.write_text(text)
    soon = time.time() + 1
    os.utime(file, (soon, soon))


async def test_a_line_becomes_a_job_with_its_priority_gpus_and_place(file: Path) -> None:
    file.write_text("0,a.py,,--x 'a b',1-2\n2,b.py\n")
    async with a_box(jobs_file=settings(file)) as box:
        await eventually(lambda: len(watch_of(box).lines) == 2, "the first reading")
        first, second = [(await box.service.job(job_id)) for job_id in ("1", "2")]
        assert first.detail.argv == ("python3", str(file.parent / "a.py"), "--x", "a b")
        assert (first.job.priority, second.job.priority) == (1500, 300)
        assert first.job.request.where.gpus == (1, 2)
        assert first.detail.cwd == str(file.parent)
        assert first.detail.name == "a.py"


async def test_reading_it_again_makes_no_second_job(file: Path) -> None:
    file.write_text("1,a.py\n")
    async with a_box(jobs_file=settings(file)) as box:
        for _ in range(3):
            await look(box)
        save(file, "# moved\n1, a.py\n1,b.py\n")
        await look(box)
        assert [argv[-1] for argv in await commands(box)] == [
            str(file.parent / "a.py"),
            str(file.parent / "b.py"),
        ]


async def test_a_service_that_starts_anew_knows_which_lines_it_took(file: Path) -> None:
    store = MemoryStore()
    file.write_text("1,a.py\n")
    for _ in range(2):
        async with a_box(store=store, jobs_file=settings(file)) as box:
            await look(box)
            assert len(await commands(box)) == 1


async def test_the_line_and_its_job_are_one_commit(file: Path) -> None:
    store = FailingStore()
    async with a_box(store=store, jobs_file=settings(file)) as box:
        file.write_text("1,a.py\n")
        await look(box)
    with_line = [
        record
        for record in store.commits
        if any(kind == "jobs_file_line" for kind, _ in record.documents)
    ]
    assert [len(record.details) for record in with_line] == [1]


async def test_what_the_store_cannot_take_now_is_queued_later(file: Path) -> None:
    store = FailingStore()
    async with a_box(store=store, jobs_file=settings(file)) as box:
        await look(box)
        store.broken = "disk full"
        file.write_text("1,a.py\n")
        await look(box)
        assert "disk full" in box.service.problems()[-1]
        store.broken = None
        await look(box)
        assert len(await commands(box)) == 1
        assert watch_of(box).problems() == []


async def test_bad_lines_are_problems_with_their_number_and_stop_nothing(file: Path) -> None:
    file.write_text("9,a.py\n1,nope.py\n1,b.py,,,99\n1,a.py\n")
    async with a_box(jobs_file=settings(file)) as box:
        await look(box)
        assert len(await commands(box)) == 1
        problems = watch_of(box).problems()
        assert [text.partition(", ")[2].partition(":")[0] for text in problems] == [
            "line 1",
            "line 2",
            "line 3",
        ]
        assert f"there is no file {file.parent}/nope.py" in problems[1]
        assert box.service.problems() == problems
        (file.parent / "nope.py").touch()
        await look(box)
        assert len(await commands(box)) == 2


async def test_many_problems_are_cut_short(file: Path) -> None:
    file.write_text("9,a.py\n" * 30)
    async with a_box(jobs_file=settings(file)) as box:
        await look(box)
        assert watch_of(box).problems()[-1].endswith("20 more")


async def end(box: Box, job_id: str, exit_code: int) -> None:
    await box.service.trigger()
    await box.until(job_id, JobState.RUNNING)
    box.engine.finish(await box.key(job_id), exit_code=exit_code)
    await box.until(job_id, JobState.FAILED if exit_code else JobState.COMPLETED)


def a_real_clock() -> Clock:
    return WallClock()


async def test_a_failed_line_is_tried_again_when_the_file_is_saved(file: Path) -> None:
    file.write_text("1,a.py\n")
    async with a_box(jobs_file=settings(file, most_tries=2), clock=a_real_clock()) as box:
        await look(box)
        await end(box, "1", exit_code=3)
        await look(box)
        assert watch_of(box).lines[0].job_id == "1"  # nobody has saved it since
        save(file, "1,a.py\n")
        await look(box)
        assert (watch_of(box).lines[0].job_id, watch_of(box).lines[0].tries) == ("2", 2)
        await end(box, "2", exit_code=3)
        save(file, "1,a.py\n")
        await look(box)
        assert watch_of(box).lines[0].job_id == "2"  # that was the last try


async def test_a_failed_line_waits_a_little_before_it_is_tried_again(file: Path) -> None:
    file.write_text("1,a.py\n")
    patient = settings(file, wait_ms=3_600_000)
    async with a_box(jobs_file=patient, clock=a_real_clock()) as box:
        await look(box)
        await end(box, "1", exit_code=3)
        save(file, "1,a.py\n")
        await look(box)
        assert watch_of(box).lines[0].tries == 1


@pytest.mark.parametrize("how", ["completed", "cancelled"])
async def test_a_line_that_is_done_or_was_cancelled_is_never_tried_again(
    file: Path, how: str
) -> None:
    file.write_text("1,a.py\n")
    async with a_box(jobs_file=settings(file), clock=a_real_clock()) as box:
        await look(box)
        if how == "completed":
            await end(box, "1", exit_code=0)
        else:
            await box.service.jobs.cancel(watch_of(box).lines[0].job_id or "")  # type: ignore[arg-type]
            await box.until("1", JobState.CANCELLED)
        save(file, "")
        await look(box)
        save(file, "1,a.py\n")
        await look(box)
        assert watch_of(box).lines[0].tries == 1


async def test_the_same_line_twice_is_shown_as_such(file: Path) -> None:
    file.write_text("1,a.py\n1,a.py\n")
    async with a_box(jobs_file=settings(file)) as box:
        await look(box)
        assert [line.text for line in watch_of(box).lines] == ["a.py", "the same as line 1"]
        assert len(await commands(box)) == 1


async def test_a_change_is_seen_at_once_also_when_the_file_is_replaced(file: Path) -> None:
    async with a_box(jobs_file=settings(file)) as box:
        number = 0

        async def comes_soon(write: Any) -> None:
            nonlocal number
            number += 1

            async def is_there() -> bool:
                # Repeated: the events may not be listened to yet when the first change is made.
                write(f"1,a.py,,--n {number}\n")
                await asyncio.sleep(0.2)
                return (
                    len(watch_of(box).lines) == 1 and f"--n {number}" in watch_of(box).lines[0].text
                )

            await eventually(is_there, "the change is seen", 20)

        def replaced(text: str) -> None:
            (file.parent / "new").write_text(text)
            (file.parent / "new").replace(file)

        await comes_soon(file.write_text)
        await comes_soon(replaced)


async def test_without_events_the_file_is_read_now_and_then(file: Path, monkeypatch) -> None:
    def no_events(*_: object, **__: object) -> Any:
        raise OSError("no more watches")

    monkeypatch.setattr("tgpu.service.commands.jobs_file.watchfiles.awatch", no_events)
    async with a_box(jobs_file=settings(file, interval_seconds=0.05)) as box:
        file.write_text("1,a.py\n")
        await eventually(lambda: len(watch_of(box).lines) == 1, "the file is read")


async def test_a_file_that_everybody_may_write_is_not_used(file: Path) -> None:
    file.write_text("1,a.py\n")
    file.chmod(0o666)
    async with a_box(jobs_file=settings(file)) as box:
        await look(box)
        assert await commands(box) == []
        assert "chmod o-w" in box.service.problems()[0]


async def test_no_file_is_no_problem(file: Path) -> None:
    async with a_box(jobs_file=settings(file)) as box:
        await look(box)
        assert (watch_of(box).exists, box.service.problems()) == (False, [])


async def test_a_directory_in_its_place_is_a_problem(tmp_path: Path) -> None:
    async with a_box(jobs_file=settings(tmp_path)) as box:
        await look(box)
        assert "jobs file" in box.service.problems()[0]
