"""When jobs start, as a running service tells it: announced once, scored, kept, and harmless."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, FailingStore, a_box, a_submission
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Options
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.core.prediction.runtimes import Confidence, Facts, History, Level, Prediction
from tgpu.core.projection.estimate import Announced, Basis, Estimate
from tgpu.core.state.cluster_state import State
from tgpu.service.commands.reservations import ReservationWish
from tgpu.service.feed.feed import Subscription
from tgpu.service.feed.feed_event import ESTIMATED, FeedEvent
from tgpu.service.forecast import estimates as module
from tgpu.service.forecast.estimates import EstimateSettings
from tgpu.service.forecast.predictions import Predictions
from tgpu.service.forecast.start_inquiries import forecast_start
from tgpu.service.recording.clock import WallClock
from tgpu.service.recording.observer import Observer
from tgpu.store.memory import MemoryStore

HOUR = 3_600_000
LIMITED = Options(time_limit_ms=HOUR)
ONE_GPU = "sim:1xA100"


class Broken(History):
    """Fails when it is asked."""

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        raise ZeroDivisionError("no idea")


class Kept(Observer):
    def __init__(self) -> None:
        self.scored: list[Announced] = []

    def start_scored(self, told: Announced) -> None:
        self.scored.append(told)


async def a_queue(box: Box, *names: str) -> None:
    """One after the other, each of an hour."""
    for name in names:
        await box.submit(a_submission(job_id=name, options=LIMITED))
    await box.tick(0)


async def of(box: Box, job_id: str) -> Estimate | None:
    await box.service.look_ahead()
    return box.service.estimates.of(JobId(job_id))


async def p50(box: Box, job_id: str) -> int | None:
    found = await of(box, job_id)
    return None if found is None else found.p50_at


async def test_a_waiting_job_starts_when_those_before_it_have_ended() -> None:
    async with a_box(gpus=ONE_GPU, leases=True) as box:
        await a_queue(box, "a", "b", "c")
        assert [await p50(box, name) for name in ("b", "c")] == [HOUR, 2 * HOUR]
        found = await of(box, "c")
        assert found is not None
        assert found.basis is Basis.SIMULATED


async def test_an_estimate_promises_nothing_before_its_blocker_can_be_over() -> None:
    """Nineteen demos of two seconds say nothing of a job with an hour."""
    async with a_box(gpus=ONE_GPU, leases=True) as box:
        for number in range(19):
            await box.submit(a_submission(job_id=f"demo-{number}"))
            await box.tick()
            await box.tick(2)
            await box.service.jobs.complete(JobId(f"demo-{number}"))
        await a_queue(box, "long", "next")
        entry = box.service.state.entry(JobId("long"))
        assert entry is not None
        assert entry.progress.started_at is not None
        found = await of(box, "next")
        assert found is not None
        assert found.p50_at == entry.progress.started_at + HOUR
        assert found.by == Confidence(Level.LIMIT, 0)


async def test_a_job_that_runs_or_is_on_hold_has_none() -> None:
    async with a_box(gpus=ONE_GPU, leases=True) as box:
        await a_queue(box, "a", "b")
        await box.service.jobs.hold(JobId("b"), held=True)
        assert await of(box, "a") is None
        assert await of(box, "b") is None


async def test_what_the_next_cycle_starts_starts_now_and_is_not_announced() -> None:
    async with a_box(gpus=ONE_GPU, leases=True) as box:
        await box.submit(a_submission(job_id="a"))
        found = await of(box, "a")
        assert found is not None
        assert (found.basis, found.p50_at, found.p90_at) == (Basis.NEXT_CYCLE, 0, 0)
        assert box.service.estimates.announced(JobId("a")) is None


async def test_where_nothing_is_known_of_run_times_it_is_a_guess() -> None:
    async with a_box(gpus=ONE_GPU, leases=True) as box:
        for name in ("a", "b"):
            await box.submit(a_submission(job_id=name))
        await box.tick(0)
        found = await of(box, "b")
        assert found is not None
        assert found.basis is Basis.GUESSED


async def test_behind_those_that_are_looked_at_one_by_one_it_is_told_roughly() -> None:
    settings = EstimateSettings(most_jobs=2)
    async with a_box(gpus=ONE_GPU, leases=True, estimates=settings) as box:
        await a_queue(box, "a", "b", "c", "d", "e")
        bases = [found.basis for name in "bcde" if (found := await of(box, name)) is not None]
        assert bases == [Basis.SIMULATED] * 2 + [Basis.THROUGHPUT] * 2


async def test_the_first_estimate_is_what_counts() -> None:
    async with a_box(gpus=ONE_GPU, leases=True) as box:
        await a_queue(box, "a", "b")
        await of(box, "b")
        await box.tick(HOUR // 2)
        await box.submit(a_submission(job_id="first", options=LIMITED, priority=9000))
        assert await p50(box, "b") == 2 * HOUR
        told = box.service.estimates.announced(JobId("b"))
        assert told is not None
        assert (told.at, told.p50_at) == (0, HOUR)


async def test_a_start_is_scored_and_observers_hear_of_it() -> None:
    kept = Kept()
    async with a_box(gpus=ONE_GPU, leases=True, observers=[kept]) as box:
        await a_queue(box, "a", "b")
        await of(box, "b")
        assert "b" in await box.tick(HOUR)
        assert [(one.job_id, one.started_at) for one in kept.scored] == [("b", HOUR)]
        assert box.service.estimates.scored(0) == kept.scored
        assert box.service.estimates.scored(HOUR + 1) == []


async def test_a_job_that_was_cancelled_is_not_scored() -> None:
    async with a_box(gpus=ONE_GPU, leases=True) as box:
        await a_queue(box, "a", "b")
        await of(box, "b")
        await box.service.jobs.cancel(JobId("b"))
        assert box.service.estimates.announced(JobId("b")) is None
        assert box.service.estimates.scored(0) == []


async def test_a_restart_keeps_what_was_announced() -> None:
    store = MemoryStore()
    async with a_box(store=store, gpus=ONE_GPU, leases=True) as box:
        await a_queue(box, "a", "b")
        await of(box, "b")
        told = box.service.estimates.announced(JobId("b"))
    async with a_box(store=store, gpus=ONE_GPU, leases=True) as box:
        assert box.service.estimates.announced(JobId("b")) == told
        await box.tick(HOUR)
        assert [one.started_at for one in box.service.estimates.scored(0)] == [HOUR]


async def test_what_started_and_was_not_written_down_is_scored_at_the_next_start() -> None:
    store = MemoryStore()
    async with a_box(store=store, gpus=ONE_GPU, leases=True) as box:
        await a_queue(box, "a", "b", "c")
        await of(box, "c")
        await box.tick(HOUR)  # nobody asks afterwards, so this is in the job alone
        await box.service.jobs.cancel(JobId("c"))
    async with a_box(store=store, gpus=ONE_GPU, leases=True) as box:
        scored = [(one.job_id, one.started_at) for one in box.service.estimates.scored(0)]
        assert scored == [("b", HOUR)]
        assert box.service.estimates.announced(JobId("c")) is None


async def test_only_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 1)
    store = MemoryStore()
    async with a_box(store=store, gpus=ONE_GPU, leases=True) as box:
        await a_queue(box, "a", "b", "c")
        await of(box, "c")
        await box.tick(HOUR)
        await box.tick(2 * HOUR)
        await of(box, "c")
        assert [one.job_id for one in box.service.estimates.scored(0)] == ["c"]
        assert list(await store.documents("estimate")) == ["c"]


async def test_watchers_hear_of_the_first_estimate_and_of_much_later_ones() -> None:
    async with a_box(gpus=ONE_GPU, leases=True) as box:
        subscription = box.service.feed.subscribe(asides=True)
        async with subscription:
            await a_queue(box, "a", "b")
            await of(box, "b")
            await box.tick(60_000)
            await of(box, "b")
            await box.submit(a_submission(job_id="first", options=LIMITED, priority=9000))
            await of(box, "b")
            heard = await _told(subscription, 3)
        seconds = [(event.job_id, event.data["p50_seconds"]) for event in heard]
        assert seconds[0] == ("b", 3600)
        assert sorted(seconds[1:]) == [("b", 7140), ("first", 3540)]
        assert {event.seq for event in heard} <= set(range(box.service.feed.last_seq + 1))


async def _told(subscription: Subscription, count: int) -> list[FeedEvent]:
    heard: list[FeedEvent] = []
    async with asyncio.timeout(10):
        while len(heard) < count:
            event = await anext(subscription)
            if event.kind == ESTIMATED:
                heard.append(event)
    return heard


async def test_a_broken_predictor_leaves_time_limits_to_tell_by() -> None:
    predictions = Predictions(Broken, "broken")
    async with a_box(gpus=ONE_GPU, leases=True, predictions=predictions) as box:
        await a_queue(box, "a", "b")
        assert await p50(box, "b") == HOUR


async def test_a_policy_that_counts_how_often_it_is_asked_is_not_asked() -> None:
    asked = 0

    def choose(_: object, jobs: Sequence[object]) -> object:
        nonlocal asked
        asked += 1
        return jobs[0] if jobs else None

    policy = ChoicePolicy("theirs", choose)  # type: ignore[arg-type]  # jobs are what they are
    async with a_box(gpus=ONE_GPU, leases=True, policy=policy) as box:
        await a_queue(box, "a", "b")
        before = asked
        assert await p50(box, "b") == HOUR
        assert asked == before


async def test_what_fails_while_looking_ahead_is_a_problem_and_stops_nobody() -> None:
    async with a_box(gpus=ONE_GPU, leases=True) as box:

        def broken(_: State) -> None:
            raise ZeroDivisionError("a bug")

        box.service.estimates._look_up = broken  # type: ignore[method-assign,assignment]
        await a_queue(box, "a", "b")
        assert await of(box, "b") is None
        assert box.service.problems() == ["start estimates: ZeroDivisionError: a bug"]
        await box.service.jobs.complete(JobId("a"))
        assert await box.tick(1) == ["b"]


async def test_a_store_that_is_away_gets_what_was_announced_later() -> None:
    store = FailingStore()
    async with a_box(store=store, gpus=ONE_GPU, leases=True) as box:
        await a_queue(box, "a", "b")
        store.broken = "the disk is full"
        assert await p50(box, "b") == HOUR
        assert await store.documents("estimate") == {}
        store.broken = None
        await box.tick(1)
        await of(box, "b")
        (body,) = (await store.documents("estimate")).values()
        assert msgspec.json.decode(body, type=Announced).at == 0


async def test_on_the_walls_clock_estimates_come_by_themselves_with_names_and_commands() -> None:
    async with a_box(gpus=ONE_GPU, clock=WallClock()) as box:
        first = await box.submit(a_submission("sleep", "1"))
        await box.until(first, JobState.RUNNING)
        second = await box.submit(a_submission("sleep", "1"))

        async def is_told() -> bool:
            return box.service.estimates.of(JobId(second)) is not None

        await eventually(is_told, "an estimate")


async def test_without_an_interval_nobody_is_told_anything() -> None:
    settings = EstimateSettings(interval_seconds=0)
    async with a_box(gpus=ONE_GPU, leases=True, estimates=settings) as box:
        await a_queue(box, "a", "b")
        assert await of(box, "b") is None


async def test_a_question_changes_nothing() -> None:
    store = FailingStore()
    async with a_box(store=store, gpus=ONE_GPU, leases=True) as box:
        await a_queue(box, "a", "b")
        before = len(store.commits)
        jobs, _ = await box.service.jobs.rehearse(a_submission(options=LIMITED))
        found = await forecast_start(box.service.estimates, jobs)
        assert found.estimate is not None
        assert found.estimate.p50_at == 2 * HOUR
        assert len(store.commits) == before
        assert box.service.state.live_count() == 2
        assert await box.submit(a_submission()) == "1"  # no number was spent on it


@pytest.mark.parametrize("backfill", BackfillMode)
async def test_a_reservation_that_nobody_uses_is_given_back_in_estimates_as_in_truth(
    backfill: BackfillMode,
) -> None:
    minutes = 60_000
    async with a_box(gpus=ONE_GPU, leases=True, rules=Rules(backfill)) as box:
        wish = ReservationWish(TenantId("default"), 1, 60 * minutes, unused_ms=10 * minutes)
        await box.service.bookings.reserve(wish)
        await box.submit(a_submission(job_id="a"))
        await box.tick(0)
        told = await p50(box, "a")
        assert told == 10 * minutes
        await box.tick(told)  # gives it back, and the commit wakes the next cycle
        assert await box.tick(told) == ["a"]
