"""Whatever the trace: simulations keep to the rules, and shortcuts change nothing."""

import subprocess
import sys
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_node
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.rules import BackfillMode, PlacementRule, PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.core.prediction.runtimes import History
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.simulate.foresight import SimulatedForesight, by_what_is_learned
from tgpu.simulate.restart import PUBLISHED, Restart
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.world import Arrival, Cluster

NODES = tuple(a_node(f"n{number}", 4) for number in range(3))
CLUSTER = Cluster({"": NODES})
GPUS = 12
SHAPES = ((0.5, 1), (1.0, 1), (2.0, 1), (4.0, 1), (6.0, 3), (8.0, 2), (12.0, 3))


@st.composite
def traces(draw: st.DrawFn) -> list[Arrival]:
    count = draw(st.integers(1, 25))
    found = []
    for number in range(count):
        gpus, workers = draw(st.sampled_from(SHAPES))
        limit = draw(st.sampled_from((None, None, 5, 50)))
        job = a_job(
            f"j{number:02}",
            draw(st.sampled_from(("red", "blue"))),
            gpus=gpus,
            workers=workers,
            priority=draw(st.sampled_from((100, 500, 900))),
            submitted_at=draw(st.integers(0, 60)),
            time_limit_ms=limit,
        )
        found.append(Arrival(job, draw(st.integers(0, 40))))
    return found


@st.composite
def a_setting(draw: st.DrawFn) -> Setting:
    backfill = draw(st.sampled_from(BackfillMode))
    # Under `conservative`, a preempted job may stand behind a promise to a younger job alike.
    may_preempt = backfill is not BackfillMode.CONSERVATIVE and draw(st.booleans())
    name = draw(st.sampled_from(("fifo", "priority", "fairshare", "shortest", "quickest")))
    foresees = name in ("shortest", "quickest") and draw(st.booleans())
    scheduling = SchedulingConfig(
        order_policy(name),
        Rules(backfill, preemption=PreemptionRules() if may_preempt else None),
        draw(st.sampled_from(PlacementRule)),
    )
    foresight = SimulatedForesight(History, by_what_is_learned(scheduling, name))
    return Setting(
        scheduling,
        draw(st.sampled_from((Restart(), PUBLISHED, Restart(checkpoint_ms=7)))),
        foresight=foresight if foresees else None,
    )


@given(traces(), a_setting())
def test_no_more_gpus_are_in_use_than_there_are(trace: list[Arrival], setting: Setting) -> None:
    changes: dict[int, int] = defaultdict(int)
    for outcome in simulate(trace, CLUSTER, setting).outcomes:
        for since, until in outcome.spans():
            changes[since] += outcome.arrival.job.request.gpu_millis
            changes[until] -= outcome.arrival.job.request.gpu_millis
    used = 0
    for at in sorted(changes):
        used += changes[at]
        assert 0 <= used <= GPUS * 1000
    assert used == 0


@given(traces(), a_setting())
def test_every_job_ends_after_its_own_duration_and_not_before(
    trace: list[Arrival], setting: Setting
) -> None:
    result = simulate(trace, CLUSTER, setting)
    assert len(result.outcomes) == len(trace)
    for outcome in result.outcomes:
        assert outcome.ended_at is not None
        assert outcome.started_at is not None
        assert outcome.started_at >= outcome.arrival.job.submitted_at
        if outcome.state is JobState.COMPLETED:
            assert outcome.wait_ms >= 0
            ran = sum(until - since for since, until in outcome.spans())
            assert ran >= outcome.arrival.run_ms
        else:
            assert outcome.state is JobState.FAILED  # by its time limit


@given(traces(), st.sampled_from(BackfillMode), st.sampled_from(PlacementRule))
def test_cycles_that_are_left_out_would_have_changed_nothing(
    trace: list[Arrival], backfill: BackfillMode, placement: PlacementRule
) -> None:
    for policy in ("fifo", "priority"):
        setting = Setting(SchedulingConfig(order_policy(policy), Rules(backfill), placement))
        thorough = Setting(
            SchedulingConfig(order_policy(policy), Rules(backfill), placement), every_cycle=True
        )
        quick, slow = (simulate(trace, CLUSTER, each) for each in (setting, thorough))
        assert quick.outcomes == slow.outcomes
        assert quick.cycles <= slow.cycles


@given(traces(), a_setting(), st.randoms(use_true_random=False))
def test_the_order_in_which_a_trace_is_written_does_not_matter(trace, setting, rng) -> None:
    shuffled = list(trace)
    rng.shuffle(shuffled)
    assert simulate(shuffled, CLUSTER, setting) == simulate(trace, CLUSTER, setting)


@given(traces())
def test_strict_first_come_never_starts_a_later_job_before_an_earlier_one(trace) -> None:
    setting = Setting(SchedulingConfig(order_policy("fifo"), Rules(BackfillMode.STRICT)))
    outcomes = simulate(trace, CLUSTER, setting).outcomes
    starts = [outcome.started_at for outcome in outcomes if outcome.started_at is not None]
    assert len(starts) == len(trace)
    assert starts == sorted(starts)


_DIGEST = """
import hashlib
from tgpu.core.policies import order_policy
from tgpu.core.model.rules import BackfillMode, PreemptionRules, Rules
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.simulate.clusters import read_cluster
from tgpu.simulate.jobs import Jobs
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.synthetic import synthetic
cluster = read_cluster("a=3x8,b=2x4")
jobs = Jobs(synthetic(400, cluster, 3), cluster).arrivals
scheduling = SchedulingConfig(
    order_policy("fairshare"), Rules(BackfillMode.EASY, preemption=PreemptionRules())
)
setting = Setting(scheduling)
print(hashlib.sha256(repr(simulate(jobs, cluster, setting)).encode()).hexdigest())
"""


def test_the_result_does_not_depend_on_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1
