"""Memory overuse: jobs that use more memory of a shared GPU than their share."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tgpu.core.model.job import Request
from tgpu.core.model.node import Share
from tgpu.core.model.units import GPU


class OveruseAction(StrEnum):
    OFF = "off"
    WARN = "warn"
    END = "end"


@dataclass(frozen=True, slots=True)
class OveruseRules:
    action: OveruseAction = OveruseAction.WARN
    grace_ms: int = 60_000  # between the warning and the end


class Verdict(StrEnum):
    FINE = "fine"
    WARN = "warn"  # now, and once
    WARNED = "warned"
    END = "end"


@dataclass(frozen=True, slots=True)
class OveruseWatch:
    """What is remembered of one job."""

    over_since: int | None = None
    verdict: Verdict = Verdict.FINE


WITHIN: Final = OveruseWatch()


def memory_share_mib(request: Request, share: Share, gpu_mem_mib: int) -> int | None:
    """What a job may use of one GPU's memory; None: all of it, the GPU is its own."""
    if share.millis >= GPU:
        return None
    if request.gpu_mem_mib and request.gpu_millis:
        return min(gpu_mem_mib, request.gpu_mem_mib * share.millis // request.gpu_millis)
    return gpu_mem_mib * share.millis // GPU


def judge(before: OveruseWatch, is_over: bool, now: int, rules: OveruseRules) -> OveruseWatch:
    """The watch after a reading: told at once, ended only after the grace, and only if asked."""
    if rules.action is OveruseAction.OFF or not is_over:
        return WITHIN
    if before.over_since is None:
        return OveruseWatch(now, Verdict.WARN)
    due = rules.action is OveruseAction.END and now - before.over_since >= rules.grace_ms
    return OveruseWatch(before.over_since, Verdict.END if due else Verdict.WARNED)
