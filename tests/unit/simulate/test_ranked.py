"""Policies that rank those who run, on traces small enough to reckon by hand, and on made ones."""

from random import Random

import pytest

from tests.builders import a_job, a_node
from tgpu.core.model.rules import PlacementRule, PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.simulate.measures import summary
from tgpu.simulate.policies import service_policy_of, time_slicing_of
from tgpu.simulate.restart import NOTICED_LATE, PUBLISHED
from tgpu.simulate.result import Result
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.world import Arrival, Cluster

SECOND, HOUR = 1000, 3_600_000
RANKED = ("las", "adaptive", "tiresias")
PREEMPTIVE = Rules(preemption=PreemptionRules(keeps_work=True))


def a_setting(policy: str, **fields: object) -> Setting:
    rules = PREEMPTIVE if policy in RANKED else Rules()
    known = {"restart": PUBLISHED, "time_slicing": time_slicing_of(policy), **fields}
    order = order_policy(service_policy_of(policy))
    scheduling = SchedulingConfig(order, rules, PlacementRule.CONSOLIDATED)
    return Setting(scheduling, tick_ms=60_000, **known)  # type: ignore[arg-type]  # the test knows the fields


def a_cluster(nodes: int = 1) -> Cluster:
    return Cluster({"": tuple(a_node(f"n{number:02}") for number in range(nodes))})


def arrives(job_id: str, at_s: int, runs_s: int, gpus: int = 8) -> Arrival:
    workers = max(1, gpus // 8)
    job = a_job(job_id, gpus=gpus, workers=workers, submitted_at=at_s * SECOND)
    return Arrival(job, runs_s * SECOND, "")


def ends(result: Result) -> dict[str, int]:
    return {o.arrival.job.job_id: (o.ended_at or 0) // SECOND for o in result.outcomes}


def test_under_las_a_newcomer_runs_at_once_and_the_other_pays_for_the_restart() -> None:
    trace = [arrives("long", 0, 1000), arrives("short", 500, 10)]
    result = simulate(trace, a_cluster(), a_setting("las"))
    # 500 s, then 10 s for the other, then the 500 s that are left and 40 s of extra work.
    assert ends(result) == {"long": 1050, "short": 510}


def test_under_las_two_long_jobs_change_places_each_time_one_has_twice_as_much() -> None:
    trace = [arrives("a", 0, 4000), arrives("b", 100, 4000)]
    result = simulate(trace, a_cluster(), a_setting("las"))
    # Each had one more turn than the last time, of twice the length: never one for nothing.
    assert sum(outcome.preemptions for outcome in result.outcomes) <= 14
    assert result.unfinished == 0


def test_under_tiresias_a_job_waits_for_the_minute_and_its_end_is_noticed_late() -> None:
    trace = [arrives("a", 10, 30)]
    result = simulate(trace, a_cluster(), a_setting("tiresias", restart=NOTICED_LATE))
    assert ends(result) == {"a": 60 + 30 + 1}


def test_under_tiresias_who_had_its_18_000_gpu_seconds_goes_last() -> None:
    trace = [arrives("old", 0, 6000), arrives("new", 60, 600)]
    result = simulate(trace, a_cluster(), a_setting("tiresias"))
    # 8 x 2,280 s is the first full minute beyond 18,000; then 600 s for the other.
    assert ends(result) == {"new": 2280 + 600, "old": 2280 + 600 + (6000 - 2280) + 40}


def test_under_adaptive_a_newcomer_first_waits_as_long_as_the_restart_costs() -> None:
    trace = [arrives(f"long{number:02}", 0, 5000) for number in range(16)]
    trace.append(arrives("short", 600, 10))
    result = simulate(trace, a_cluster(16), a_setting("adaptive"))
    assert ends(result)["short"] == 660 + 10  # asked again each minute


def test_under_adaptive_a_gang_is_left_alone_by_short_waits() -> None:
    trace = [arrives("gang", 0, 2000, gpus=24), arrives("small", 1000, 10, gpus=16)]
    las = ends(simulate(trace, a_cluster(4), a_setting("las")))
    adaptive = ends(simulate(trace, a_cluster(4), a_setting("adaptive")))
    assert (las["small"], las["gang"]) == (1010, 2070)
    assert (adaptive["small"], adaptive["gang"]) == (2010, 2000)


def many_small_jobs(seed: int) -> tuple[list[Arrival], Cluster]:
    """Most are short, a few very long: what clusters see."""
    rng, at, trace = Random(seed), 0, []
    for number in range(200):
        at += rng.randint(0, 600)
        runs = rng.choice((20, 60, 200, 200, 1000, 3000, 60_000))
        trace.append(arrives(f"j{number:03}", at, runs, rng.choice((1, 1, 2, 4, 8))))
    return trace, a_cluster(6)


def gangs_and_small_jobs(seed: int) -> tuple[list[Arrival], Cluster]:
    """Long gangs of most of the cluster follow one another; small jobs come in between."""
    rng, at, trace = Random(seed), 0, []
    for number in range(60):
        runs = rng.choice((10, 10, 60, 30_000))
        trace.append(arrives(f"g{number:03}", at, runs, gpus=56))
        at += runs + rng.randint(0, 600)
        for extra in range(rng.randint(0, 3)):
            small = rng.choice((20, 200, 2000, 20_000))
            trace.append(arrives(f"s{number:03}{extra}", at + 5, small, rng.choice((4, 8, 8))))
    return trace, a_cluster(8)


def mean_wait(trace: list[Arrival], cluster: Cluster, policy: str) -> float:
    return summary(simulate(trace, cluster, a_setting(policy)), cluster.gpus()).wait_s.mean


@pytest.mark.parametrize("seed", range(3))
def test_where_jobs_are_small_and_most_are_short_both_orders_beat_first_come(seed: int) -> None:
    trace, cluster = many_small_jobs(seed)
    first_come = mean_wait(trace, cluster, "fifo")
    assert mean_wait(trace, cluster, "las") < first_come / 2
    assert mean_wait(trace, cluster, "adaptive") < first_come / 2


@pytest.mark.parametrize("seed", range(3))
def test_among_gangs_adaptive_does_not_lose_what_las_loses(seed: int) -> None:
    trace, cluster = gangs_and_small_jobs(seed)
    assert mean_wait(trace, cluster, "adaptive") < mean_wait(trace, cluster, "las")


@pytest.mark.parametrize("policy", RANKED)
def test_the_same_trace_gives_the_same_result(policy: str) -> None:
    trace, cluster = many_small_jobs(7)
    setting = a_setting(policy)
    assert simulate(trace, cluster, setting) == simulate(trace[::-1], cluster, setting)
