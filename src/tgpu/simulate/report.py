"""A simulation as a document: input and results."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tgpu import __version__
from tgpu.core.model.units import GPU
from tgpu.simulate.measures import distribution, shares, summary
from tgpu.simulate.result import Result
from tgpu.simulate.world import Cluster

KIND: Final = "tgpu simulation"
_KINDS: Final = (KIND, "gpu-scheduler simulation")  # the second is how it was called before


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What was simulated, in words."""

    trace: str
    cluster: str
    policy: str
    backfill: str
    placement: str
    limits: str = "given"
    predictor: str = ""  # empty: nothing goes by one
    seed: int | None = None
    skipped: int = 0  # bad lines that were left out
    seconds: float = 0.0  # that it took
    config: str = ""  # the settings file; empty: the defaults of the service
    keep_work: bool = False  # preempted jobs went on where they were
    # All settings by which was decided, under their names.
    settings: Mapping[str, Any] = field(default_factory=dict)


def report(run: SimulatedRun, cluster: Cluster, result: Result) -> dict[str, Any]:
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
    return isinstance(document, dict) and document.get("kind") in _KINDS
