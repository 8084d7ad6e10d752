"""A PostgreSQL that hangs: it takes what is sent and answers nothing, until it goes on."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import a_job
from tests.real_service import RealService, eventually, free_port
from tests.servers.postgres import PostgresServer
from tests.unit.service.eventually import eventually as soon
from tests.unit.service.world import a_box, a_submission
from tgpu.core.errors import Unavailable
from tgpu.core.model.events import JobsSubmitted
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.state.cluster_state import State
from tgpu.service.recording.writer import Decision
from tgpu.store.api import JobQuery, StoreUnavailable
from tgpu.store.postgres import PostgresStore

pytestmark = pytest.mark.external


@pytest.fixture
def freezing(own_postgres: PostgresServer) -> Iterator[PostgresServer]:
    yield own_postgres
    own_postgres.thaw()  # else it could not be stopped


def hung(_: State) -> Decision[str]:
    return Decision("hung", [JobsSubmitted(0, (a_job("hung"),))])


async def test_a_commit_that_hung_is_recorded_once_and_everything_goes_on(
    freezing: PostgresServer,
) -> None:
    url = freezing.url(freezing.new_database())
    store = PostgresStore(url, read_seconds=0.5)
    async with a_box(store=store, patience_seconds=0.5) as box:
        await box.submit(a_submission("true", job_id="runs"))
        key = await box.run("runs")
        freezing.freeze()
        with pytest.raises(StoreUnavailable, match="not known yet") as caught:
            await box.service.writer.do(hung, ["hung"])
        assert not caught.value.is_outcome_known
        (problem,) = box.service.problems()
        assert "has not answered for" in problem
        with pytest.raises(StoreUnavailable, match="Nothing was recorded"):
            await box.service.writer.do(lambda _: pytest.fail("was decided"), ["late"])
        with pytest.raises(StoreUnavailable, match=r"has not answered for 0\.5 s"):
            await store.jobs(JobQuery())
        box.engine.finish(key, 3)  # it ends while nothing can be recorded
        freezing.thaw()

        async def is_recorded() -> bool:
            try:
                return await box.state_of("runs") is JobState.FAILED
            except Unavailable:
                return False

        await soon(is_recorded, "the end to be recorded", 30)
        await soon(lambda: not box.service.problems(), "all to be well", 30)
        assert await store.known([JobId("hung")]) == {JobId("hung")}
        assert box.service.state.entry(JobId("hung")) is not None
        assert await box.submit(a_submission("true", job_id="later")) == "later"


async def test_a_store_that_hangs_still_closes_and_one_that_cannot_be_opened_says_so(
    freezing: PostgresServer,
) -> None:
    store = PostgresStore(freezing.url() + "?connect_timeout=2", read_seconds=0.5)
    await store.open()
    await store.jobs(JobQuery())
    freezing.freeze()
    with pytest.raises(StoreUnavailable):
        await store.jobs(JobQuery())
    async with asyncio.timeout(60):
        await store.close()
        with pytest.raises(StoreUnavailable):
            await PostgresStore(freezing.url() + "?connect_timeout=2").open()


def test_a_start_without_its_database_is_worth_another_try(tmp_path: Path) -> None:
    """Not the exit code after which systemd gives up: the server may only be late."""
    database = {"url": f"postgresql://me@127.0.0.1:{free_port()}/jobs"}
    with RealService(tmp_path, settings={"database": database}) as service:
        assert service.launch().wait(40) == 3
        assert "is not reachable: start it" in service.log_text()


def test_a_service_whose_database_hangs_is_degraded_answers_everybody_and_ends(
    freezing: PostgresServer, tmp_path: Path
) -> None:
    database = {"url": freezing.url(freezing.new_database()), "timeout_seconds": 1}
    with RealService(tmp_path, settings={"database": database}) as service:
        service.start()
        done = service.submit("true")
        service.end(done)
        freezing.freeze()
        # Though nobody asks for anything.
        eventually(lambda: service.get("/health")["status"] == "degraded", "it to be noticed")
        answer = service.http.post("/api/v1/jobs", json=service.request("true", job_id="hung"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "UNAVAILABLE")
        assert int(answer.headers["Retry-After"]) > 0
        for path in ("/jobs", f"/jobs/{done}", "/audit"):
            assert service.http.get(f"/api/v1{path}").status_code == 503, path
        freezing.thaw()
        eventually(lambda: service.get("/health")["status"] == "healthy", "all to be well")
        assert service.job(done)["state"] == "completed"
        freezing.freeze()
        assert service.terminate(30) == 0
