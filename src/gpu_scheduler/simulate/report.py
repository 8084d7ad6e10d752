"""A simulation as a document: what was run and what came out of it."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from gpu_scheduler import __version__
from gpu_scheduler.core.units import GPU
from gpu_scheduler.simulate.measures import distribution, shares, summary
from gpu_scheduler.simulate.result import Result
from gpu_scheduler.simulate.world import Cluster

KIND: Final = "gpu-scheduler simulation"


@dataclass(frozen=True, slots=True)
class Run:
    """What was simulated, in words."""

    trace: str
    cluster: str
    policy: str
    passing: str
    placement: str
    limits: str = "given"
    predictor: str = ""  # empty: nothing goes by one
    seed: int | None = None
    skipped: int = 0  # bad lines that were left out
    seconds: float = 0.0  # that it took


def report(run: Run, cluster: Cluster, result: Result) -> dict[str, Any]:
    over = [outcome for outcome in result.outcomes if outcome.ended_at is not None]
    return {
        "kind": KIND,
        "version": __version__,
        "run": asdict(run),
        "nodes": cluster.nodes(),
        "gpus": cluster.gpus(),
        "summary": asdict(summary(result, cluster.gpus())),
        "tenants": [asdict(share) for share in shares(result)],
        "distributions": {
            "jct_s": distribution([outcome.jct_ms for outcome in over]),
            "wait_s": distribution([outcome.wait_ms for outcome in over]),
        },
        "samples": [
            {
                "at_s": sample.at / 1000,
                "used_gpus": sample.used_gpu_millis / GPU,
                "waiting_jobs": sample.waiting,
                "unusable_gpus": sample.unusable_gpu_millis / GPU,
            }
            for sample in result.samples
        ],
    }


def is_report(document: object) -> bool:
    return isinstance(document, dict) and document.get("kind") == KIND
