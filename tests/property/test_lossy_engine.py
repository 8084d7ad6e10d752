"""Whatever an engine loses, forgets or delays, the history of the real service is a right one.

The service runs over a cluster in memory that drops calls, answers and news, delivers launches
late, forgets what is over and falls silent, while jobs come, end and are cancelled and the service
is restarted. Then the cluster is well again, everything comes to its end, and the checker reads
what the journal and the cluster have written down.
"""

import asyncio
import contextlib
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.errors import SchedulerError
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Options
from tgpu.core.model.lifecycle import TERMINAL
from tgpu.engines.api import EngineUnavailable
from tgpu.engines.fake_cluster import FakeCluster, Loss
from tgpu.journal.history_check import check_history
from tgpu.service.execution import attempts
from tgpu.service.execution.attempts import LaunchSettings
from tgpu.service.recording.clock import ManualClock
from tgpu.store import event_codec
from tgpu.store.memory import MemoryStore

STEPS = ("submit", "tick", "tick", "bind", "bind", "deliver", "end", "end", "cancel")
RARE = ("reconcile", "reconcile", "silence", "hear", "restart", "vanish")
LAUNCH = LaunchSettings(grace_ms=0, home="/", default_environment={}, absent_seconds=0)
WAYS = {
    "launch": (Loss.CALL, Loss.ANSWER, Loss.LATE),
    "stop": (Loss.CALL, Loss.ANSWER),
    "observe": (Loss.CALL,),
    "news": (Loss.NEWS,),
}


class Trial:
    def __init__(self, random: Random, odds: float) -> None:
        self.random = random
        self.odds = odds
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.engine = FakeCluster(
            clock=self.clock.now, starts=False, forgets_after=2, loses=self.loses
        )
        self.acknowledged: list[str] = []
        self.now = 0
        self.is_well = True  # a service does not start while it cannot reach its engine

    def loses(self, point: str) -> Loss | None:
        if self.is_well or self.random.random() >= self.odds:
            return None
        return self.random.choice(WAYS[point])

    async def play(self, steps: int) -> list[str]:
        while steps > 0:
            async with a_box(
                store=self.store,
                engine=self.engine,
                clock=self.clock,
                launch=LAUNCH,
                reconcile_seconds=3600.0,
            ) as box:
                self.is_well = False
                while steps > 0:
                    steps -= 1
                    if await self.step(box):
                        break  # and another service takes its place
                self.is_well = True
                if steps <= 0:
                    await self.settle(box)
        return check_history(
            await self.events(),
            self.engine.runs,
            acknowledged=self.acknowledged,
            is_settled=True,
        )

    async def step(self, box: Box) -> bool:
        """One thing happens; whether the service is to be restarted."""
        kind = self.random.choice(STEPS if self.random.random() < 0.8 else RARE)
        node = self.random.choice(("a", "b"))
        match kind:
            case "submit":
                await self.submit(box)
            case "tick":
                await self.tick(box)
            case "bind":
                self.engine.bind()
            case "deliver":
                self.engine.deliver()
            case "end" | "vanish" if self.engine.running():
                key = self.random.choice(self.engine.running())
                if kind == "end":
                    self.engine.finish(key, self.random.choice((0, 0, 1)))
                elif self.random.random() < 0.5:
                    self.engine.lose(key, "its node is gone")
            case "cancel" if self.acknowledged:
                job_id = JobId(self.random.choice(self.acknowledged))
                with contextlib.suppress(SchedulerError):  # it is over
                    await box.service.jobs.cancel(job_id)
            case "reconcile":
                await self.reconcile(box)
            case "silence":
                self.engine.silence(node)
            case "hear":
                self.engine.hear(node)
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)
        return kind == "restart"

    async def submit(self, box: Box) -> None:
        options = Options(
            max_retries=self.random.randrange(2),
            requeue=self.random.random() < 0.5,
            backoff_ms=10,
        )
        wanted = a_submission("train", gpus=self.random.choice((1, 1, 2)), options=options)
        self.acknowledged.append(await box.submit(wanted))

    async def tick(self, box: Box) -> None:
        self.now += self.random.choice((1, 50, 2000))
        await box.tick(self.now)

    async def reconcile(self, box: Box) -> None:
        found = box.service._attempts
        assert found is not None
        with contextlib.suppress(EngineUnavailable):  # the service tries again, too
            await found.reconcile()

    async def settle(self, box: Box) -> None:
        """The cluster is well again: everything comes to its end."""
        for node in ("a", "b"):
            self.engine.hear(node)
        for _ in range(400):
            self.engine.deliver()
            self.engine.bind()
            for key in self.engine.running():
                self.engine.finish(key)
            self.now += 700_000  # longer than any back-off
            await box.tick(self.now)
            await self.reconcile(box)
            await asyncio.sleep(0.002)
            if all(entry.progress.state in TERMINAL for entry in box.service.state.entries()):
                return
        left = {e.job.job_id: e.progress for e in box.service.state.entries()}
        raise AssertionError(f"these never come to an end: {left}")

    async def events(self):
        rows = await self.store.journal(0, 1_000_000)
        return [event_codec.decode_event(row.kind, row.payload) for row in rows]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be reached is tried again at once."""
    monkeypatch.setattr(attempts, "_RETRY_SECONDS", 0)


@given(seed=st.integers(0, 2**32), odds=st.sampled_from((0.0, 0.1, 0.4)))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_history_over_a_lossy_engine_is_right(seed: int, odds: float) -> None:
    trial = Trial(Random(seed), odds)
    assert asyncio.run(trial.play(steps=60)) == []
    assert trial.engine.tombstones.isdisjoint(run.key for run in trial.engine.runs)


def test_the_checker_would_notice_a_cluster_that_starts_twice() -> None:
    trial = Trial(Random(1), 0.1)
    asyncio.run(trial.play(steps=60))
    events = asyncio.run(trial.events())
    twice = [*trial.engine.runs, replace(trial.engine.runs[0], started_at=2**40, ended_at=2**41)]
    assert check_history(events, twice) != []
