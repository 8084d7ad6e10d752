"""Scheduling quality on the public traces, beside what others reached; writes docs/results.md.

    python -m benchmarks.quality DIR [--out docs/results.md]

Every figure of ours is measured by this run. Those of others are what their authors' simulators, or
exact re-implementations of them, gave on the same jobs and clusters. Exit code 1 where our FIFO is
off: the check that the simulator is right.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from gpu_scheduler.core.policies import order_policy
from gpu_scheduler.core.rules import Passing, PlacementRule, Rules
from gpu_scheduler.simulate.clusters import read_cluster
from gpu_scheduler.simulate.jobs import Jobs, Limits
from gpu_scheduler.simulate.measures import Summary, summary
from gpu_scheduler.simulate.run import Setting, simulate
from gpu_scheduler.simulate.traces import read_trace

MOST_OFF = 0.001  # of the published FIFO


@dataclass(frozen=True)
class Case:
    name: str
    trace: str
    cluster: str  # a file of the directory, or words
    nodes: str | None
    # Mean JCT and mean wait in seconds, by policy.
    references: dict[str, tuple[float, float]]


CASES = (
    Case(
        "Philly, 11 VCs, 352 nodes",
        "philly_2017_jobs.csv.gz",
        "philly_2017_vcs.csv",
        None,
        {
            "FIFO": (26_703.5, 4_028.8),
            "FIFO, skip": (23_760, 1_085),
            "QSSF": (23_601, 926),
            "Tiresias": (23_185, 510),
            "best known without the future": (22_972, 297),
            "SJF, told the future": (23_249, 574),
        },
    ),
    Case(
        "Philly, 264 nodes (`nodes_tight75`)",
        "philly_2017_jobs.csv.gz",
        "philly_2017_vcs.csv",
        "nodes_tight75",
        {
            "FIFO": (74_698.5, 52_023.7),
            "FIFO, skip": (32_539, 9_864),
            "QSSF": (30_104, 7_429),
            "Tiresias": (29_516, 6_841),
            "best known without the future": (25_331, 2_656),
            "SJF, told the future": (27_370, 4_695),
        },
    ),
    Case(
        "Venus, one pool of 100 nodes",
        "helios_venus_2020_09_jobs.csv.gz",
        "100x8",
        None,
        {
            "FIFO": (14_396.8, 5_904.2),
            "FIFO, skip": (9_631, 1_139),
            "QSSF": (10_115, 1_623),
            "Tiresias": (8_930, 438),
            "best known without the future": (8_584, 92),
            "SJF, told the future": (9_151, 658),
        },
    ),
    Case(
        "Venus, two VCs",
        "helios_venus_2vc_2020_09_jobs.csv.gz",
        "vcvGl=20x8,vcvlY=2x8",
        None,
        {
            "FIFO": (16_534.3, 10_883.5),
            "FIFO, skip": (5_902.4, 251.6),
            "QSSF": (5_896, 245),
            "Tiresias": (10_981, 5_330),
            "best known without the future": (5_857, 206),
            "SJF, told the future": (6_273, 622),
        },
    ),
)


@dataclass(frozen=True)
class Ours:
    """A setting of ours; `like` is the reference that it should reproduce."""

    name: str
    policy: str
    passing: Passing
    placement: PlacementRule
    like: str | None = None
    limits: Limits = Limits.NONE


SETTINGS = (
    Ours("fifo, strict", "fifo", Passing.STRICT, PlacementRule.CONSOLIDATED, "FIFO"),
    Ours("fifo, greedy", "fifo", Passing.GREEDY, PlacementRule.CONSOLIDATED, "FIFO, skip"),
    Ours("fifo, greedy", "fifo", Passing.GREEDY, PlacementRule.FRAGMENTATION),
)


@dataclass(frozen=True)
class Measured:
    ours: Ours
    found: Summary
    seconds: float


def measure(case: Case, ours: Ours, directory: Path) -> Measured:
    path = directory / case.cluster
    cluster = read_cluster(str(path) if path.exists() else case.cluster, case.nodes)
    jobs = Jobs(read_trace(directory / case.trace), cluster, ours.limits)
    if jobs.problems:
        raise SystemExit(f"{case.trace}: {jobs.problems[0].sentence()}")
    setting = Setting(order_policy(ours.policy), Rules(passing=ours.passing), ours.placement)
    began = perf_counter()
    result = simulate(jobs.arrivals, cluster, setting)
    return Measured(ours, summary(result, cluster.gpus()), perf_counter() - began)


def lines_of(case: Case, measured: list[Measured]) -> list[str]:
    lines = [
        f"## {case.name}",
        "",
        f"{measured[0].found.jobs:,} jobs, {measured[0].found.large_jobs:,} of more than 8 GPUs.",
        "",
        "| setting or policy | mean JCT | mean wait | p99.9 wait | longest wait "
        "| mean wait, > 8 GPUs | mean bounded slowdown |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in measured:
        found = one.found
        lines.append(
            f"| **{one.ours.name}, {one.ours.placement}** | {found.jct_s.mean:,.1f} "
            f"| {found.wait_s.mean:,.1f} | {found.wait_s.p999:,.0f} | {found.wait_s.max:,.0f} "
            f"| {found.large_wait_s.mean:,.0f} | {found.mean_slowdown:,.1f} |"
        )
    lines += [
        f"| {name} | {jct:,.1f} | {wait:,.1f} | | | | |"
        for name, (jct, wait) in case.references.items()
    ]
    return [*lines, ""]


def is_off(case: Case, one: Measured) -> bool:
    """Whether a setting that should reproduce the published FIFO does not."""
    if one.ours.like != "FIFO":
        return False
    jct, wait = case.references["FIFO"]
    found = one.found
    return max(abs(found.jct_s.mean / jct - 1), abs(found.wait_s.mean / wait - 1)) > MOST_OFF


HEAD = """# Scheduling quality, measured

Written by `make quality TRACES=DIR`. Settings of ours are in bold, measured by that run with the
scheduler's own cycle; the others are published simulators, or exact re-implementations of them, on
the same jobs and the same clusters. Seconds. JCT is end minus submission; wait is JCT minus the
job's own duration. "Told the future" means that a policy knew the true durations. A FIFO in which
nobody passes must agree with the published one to within 0.1 %: the check that the simulator is
right.
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", type=Path, help="directory of the public traces")
    parser.add_argument("--out", type=Path, default=Path("docs/results.md"))
    options = parser.parse_args()
    if not options.traces.is_dir():
        parser.error(f"there is no directory {options.traces}; say make quality TRACES=DIR")
    lines, off = HEAD.splitlines(), 0
    for case in CASES:
        measured = []
        for ours in SETTINGS:
            one = measure(case, ours, options.traces)
            measured.append(one)
            found = one.found
            print(
                f"{case.name}: {ours.name}, {ours.placement}: "
                f"{found.jct_s.mean:,.1f} / {found.wait_s.mean:,.1f} in {one.seconds:.1f} s"
            )
            if is_off(case, one):
                off += 1
                print("  this is not the published FIFO")
        lines += ["", *lines_of(case, measured)[:-1]]
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {options.out}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
