"""An estimate promises nothing before what is in its way can be over, and its words agree."""

import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_node, a_state, start
from tgpu.cli.render.estimate import start_text, starts_in
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.policies import order_policy
from tgpu.core.prediction.runtimes import Confidence, Facts, History, Level, by_its_own
from tgpu.core.projection.estimate import Announced, Basis, Estimate, StartSpread
from tgpu.core.projection.queue_projection import Projection, RunLength
from tgpu.core.scheduling_config import CycleContext, SchedulingConfig
from tgpu.text.instants import iso_millis
from tgpu.wire.estimates_v1 import EstimateModel

MINUTE = 60_000
NOW = 100 * MINUTE
COMMANDS = ("train", "demo")


def facts(command: str, limit: int | None) -> Facts:
    return Facts("default", "ada", 1000, command=command, exact=command, time_limit_ms=limit)


def earliest_end(began: int, limit: int | None, runs: list[int]) -> int:
    """By a blocker's own facts: enough runs of the same command that lasted longer than it did so
    far, or else its time limit; without either it may end at once."""
    elapsed = NOW - began
    longer = [ms for ms in runs if ms > elapsed]
    if limit is None:
        return NOW + 1
    if len(longer) >= 3:
        return min(began + limit, began + min(longer))
    return began + limit


@given(seed=st.integers(0, 2**32))
def test_nothing_is_promised_before_the_facts_of_those_in_the_way_allow_it(seed: int) -> None:
    rng = Random(seed)
    history, past = History(), {name: list[int]() for name in COMMANDS}
    for number in range(rng.randint(0, 30)):
        name, ran = rng.choice(COMMANDS), rng.choice((2000, 5 * MINUTE, 90 * MINUTE))
        history.learn(facts(name, rng.choice((None, 60 * MINUTE))), ran, number)
        past[name].append(ran)
    gpus = rng.randint(1, 3)
    limits = {f"r{n}": rng.choice((None, 60 * MINUTE, 120 * MINUTE)) for n in range(gpus)}
    names = {name: rng.choice(COMMANDS) for name in limits}
    began = {name: NOW - rng.randint(0, 59) * MINUTE for name in limits}
    running = [a_job(name, time_limit_ms=limit) for name, limit in limits.items()]
    waiting = a_job("w", gpus=rng.randint(1, gpus), submitted_at=NOW)
    state = a_state(*running, waiting, nodes=[a_node(gpus=gpus)], now=NOW)
    for index, job in enumerate(running):
        start(state, job.job_id, index, at=began[job.job_id])

    def runs(job: Job, elapsed_ms: int) -> RunLength:
        known = facts(names.get(job.job_id, "other"), job.options.time_limit_ms)
        told = by_its_own(known, history.predict(known, elapsed_ms, NOW), elapsed_ms)
        if told is None:
            return RunLength(max(60 * MINUTE, 2 * elapsed_ms), False, Confidence(Level.NOTHING, 0))
        return RunLength(max(elapsed_ms, told.p50_ms), by=told.confidence)

    projection = Projection(
        state, NOW, CycleContext(SchedulingConfig(order_policy("priority"))), runs
    )
    while not projection.is_over:
        projection.step()
    simulated = projection.starts[waiting.job_id]
    p50, p90 = a_spread(rng).window(NOW, simulated)
    found = Estimate(p50, p90, NOW, Basis.SIMULATED).within(NOW, 0, None)
    ends = sorted(earliest_end(began[one], limits[one], past[names[one]]) for one in limits)
    wanted = waiting.request.gpu_millis // 1000
    assert ends[wanted - 1] <= found.p50_at <= found.p90_at
    assert projection.rests_on[waiting.job_id] is not None


def a_spread(rng: Random) -> StartSpread:
    """Earlier jobs began much sooner or later than they were told."""
    spread = StartSpread()
    for number in range(rng.choice((0, 19, 40))):
        foreseen, waited = rng.randint(1, 200) * MINUTE, rng.randint(0, 200) * MINUTE
        told = Announced(
            JobId(f"e{number}"), TenantId("default"), "default", 0, foreseen, 0, 0, waited
        )
        spread.learn(told)
    return spread


@given(
    p50=st.integers(-100, 10**6),
    more=st.integers(0, 10**6),
    floor=st.integers(0, 10**6),
    latest=st.none() | st.integers(-100, 2 * 10**6),
    basis=st.sampled_from(Basis),
    level=st.sampled_from(Level),
)
def test_words_never_contradict_each_other(
    p50: int, more: int, floor: int, latest: int | None, basis: Basis, level: Level
) -> None:
    by = Confidence(level, 3)
    told = Estimate(p50 * 1000, (p50 + more) * 1000, 0, basis, by)
    promise = None if latest is None else latest * 1000
    found = told.within(0, floor * 1000, promise)
    assert max(0, floor * 1000 if basis is not Basis.NEXT_CYCLE or floor else 0) <= found.p50_at
    assert found.p50_at <= found.p90_at
    assert found.latest_at is None or found.p90_at <= found.latest_at
    model = EstimateModel(
        p50=f"{found.p50_at // 1000}s",
        p90=f"{found.p90_at // 1000}s",
        as_of="0s",
        basis=basis,
        level=level,
        samples=3,
        latest=None if found.latest_at is None else f"{found.latest_at // 1000}s",
    )
    sentence, cell = start_text(model, 0), starts_in(model, 0)
    is_now = basis is Basis.NEXT_CYCLE and iso_millis(model.p90) < 5000
    assert ("now" in re.findall(r"[a-z]+", sentence.partition(";")[0])) is is_now
    assert (cell == "now") is is_now
    assert "now" not in cell.replace("now", "", 1)
    if found.p90_at >= 60_000:
        assert "now" not in cell
