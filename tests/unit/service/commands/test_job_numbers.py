"""Numbers of jobs: dense over arrays, refusals and restarts, and never the same twice."""

import asyncio

import pytest

from tests.unit.service.world import FailingStore, a_box, a_submission
from tgpu.core.errors import SchedulerError
from tgpu.core.model.ids import JobId
from tgpu.store.api import Record
from tgpu.store.memory import MemoryStore

ARRAY = a_submission("true", indexes=tuple(range(1, 201)))


async def test_an_array_takes_one_number_also_over_a_restart() -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        assert await box.submit(a_submission("true")) == "1"
        assert await box.submit(ARRAY) == "2.001"
        assert await box.submit(a_submission("true")) == "3"
    async with a_box(store=store) as box:
        assert await box.submit(a_submission("true")) == "4"
        assert await box.service.jobs.rerun(JobId("2.007"))
        assert await box.submit(a_submission("true")) == "6"


async def test_a_submission_that_is_refused_uses_up_no_number() -> None:
    store = FailingStore()
    async with a_box(store=store, max_queue_size=3) as box:
        with pytest.raises(SchedulerError, match="the queue is full"):
            await box.submit(a_submission("true", indexes=(1, 2, 3, 4)))
        store.broken = "disk full"
        with pytest.raises(SchedulerError, match="disk full"):
            await box.submit(a_submission("true"))
        store.broken = None
        assert [await box.submit(a_submission("true")) for _ in range(3)] == ["1", "2", "3"]


async def test_many_at_once_get_all_numbers_once() -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        made = await asyncio.gather(*(box.submit(a_submission("true")) for _ in range(20)))
        assert sorted(map(int, made)) == list(range(1, 21))
    async with a_box(store=store) as box:
        assert await box.submit(a_submission("true")) == "21"


async def test_names_of_callers_are_passed_over_those_of_arrays_too() -> None:
    async with a_box() as box:
        await box.submit(a_submission("true", job_id="1"))
        await box.submit(a_submission("true", job_id="2", indexes=(5, 6)))
        assert await box.submit(a_submission("true")) == "3"


async def test_a_database_of_before_goes_on_behind_all_its_jobs() -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        await box.submit(ARRAY)
    await store.commit(Record([], documents={("job_numbers", "last"): None}))
    async with a_box(store=store) as box:
        assert await box.submit(a_submission("true")) == "201"


async def test_last_is_the_whole_array_also_after_a_restart() -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        await box.submit(ARRAY)
        assert await box.service.resolve("last") == "1"
    async with a_box(store=store) as box:
        assert await box.service.resolve("last") == "1"
