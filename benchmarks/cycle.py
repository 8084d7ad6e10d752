"""What a scheduling cycle costs, and how little that depends on who waits.

    python benchmarks/cycle.py [--quick]

Prints medians of interleaved repetitions in one process; exit code 1 where a limit is broken.
Limits are ratios and sizes: a slow machine does not break them.
"""

import argparse
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter

from tgpu.core.cycle import schedule
from tgpu.core.model import lifecycle
from tgpu.core.model.events import JobMoved, JobsSubmitted, NodeSet, TenantSet
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Job, Request
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.plan import Plan
from tgpu.core.model.tenant import Tenant
from tgpu.core.policies import order_policy
from tgpu.core.state.cluster_state import Entry, State

# Promised: the same 100 starts cost at most this much more with 100 times the jobs waiting.
MAX_RATIO = 1.5
# Promised: the whole state stays below this for each waiting job.
MAX_BYTES_PER_JOB = 1024

TENANTS = 10
GPUS = 10
SHARE_MILLIS = 100  # ten jobs to a GPU, so that the 100 starts are cheap and the queue shows
STARTS = GPUS * 1000 // SHARE_MILLIS
NOW = 20_000  # less than one step of aging after the first submission
POLICY = order_policy("priority", 60)


@dataclass
class Sizes:
    few: int
    many: int
    classes: tuple[int, ...]
    jobs_over_classes: int
    repetitions: int


FULL = Sizes(10_000, 1_000_000, (100, 1_000, 10_000), 100_000, 31)
QUICK = Sizes(10_000, 100_000, (100, 1_000), 20_000, 11)


