"""A trace drives the core: ends, then arrivals, then a cycle, at each instant."""

import pytest

from tests.builders import a_job, a_node
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.rules import BackfillMode, PlacementRule, PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.simulate import run
from tgpu.simulate.restart import PUBLISHED, Restart
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.side_by_side import side_by_side
from tgpu.simulate.world import Arrival, Cluster

FIFO = order_policy("fifo")
STRICT = Setting(SchedulingConfig(FIFO, Rules(backfill=BackfillMode.STRICT)))
GREEDY = Setting(SchedulingConfig(FIFO))


def a_cluster(nodes=1, gpus=8):
    return Cluster({"": tuple(a_node(f"n{number}", gpus) for number in range(nodes))})


def arrives(job_id, at, runs, gpus=1, partition="", **fields):
    return Arrival(a_job(job_id, gpus=gpus, submitted_at=at, **fields), runs, partition)


def times(result):
    return {o.arrival.job.job_id: (o.started_at, o.ended_at) for o in result.outcomes}


def test_a_job_starts_when_it_comes_and_ends_when_it_is_done():
    result = simulate([arrives("a", 5, 10)], a_cluster(), STRICT)
    assert times(result) == {"a": (5, 15)}
    assert result.outcomes[0].state is JobState.COMPLETED
    assert (result.outcomes[0].jct_ms, result.outcomes[0].wait_ms) == (10, 0)


def test_ends_free_their_gpus_for_arrivals_of_the_same_instant():
    trace = [arrives("a", 0, 10, gpus=8), arrives("b", 10, 5, gpus=8)]
    assert times(simulate(trace, a_cluster(), STRICT)) == {"a": (0, 10), "b": (10, 15)}


def test_under_strict_nobody_passes_the_first_that_cannot_start():
    trace = [arrives("a", 0, 10, gpus=6), arrives("b", 1, 5, gpus=8), arrives("c", 2, 1)]
    assert times(simulate(trace, a_cluster(), STRICT))["c"] == (15, 16)
    assert times(simulate(trace, a_cluster(), GREEDY))["c"] == (2, 3)


def test_arrivals_of_one_instant_are_one_cycle():
    trace = [arrives(name, 3, 10) for name in "abc"]
    result = simulate(trace, a_cluster(), STRICT)
    assert result.cycles == 1
    assert times(result) == {name: (3, 13) for name in "abc"}


def test_partitions_have_nothing_to_do_with_each_other():
    cluster = Cluster({"x": (a_node("x0", 1),), "y": (a_node("y0", 1),)})
    trace = [
        arrives("a", 0, 10, partition="x"),
        arrives("b", 1, 10, partition="x"),
        arrives("c", 2, 10, partition="y"),
    ]
    assert times(simulate(trace, cluster, STRICT)) == {"a": (0, 10), "b": (10, 20), "c": (2, 12)}


def test_a_time_limit_ends_a_job_that_runs_longer():
    result = simulate([arrives("a", 0, 100, time_limit_ms=30)], a_cluster(), STRICT)
    assert times(result) == {"a": (0, 30)}
    assert result.outcomes[0].state is JobState.FAILED


def test_a_job_of_no_length_is_over_at_once():
    assert times(simulate([arrives("a", 4, 0)], a_cluster(), STRICT)) == {"a": (4, 4)}


def test_a_job_that_never_fits_is_left_waiting_and_stops_nobody():
    trace = [arrives("a", 0, 5, gpus=9), arrives("b", 1, 5)]
    result = simulate(trace, a_cluster(), STRICT)
    assert times(result) == {"a": (None, None), "b": (1, 6)}
    assert result.unfinished == 1


def test_a_job_whose_dependency_fails_is_given_up():
    trace = [arrives("a", 0, 100, time_limit_ms=30), arrives("b", 1, 5, after=("a",))]
    last = simulate(trace, a_cluster(), STRICT).outcomes[-1]
    assert (last.state, last.started_at) == (JobState.CANCELLED, None)


def test_leases_end_at_their_limit():
    trace = [arrives("a", 0, 100, time_limit_ms=30, lease=True)]
    assert times(simulate(trace, a_cluster(), STRICT)) == {"a": (0, 30)}


def test_nothing_to_simulate_is_nothing_simulated():
    result = simulate([], a_cluster(), STRICT)
    assert (result.outcomes, result.samples, result.cycles) == ((), (), 0)


PREEMPTING = Rules(preemption=PreemptionRules())


