"""Sizes of submissions by the models they name."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.errors import InvalidRequest
from tgpu.core.model.job import Request, Where
from tgpu.service.commands.submission import SizeBy

TABLE = '{"default_requirement": 0.7, "models": {"m-*": 0.5, "big": {"gpus": 2, "memory_gb": 8}}}'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "llm_config.json"
    file.write_text(TABLE)
    return file


async def request_of(box: Box, *argv: str, **fields: Any) -> Request:
    fields.setdefault("size_by", SizeBy.MODEL)
    job_id = await box.submit(a_submission(*argv, **fields))
    return (await box.service.job(job_id)).job.request


async def test_the_table_decides_by_the_model_that_the_command_names(table: Path) -> None:
    async with a_box(size_table=table) as box:
        assert (await request_of(box, "x.py", "--llm", "m-1")).gpu_millis == 500
        big = await request_of(box, "x.py", "--model=big")
        assert (big.gpu_millis, big.gpu_mem_mib) == (2000, 8192)


async def test_each_worker_gets_what_the_model_needs(table: Path) -> None:
    async with a_box(size_table=table) as box:
        gang = Request(2000, workers=2)
        assert (await request_of(box, "x", "--llm", "big", request=gang)).gpu_millis == 4000


async def test_without_a_model_the_default_of_the_table_holds(table: Path) -> None:
    async with a_box(size_table=table) as box:
        assert (await request_of(box, "x.py")).gpu_millis == 700


async def test_who_gives_a_size_keeps_it(table: Path) -> None:
    async with a_box(size_table=table) as box:
        given = await request_of(box, "x", "--llm", "m-1", size_by=SizeBy.GIVEN, gpus=3)
        assert given.gpu_millis == 3000


async def test_an_estimate_is_for_the_smallest_gpu_that_it_may_get() -> None:
    async with a_box(gpus="sim:1xA100,1xT4") as box:
        any_gpu = box.service.sizes.look("llama-7b")
        first = box.service.sizes.look("llama-7b", Request(1000, where=Where(gpus=(0,))))
        assert any_gpu.gpu_mem_mib < first.gpu_mem_mib
        assert any_gpu.size.requirement.gpu_millis > first.size.requirement.gpu_millis


async def test_what_was_chosen_is_told(table: Path) -> None:
    async with a_box(size_table=table) as box:
        wanted = a_submission("x", "--llm", "m-1", size_by=SizeBy.MODEL)
        submitted = await box.service.jobs.submit(wanted)
        assert submitted.notes == ("0.5 GPU for m-1: 'm-*' in the table fits 'm-1'",)


async def test_past_runs_need_a_model_to_go_by() -> None:
    async with a_box() as box:
        with pytest.raises(InvalidRequest, match="names no model"):
            await request_of(box, "x.py", size_by=SizeBy.LEARNED)


async def test_a_changed_table_counts_at_once(table: Path) -> None:
    async with a_box(size_table=table) as box:
        assert (await request_of(box, "x", "--llm", "m-1")).gpu_millis == 500
        table.write_text('{"models": {"m-1": 0.25}}')
        assert (await request_of(box, "x", "--llm", "m-1")).gpu_millis == 250


async def test_a_table_that_is_broken_is_a_problem_and_the_old_one_holds(table: Path) -> None:
    async with a_box(size_table=table) as box:
        assert box.service.problems() == []
        table.write_text("{ broken")
        assert (await request_of(box, "x", "--llm", "m-1")).gpu_millis == 500
        assert "llm_config.json: is not JSON" in box.service.problems()[0]
        os.unlink(table)
        assert box.service.problems() == []