def a_job(number: int, classes: int) -> Job:
    # A request and strings of its own, as a parser makes them: nothing is shared by luck.
    return Job(
        JobId(f"job-{number:08}"),
        TenantId(f"team-{number % TENANTS}"),
        (number // TENANTS) % (classes // TENANTS),
        number,
        Request(SHARE_MILLIS, "A100", 0, 0, 0),
    )


def an_empty_state() -> State:
    state = State()
    for number in range(TENANTS):
        state.apply(TenantSet(0, Tenant(TenantId(f"team-{number}"))))
    gpus = tuple(Gpu(index, f"GPU-{index}", "A100", 81_920) for index in range(GPUS))
    state.apply(NodeSet(0, Node(NodeId("box"), gpus, 256_000, 2_097_152)))
    return state


def a_state_with(jobs: int, classes: int = 1_000) -> State:
    state = an_empty_state()
    state.apply(JobsSubmitted(0, tuple(a_job(number, classes) for number in range(jobs))))
    return state


def seconds(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def cycle(state: State) -> Plan:
    return schedule(state, NOW, POLICY)


def settle() -> None:
    """What a service does after start: the collector need not look at what stays."""
    gc.collect()
    gc.freeze()


def compare_few_with_many(sizes: Sizes) -> bool:
    few, many = a_state_with(sizes.few), a_state_with(sizes.many)
    settle()
    plan = cycle(few)
    if cycle(many) != plan or len(plan.starts) != STARTS:
        print("the two cycles do not start the same jobs")
        return False
    timed: list[tuple[float, float]] = []
    for _ in range(sizes.repetitions):
        timed.append((seconds(partial(cycle, few)), seconds(partial(cycle, many))))
    few_s, many_s = median(t for t, _ in timed), median(t for _, t in timed)
    ratio = many_s / few_s
    print(f"cycle of {STARTS} starts, 1,000 classes")
    print(f"  {sizes.few:>9,} waiting   {few_s * 1e3:8.2f} ms")
    print(f"  {sizes.many:>9,} waiting   {many_s * 1e3:8.2f} ms")
    print(f"  ratio {ratio:.2f} (at most {MAX_RATIO})")
    time_the_life_of_jobs(many, plan)
    return ratio <= MAX_RATIO


def time_the_life_of_jobs(state: State, plan: Plan) -> None:
    """The path of each launch: start, run, complete. Not limited here, only shown."""

    def start(job_id: JobId, number: int) -> JobMoved:
        progress = _entry(state, job_id).progress
        placement = plan.starts[number].placement
        after = lifecycle.place(job_id, progress, placement, NOW)
        return JobMoved(NOW, job_id, Move.START, after)

    def run(job_id: JobId, number: int) -> JobMoved:
        progress = lifecycle.run(job_id, _entry(state, job_id).progress, NOW, number)
        return JobMoved(NOW, job_id, Move.RUN, progress)

    def complete(job_id: JobId, number: int) -> JobMoved:
        progress = _entry(state, job_id).progress
        after = lifecycle.end(job_id, progress, JobState.COMPLETED, NOW)
        return JobMoved(NOW, job_id, Move.COMPLETE, after)

    print("apply(JobMoved), with the move worked out")
    for step in (start, run, complete):
        times = []
        for number, decided in enumerate(plan.starts):
            times.append(seconds(partial(_apply, state, step, decided.job_id, number)))
        print(f"  {step.__name__:<9} {median(times) * 1e6:8.1f} us")


def _apply(state: State, step: Callable[[JobId, int], JobMoved], job_id: JobId, n: int) -> None:
    state.apply(step(job_id, n))


def _entry(state: State, job_id: JobId) -> Entry:
    entry = state.entry(job_id)
    assert entry is not None
    return entry


def show_growth_with_classes(sizes: Sizes) -> None:
    print(f"cycle by number of classes, {sizes.jobs_over_classes:,} waiting")
    states = {classes: a_state_with(sizes.jobs_over_classes, classes) for classes in sizes.classes}
    settle()
    times: dict[int, list[float]] = {classes: [] for classes in states}
    for _ in range(sizes.repetitions):
        for classes, state in states.items():
            times[classes].append(seconds(partial(cycle, state)))
    for classes, measured in times.items():
        print(f"  {classes:>9,} classes   {median(measured) * 1e3:8.2f} ms")


def show_ingest(sizes: Sizes) -> None:
    """The jobs are made beforehand; what is timed is their way into the state."""
    jobs = tuple(a_job(number, 1_000) for number in range(sizes.jobs_over_classes))
    backwards = jobs[::-1]
    print("apply(JobsSubmitted)")
    for name, batch in (("in order", jobs), ("backwards", backwards)):
        times = []
        for _ in range(3):
            state = an_empty_state()
            settle()
            times.append(seconds(partial(state.apply, JobsSubmitted(0, batch))))
        print(f"  {name:<9} {median(times) / len(jobs) * 1e6:8.2f} us a job")


def check_memory(sizes: Sizes) -> bool:
    """In a fresh process, so that nothing freed before is counted or reused."""
    command = [sys.executable, __file__, "--memory-of", str(sizes.many)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    per_job = int(out.stdout) / sizes.many
    print(f"memory of the state, {sizes.many:,} waiting")
    print(f"  {per_job:,.0f} bytes a job (at most {MAX_BYTES_PER_JOB:,})")
    return per_job <= MAX_BYTES_PER_JOB


def memory_of(jobs: int) -> int:
    before = _resident_bytes()
    state = an_empty_state()
    for first in range(0, jobs, 1_000):
        batch = tuple(a_job(number, 1_000) for number in range(first, min(first + 1_000, jobs)))
        state.apply(JobsSubmitted(0, batch))
    assert len(state.waiting) == jobs
    return _resident_bytes() - before


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    parser.add_argument("--memory-of", type=int, metavar="JOBS", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.memory_of is not None:
        print(memory_of(chosen.memory_of))
        return 0
    sizes = QUICK if chosen.quick else FULL
    show_growth_with_classes(sizes)
    show_ingest(sizes)
    kept = [compare_few_with_many(sizes), check_memory(sizes)]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    raise SystemExit(main())