@pytest.mark.parametrize(
    ("restart", "ended_at"),
    [
        (Restart(), 40 + 60 + 100),  # from the start
        (Restart(checkpoint_ms=15), 40 + 60 + 70),  # from 30 on
        (Restart(keeps_work=True), 40 + 60 + 60),  # from where it was
        (Restart(keeps_work=True, overhead_ms=7), 40 + 60 + 67),
        (Restart(keeps_work=True, overhead_ms=7, large_overhead_ms=9, large_gpus=4), 169),
    ],
)
def test_a_preempted_job_goes_on_as_the_restart_says(restart, ended_at):
    trace = [arrives("low", 0, 100, gpus=8), arrives("high", 40, 60, gpus=8, priority=900)]
    result = simulate(
        trace, a_cluster(), Setting(SchedulingConfig(FIFO, PREEMPTING), restart=restart)
    )
    assert times(result) == {"low": (0, ended_at), "high": (40, 100)}
    low = result.outcomes[0]
    assert low.preemptions == 1
    assert low.spans() == ((0, 40), (100, ended_at))


def test_the_published_costs_are_40_and_60_seconds():
    assert PUBLISHED.left_ms(100_000, 30_000, 8_000) == 110_000
    assert PUBLISHED.left_ms(100_000, 30_000, 9_000) == 130_000


def test_gangs_take_whole_nodes_when_consolidated():
    """12 GPUs need an empty node and half of another: with three half nodes free they wait."""
    trace = [arrives(name, 0, 10, gpus=4, spread=True) for name in "abc"]
    trace.append(arrives("gang", 1, 5, gpus=12, workers=3))
    loose = Setting(SchedulingConfig(FIFO))
    consolidated = Setting(SchedulingConfig(FIFO, placement=PlacementRule.CONSOLIDATED))
    assert times(simulate(trace, a_cluster(3), loose))["gang"] == (1, 6)
    assert times(simulate(trace, a_cluster(3), consolidated))["gang"] == (10, 15)


def test_samples_tell_use_and_waiting_over_time():
    trace = [arrives("a", 0, 1_000, gpus=8), arrives("b", 400, 1_000, gpus=8)]
    result = simulate(trace, a_cluster(), STRICT)
    by_time = {sample.at: sample for sample in result.samples}
    assert by_time[100][1:3] == (8_000, 0)
    assert by_time[500][1:3] == (8_000, 1)
    assert by_time[1_500][1:3] == (8_000, 0)


def test_samples_are_few_where_all_jobs_come_at_once():
    """Or a year of work would be a sample for each of its milliseconds."""
    year = 365 * 86_400_000
    trace = [arrives(f"{number}", 0, year, gpus=8) for number in range(3)]
    result = simulate(trace, a_cluster(), STRICT)
    assert 100 < len(result.samples) <= 4_001


def test_samples_of_partitions_are_added_up():
    cluster = Cluster({"x": (a_node("x0", 8),), "y": (a_node("y0", 8),)})
    trace = [arrives(name, 0, 1_000, gpus=8, partition=name) for name in "xy"]
    trace.append(arrives("later", 800, 100, partition="y"))
    by_time = {sample.at: sample for sample in simulate(trace, cluster, STRICT).samples}
    assert by_time[500].used_gpu_millis == 16_000


def test_progress_is_told_until_all_jobs_are_over():
    told: list[int] = []
    trace = [arrives(f"j{number:05}", number, 5) for number in range(5_000)]
    simulate(trace, a_cluster(), STRICT, tell=told.append)
    assert sum(told) == 5_000
    assert len(told) > 1


def test_partitions_in_processes_of_their_own_give_the_same_result(monkeypatch):
    used: list[int] = []

    def spy(pieces, processes, tell):
        used.append(processes)
        return side_by_side(pieces, processes, tell)

    monkeypatch.setattr(run, "side_by_side", spy)
    monkeypatch.setattr(run, "_FEW", 100)
    cluster = Cluster({name: (a_node(f"{name}0", 8),) for name in "abc"})
    trace = [
        arrives(f"j{number:05}", number, 37, gpus=1 + number % 8, partition="abcab"[number % 5])
        for number in range(600)
    ]
    told: list[int] = []
    together = simulate(trace, cluster, STRICT, processes=2, tell=told.append)
    assert used == [2]
    assert together == simulate(trace, cluster, STRICT, processes=1)
    assert used == [2]
    assert sum(told) == 600


def test_who_is_shown_the_plans_is_shown_them_all(monkeypatch):
    monkeypatch.setattr(run, "_FEW", 100)
    cluster = Cluster({name: (a_node(f"{name}0", 8),) for name in "ab"})
    trace = [arrives(f"j{n:05}", n, 5, partition="ab"[n % 2]) for n in range(600)]
    shown: list[int] = []
    result = simulate(trace, cluster, STRICT, show=lambda now, plan: shown.append(now))
    assert len(shown) == result.cycles


def test_ticks_add_cycles_while_somebody_waits():
    trace = [arrives("a", 0, 100, gpus=8), arrives("b", 1, 5, gpus=8)]
    without = simulate(trace, a_cluster(), GREEDY)
    ticking = simulate(trace, a_cluster(), Setting(SchedulingConfig(FIFO), tick_ms=10))
    assert times(ticking) == times(without)
    assert ticking.cycles > without.cycles + 5
