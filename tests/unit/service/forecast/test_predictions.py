"""Predictions of a running service: learned from what ends, and harmless."""

from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Detail, Options, class_of
from tgpu.core.model.lifecycle import JobState
from tgpu.core.prediction.runtimes import Confidence, Facts, History, Level, Prediction
from tgpu.service.commands.submission import Submission
from tgpu.service.forecast.predictions import Predictions
from tgpu.store.memory import MemoryStore

MINUTE = 60_000


class Broken:
    """Fails when it is asked."""

    def learn(self, facts: Facts, duration_ms: int, at: int) -> None:
        pass

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        raise ZeroDivisionError("no idea")


class Backwards(Broken):
    """Has its quantiles the wrong way round."""

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        return Prediction(9, 1, Confidence(Level.MODEL, 1))


class Forgetful(Broken):
    """Fails when it is taught."""

    def learn(self, facts: Facts, duration_ms: int, at: int) -> None:
        raise MemoryError("full")


def wanted(job_id: str, name: str = "train-1", time_limit_ms: int | None = None) -> Submission:
    user = "ada"
    submission = a_submission(
        job_id=job_id, options=Options(user=user, time_limit_ms=time_limit_ms)
    )
    return Submission(
        request=submission.request,
        tenant_id=submission.tenant_id,
        job_id=submission.job_id,
        options=submission.options,
        detail=Detail(name=name, user=user),
    )


async def run_for(box: Box, job_id: str, now: int, duration: int, name: str = "train") -> None:
    await box.submit(wanted(job_id, name))
    assert job_id in await box.tick(now)
    await box.tick(now + duration)
    await box.service.jobs.complete(JobId(job_id))


async def test_a_waiting_job_is_predicted_from_the_user_s_jobs_of_that_name() -> None:
    async with a_box(leases=True) as box:
        for number in range(4):
            await run_for(box, f"j{number}", number * 10 * MINUTE, 5 * MINUTE, name=f"t-{number}")
        await box.submit(wanted("next", name="t-99"))
        stored = await box.service.job("next")

        async def is_learned() -> bool:
            found = box.service.prediction(stored)
            return found is not None and found.confidence == Confidence(Level.NAME, 4)

        await eventually(is_learned, "the names to be learned")
        found = box.service.prediction(stored)
        assert found is not None
        assert (found.p50_ms, found.p90_ms) == (5 * MINUTE, 5 * MINUTE)
        assert box.service.predictions.of_class(class_of(stored.job), 0) == 5 * MINUTE


async def test_a_job_that_is_over_or_was_never_like_any_is_not_predicted() -> None:
    async with a_box(leases=True) as box:
        await box.submit(wanted("first"))
        assert box.service.prediction(await box.service.job("first")) is None
        await box.tick(1)
        await box.service.jobs.complete(JobId("first"))
        assert box.service.prediction(await box.service.job("first")) is None


async def test_a_running_job_is_predicted_to_run_longer_than_it_did() -> None:
    async with a_box(leases=True) as box:
        await run_for(box, "short", 0, MINUTE)
        await box.submit(wanted("long"))
        await box.tick(MINUTE)
        await box.tick(61 * MINUTE)
        found = box.service.prediction(await box.service.job("long"))
        assert found is not None
        assert found.p50_ms == 120 * MINUTE


async def test_nothing_is_learned_from_a_job_that_was_cancelled_in_the_queue() -> None:
    async with a_box(leases=True) as box:
        await box.submit(wanted("gone"))
        await box.service.jobs.cancel(JobId("gone"))
        await box.submit(wanted("next"))
        assert box.service.prediction(await box.service.job("next")) is None


async def test_what_ended_before_a_start_is_learned_from_the_store() -> None:
    store = MemoryStore()
    async with a_box(leases=True, store=store) as box:
        await run_for(box, "before", 0, 7 * MINUTE)
    async with a_box(leases=True, store=store) as box:
        await box.submit(wanted("next"))
        stored = await box.service.job("next")
        found = box.service.prediction(stored)
        assert found is not None
        assert found.p50_ms == 7 * MINUTE
        assert box.service.predictions.of_class(class_of(stored.job), 0) == 7 * MINUTE


async def test_jobs_submitted_together_tell_of_each_other_also_after_a_restart() -> None:
    store = MemoryStore()
    async with a_box(leases=True, store=store) as box:
        await run_for(box, "before", 0, 7 * MINUTE)
        await box.submit(wanted("next"))
        job_class = class_of((await box.service.job("next")).job)
        run_times = box.service.predictions.run_times
        assert run_times.begun_since(job_class, 0) == 1
        assert run_times.length_ms(job_class, 0, 7 * MINUTE) == 7 * MINUTE
        await box.tick(8 * MINUTE)
        assert run_times.begun_since(job_class, 0) == 2
    async with a_box(leases=True, store=store) as box:
        run_times = box.service.predictions.run_times
        assert run_times.begun_since(job_class, 0) == 2
        # One ended after seven minutes; the other began eight minutes ago, and nobody knows.
        found = run_times.length_ms(job_class, 0, 16 * MINUTE)
        assert found is not None
        assert found > 7 * MINUTE


async def test_a_predictor_that_fails_is_reported_and_limits_take_its_place() -> None:
    for kind, sentence in (
        (Broken, "ZeroDivisionError: no idea"),
        (Backwards, "ValueError: p50_ms and p90_ms must be at least 0 and in order"),
        (Forgetful, "MemoryError: full"),
    ):
        async with a_box(leases=True, predictions=Predictions(kind, "odd")) as box:
            await run_for(box, "first", 0, MINUTE)
            await box.submit(wanted("next", time_limit_ms=3 * MINUTE))
            found = box.service.prediction(await box.service.job("next"))
            assert found == Prediction(3 * MINUTE, 3 * MINUTE, Confidence(Level.LIMIT, 0))
            [problem] = box.service.problems()
            assert problem.startswith(f"predictor odd: {sentence}")
            assert problem.endswith("; time limits take its place")
            assert await box.tick(10 * MINUTE) == ["next"]


async def test_a_predictor_that_cannot_be_made_stops_nothing() -> None:
    def make() -> History:
        raise ValueError("no predictor 'tarot'")

    async with a_box(leases=True, predictions=Predictions(make, "tarot")) as box:
        await box.submit(wanted("j"))
        assert await box.tick(1) == ["j"]
        assert await box.state_of("j") is JobState.RUNNING
        assert "no predictor 'tarot'" in box.service.problems()[0]
