"""A PostgreSQL that is stopped and started under a service, which stays the same all along."""

import asyncio
import contextlib

import pytest

from tests.servers.postgres import PostgresServer
from tests.unit.service.eventually import eventually
from tests.unit.service.world import a_box, a_submission
from tgpu.core.errors import Unavailable
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState
from tgpu.store.postgres import PostgresStore

pytestmark = pytest.mark.external


async def test_submits_are_refused_while_it_is_away_and_everything_goes_on_after(
    own_postgres: PostgresServer,
) -> None:
    store = PostgresStore(own_postgres.url(own_postgres.new_database()))
    async with a_box(store=store) as box:
        await box.submit(a_submission("true", job_id="runs"))
        key = await box.run("runs")
        await asyncio.to_thread(own_postgres.stop)
        for _ in range(5):
            with pytest.raises(Unavailable):
                await box.submit(a_submission("true", job_id="lost"))
        box.engine.finish(key, 3)  # it ends while nothing can be recorded
        writer = box.service.writer
        await eventually(lambda: not writer.breaker.is_closed, "the store to be left alone", 30)
        (problem,) = box.service.problems()
        assert problem.startswith("store: ")
        await asyncio.to_thread(own_postgres.start)

        async def is_recorded() -> bool:
            with contextlib.suppress(Unavailable):
                return await box.state_of("runs") is JobState.FAILED
            return False

        await eventually(is_recorded, "the end to be recorded", 30)
        assert (await box.service.job("runs")).progress.exit_code == 3
        assert await box.submit(a_submission("true", job_id="later")) == "later"
        assert box.service.problems() == []
        assert await store.known([JobId("lost")]) == set()
