"""How well run times are predicted on the public traces, beside the last two jobs of the user.

python -m benchmarks.calibration DIR
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tgpu.core.prediction.calibration import LastTwo, PastJob, Score, outcomes, score
from tgpu.core.prediction.runtimes import Predictor
from tgpu.predictors import Gbm, load_predictor
from tgpu.simulate.past_jobs import read_past_jobs


@dataclass(frozen=True)
class Test:
    name: str
    history: str | None
    test: str


TESTS = (
    Test(
        "Venus, September after July and August",
        "helios_venus_2020_07_08_history.csv.gz",
        "helios_venus_2020_09_jobs.csv.gz",
    ),
    Test("Venus, two VCs, September", None, "helios_venus_2vc_2020_09_jobs.csv.gz"),
    Test("Philly, October and November", None, "philly_2017_jobs.csv.gz"),
)
NAMES = ("history", "gbm")

HEAD = """## How well run times are predicted

Measured as `tgpu predict evaluate` does: each job of the test month at its submission, from those
that were over by then. Half of the jobs should end under their p50 and nine of ten under their p90.
Errors are of the p50, in seconds; rank is the rank correlation. Venus as a whole and Philly name no
users: there the baseline is the last two jobs with as many GPUs. The constants of `history` were
chosen on these same traces.

| trace | predictor | jobs | under p50 | under p90 | median error | mean error | rank |
|---|---|---:|---:|---:|---:|---:|---:|"""


def calibration(directory: Path) -> list[str]:
    lines = HEAD.splitlines()
    for test in TESTS:
        jobs: list[PastJob] = []
        if test.history is not None:
            jobs += read_past_jobs(directory / test.history)
        jobs += read_past_jobs(directory / test.test, scored=True)
        for name in NAMES:
            lines.append(_line(test, f"**{name}**", _scored(jobs, load_predictor(name))))
        lines.append(_line(test, "last two jobs of the user", _scored(jobs, LastTwo)))
    return [*lines, ""]


def _scored(jobs: list[PastJob], make: Callable[[], Predictor]) -> Score:
    predictor = make()
    if isinstance(predictor, Gbm):
        predictor.in_background = False  # the same result each time
    return score(outcomes(jobs, predictor))


def _line(test: Test, name: str, found: Score) -> str:
    text = (
        f"| {test.name} | {name} | {found.jobs:,} | {found.under_p50:.1%} | {found.under_p90:.1%} "
        f"| {found.median_error_ms / 1000:,.0f} | {found.mean_error_ms / 1000:,.0f} "
        f"| {found.rank_correlation:.2f} |"
    )
    print(text)
    return text


if __name__ == "__main__":
    print("\n".join(calibration(Path(sys.argv[1]))))
