"""What is refused before it is queued, and what is left to its start."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.errors import InvalidRequest
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Detail, Options, Request, Where
from tgpu.core.model.lifecycle import JobState
from tgpu.engines.api import AttemptLimits, Capabilities
from tgpu.engines.fake import FakeEngine
from tgpu.engines.fake_cluster import FakeCluster
from tgpu.service.commands.submission import RunIn, Submission
from tgpu.service.execution.attempts import LaunchSettings
from tgpu.store.memory import MemoryStore


def launch_settings(**fields: Any) -> LaunchSettings:
    return LaunchSettings(
        grace_ms=1000, home="/", default_environment={"PATH": "/usr/bin:/bin"}, **fields
    )


async def test_what_is_looked_up_at_the_start_goes_with_the_launch() -> None:
    async with a_box(launch=launch_settings(script_folders=("/data",))) as box:
        wanted = replace(a_submission("/etc/shadow", job_id="j"), run_in=RunIn(venv="/secret/x"))
        await box.submit(wanted)
        await box.run("j")
        (launch,) = box.engine.launched
        assert launch.argv == ("/etc/shadow",)
        assert launch.environment == ("venv", "/secret/x")
        assert (launch.script_folders, launch.home) == (("/data",), "/")


async def test_an_environment_survives_the_store_and_a_rerun() -> None:
    async with a_box(launch=launch_settings()) as box:
        await box.submit(replace(a_submission("true", job_id="j"), run_in=RunIn(conda="ml")))
        assert (await box.service.job("j")).detail.run_in == ("conda", "ml")


async def test_more_memory_than_a_job_may_have_is_refused() -> None:
    limits = AttemptLimits(memory_bytes=2**30)
    async with a_box(launch=launch_settings(limits=limits)) as box:
        with pytest.raises(InvalidRequest, match="at most 1 GiB"):
            await box.submit(a_submission("true", request=Request(1000, mem_mib=1025)))
        await box.submit(a_submission("true", job_id="j", request=Request(1000, mem_mib=1024)))
        await box.run("j")
        assert box.engine.launched[0].limits == limits


def in_session(detail: Detail, program: str) -> Detail:
    return replace(detail, screen=program == "screen", tmux=program == "tmux")


@pytest.mark.parametrize("program", ["screen", "tmux"])
async def test_a_job_in_a_session_has_one_worker(program: str) -> None:
    async with a_box(launch=launch_settings()) as box:
        wanted = a_submission("true", request=Request(2000, workers=2))
        with pytest.raises(InvalidRequest, match="several workers") as caught:
            await box.submit(replace(wanted, detail=in_session(wanted.detail, program)))
        assert caught.value.field == program


async def test_a_session_is_of_screen_or_of_tmux() -> None:
    async with a_box(launch=launch_settings()) as box:
        wanted = a_submission("true")
        with pytest.raises(InvalidRequest, match="not both"):
            await box.submit(replace(wanted, detail=replace(wanted.detail, screen=True, tmux=True)))


@pytest.mark.parametrize("program", ["screen", "tmux"])
async def test_a_job_that_asks_for_a_session_is_started_in_one(program: str) -> None:
    async with a_box(launch=launch_settings()) as box:
        wanted = a_submission("true", "--mode", "test", job_id="j")
        await box.submit(replace(wanted, detail=in_session(wanted.detail, program)))
        await box.run("j")
        (launch,) = box.engine.launched
        assert launch.multiplexer == program
        assert launch.session == f"gpujob_{launch.env['TGPU_GPUS']}_test_j"


async def test_all_jobs_but_gangs_are_in_sessions_where_the_settings_say_so() -> None:
    async with a_box(launch=launch_settings(multiplexer="tmux")) as box:
        await box.submit(a_submission("true", job_id="one"))
        await box.submit(a_submission("true", job_id="gang", request=Request(2000, workers=2)))
        await box.run("one")
        await box.until("gang", JobState.RUNNING)
        sessions = {launch.key.job_id: launch.session for launch in box.engine.launched}
        assert (bool(sessions["one"]), sessions["gang"]) == (True, "")


def limit_of(box: Box, job_id: str) -> int | None:
    entry = box.service.state.entry(JobId(job_id))
    assert entry is not None
    return entry.job.options.time_limit_ms


async def test_a_job_without_a_time_limit_gets_the_one_that_is_set() -> None:
    async with a_box(launch=launch_settings(time_limit_ms=5_000)) as box:
        await box.submit(a_submission("/bin/true", job_id="j"))
        assert limit_of(box, "j") == 5_000


async def test_a_time_limit_of_its_own_and_a_lease_without_one_stay() -> None:
    async with a_box(launch=launch_settings(time_limit_ms=5_000)) as box:
        own = a_submission("/bin/true", job_id="own")
        await box.submit(replace(own, options=replace(own.options, time_limit_ms=9_000)))
        await box.submit(replace(own, job_id=JobId("lease"), options=Options(lease=True)))
        limits = [limit_of(box, job_id) for job_id in ("own", "lease")]
        assert limits == [9_000, None]


def with_image(job_id: str = "j") -> Submission:
    wanted = a_submission("true", job_id=job_id)
    return replace(wanted, detail=replace(wanted.detail, image="pytorch:2.0"))


REFUSED_IMAGE = (
    "image: the fake engine runs commands on the machine itself and not in container images; "
    "leave it out (got 'pytorch:2.0')"
)


async def test_an_image_is_refused_where_the_engine_runs_none() -> None:
    async with a_box() as box:
        for ask in (box.service.jobs.submit, box.service.jobs.rehearse):
            with pytest.raises(InvalidRequest) as caught:
                await ask(with_image())
            assert caught.value.message == REFUSED_IMAGE


async def test_an_image_is_taken_where_the_engine_says_that_it_can() -> None:
    engine = FakeEngine(clock=lambda: 0, capabilities=Capabilities(images=True))
    async with a_box(engine=engine) as box:
        await box.submit(with_image())
        assert (await box.service.job("j")).detail.image == "pytorch:2.0"


async def test_without_an_engine_the_image_goes_with_the_lease() -> None:
    async with a_box(leases=True) as box:
        await box.submit(with_image())
        assert (await box.service.job("j")).detail.image == "pytorch:2.0"


async def test_a_job_on_record_with_an_image_still_runs_and_only_its_rerun_is_refused() -> None:
    store = MemoryStore()
    async with a_box(
        store=store, engine=FakeEngine(capabilities=Capabilities(images=True))
    ) as before:
        await before.submit(with_image())
    async with a_box(store=store) as box:
        key = await box.run("j")
        box.engine.finish(key, 0)
        await box.until("j", JobState.COMPLETED)
        with pytest.raises(InvalidRequest, match="not in container images"):
            await box.service.jobs.rerun(JobId("j"))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"request": Request(1000, where=Where(gpus=(0,)))}, "allowed_gpus"),
        ({"request": Request(1000, where=Where(not_gpus=(1, 2)))}, "excluded_gpus"),
        ({"detail": Detail(argv=("t",), tmux=True)}, "tmux"),
        ({"detail": Detail(argv=("t",), screen=True)}, "screen"),
    ],
)
async def test_what_an_engine_that_binds_elsewhere_cannot_keep_is_refused(
    given: dict[str, Any], field: str
) -> None:
    async with a_box(engine=FakeCluster()) as box:
        submission = replace(a_submission("t"), **given)
        with pytest.raises(InvalidRequest, match="the fake cluster engine") as refused:
            await box.submit(submission)
        assert refused.value.field == field
    async with a_box() as box:
        await box.submit(submission)
