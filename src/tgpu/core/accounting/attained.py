"""Attained service: the GPU time of a job so far, in steps, for policies that know no durations.

A waiting job's step never changes, so that jobs of one class are alike in it; see
`core/state/waiting_queue.py`.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

from tgpu.core.model.ids import NodeId
from tgpu.core.model.lifecycle import PLACED, Progress, ran_ms
from tgpu.core.model.units import GPU, SECOND

# There since the first version: without it `las` and `adaptive` would decide some cycles otherwise
# than journals have it.
_EXTRA_STEP: Final = 18_001
# Where each step begins, in GPU seconds: each but that is twice the one before, up to a billion GPU
# years.
FLOORS: Final = tuple(sorted({0, _EXTRA_STEP, *(1 << bits for bits in range(56))}))
_NEVER: Final = 1 << 80


def gpu_seconds(gpu_millis: int, ran_ms: int) -> int:
    return gpu_millis * ran_ms // (GPU * SECOND)


def level_of(gpu_millis: int, ran_ms: int) -> int:
    """The step of a job with so many GPUs that had them so long; 0 before its first second."""
    return bisect_right(FLOORS, gpu_seconds(gpu_millis, ran_ms)) - 1


def doublings(level: int) -> int:
    """How often one GPU second must be doubled to come this far; 0 for none at all."""
    return FLOORS[level].bit_length()


def least_ms(level: int, gpu_millis: int) -> int:
    """How long a job with so many GPUs ran at least that is on this step."""
    return FLOORS[level] * GPU * SECOND // max(1, gpu_millis)


class AttainedService(NamedTuple):
    """What a job has had between two instants, in which that makes no difference."""

    of: Progress
    since: int
    until: int
    doublings: int
    level: int
    least_ms: int
    on: tuple[tuple[NodeId, int], ...]  # its nodes, with what it has of their GPUs


def attained_service(gpu_millis: int, progress: Progress, now: int) -> AttainedService:
    level = level_of(gpu_millis, ran_ms(progress, now))
    until = _NEVER
    on: tuple[tuple[NodeId, int], ...] = ()
    if progress.state in PLACED and progress.placement is not None:
        here: dict[NodeId, int] = {}
        for part in progress.placement.parts():
            amount = sum([share.millis for share in part.shares])
            here[part.node_id] = here.get(part.node_id, 0) + amount
        on = tuple(here.items())
        # The first instant at which it has had enough for the next step.
        enough = -(-FLOORS[level + 1] * GPU * SECOND // max(1, gpu_millis))
        until = now + max(1, enough - ran_ms(progress, now))
    return AttainedService(
        progress, now, until, doublings(level), level, least_ms(level, gpu_millis), on
    )
