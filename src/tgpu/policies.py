"""Scheduling policies for plug-in authors.

A policy of your own is a class with `select_next_job`, named in your package's metadata:

    [project.entry-points."tgpu.policies"]
    lottery = "my_package:LotteryPolicy"

and chosen with `scheduler.policy: lottery`. It is shown every waiting job of a queue, oldest
first, and names the next one, or None to serve no more of that queue in this cycle. It must be
quick and must depend on nothing but what it is shown, or replays will not agree with what ran.
The built-in ones are here to read and to inherit from; the service runs them by sort keys, which
is faster and gives the same order.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar, Final

from tgpu.core.model.job import Job
from tgpu.core.model.tenant import TenantQueue as JobQueue
from tgpu.core.policies import POLICY_NAMES, OrderOptions, order_policy
from tgpu.core.policies.slots import ChoicePolicy, Policy

__all__ = [
    "BackfillPolicy",
    "FIFOPolicy",
    "FairSharePolicy",
    "Job",
    "JobQueue",
    "PriorityPolicy",
    "SchedulingPolicy",
    "ShortestPolicy",
    "load_policy",
]

GROUP: Final = "tgpu.policies"
# What simulations have besides, and services had once: `tgpu.simulate.policies`.
_COMPARED: Final = ("tiresias",)


class SchedulingPolicy(ABC):
    """Decides which waiting job is tried next. What does not fit is passed over."""

    name: ClassVar[str] = ""

    @abstractmethod
    def select_next_job(self, queue: JobQueue, pending_jobs: Sequence[Job]) -> Job | None:
        """One of `pending_jobs`, or None to serve no more of this queue now."""

    def should_preempt(self, running_jobs: Sequence[Job], new_job: Job) -> Job | None:
        """A running job to preempt for `new_job`; None (the default) for none."""
        return None


class FIFOPolicy(SchedulingPolicy):
    """First come, first served."""

    name = "fifo"

    def select_next_job(self, queue: JobQueue, pending_jobs: Sequence[Job]) -> Job | None:
        return min(pending_jobs, key=lambda job: (job.submitted_at, job.job_id), default=None)


class PriorityPolicy(SchedulingPolicy):
    """Higher priority first, growing with waiting; among equals first come, first served."""

    name = "priority"

    def select_next_job(self, queue: JobQueue, pending_jobs: Sequence[Job]) -> Job | None:
        return min(
            pending_jobs,
            key=lambda job: (-job.priority, job.submitted_at, job.job_id),
            default=None,
        )

    def should_preempt(self, running_jobs: Sequence[Job], new_job: Job) -> Job | None:
        """The least important running job, the newest of equals, if it is less important."""
        victim = min(
            running_jobs,
            key=lambda job: (job.priority, -job.submitted_at, job.job_id),
            default=None,
        )
        return victim if victim is not None and victim.priority < new_job.priority else None


class FairSharePolicy(PriorityPolicy):
    """The tenant with the least GPU time of late for its weight first, then its user with the
    least; inside a user, by priority.
    """

    name = "fairshare"


class BackfillPolicy(PriorityPolicy):
    """By priority; smaller jobs start in the gaps that larger ones leave."""

    name = "backfill"


class ShortestPolicy(SchedulingPolicy):
    """The least GPU time first, by the time limit; those without one last."""

    name = "shortest"

    def select_next_job(self, queue: JobQueue, pending_jobs: Sequence[Job]) -> Job | None:
        return min(pending_jobs, key=_length, default=None)


def _length(job: Job) -> tuple[bool, int, int, str]:
    limit = job.options.time_limit_ms
    length = (limit or 0) * job.request.gpu_millis
    return (limit is None, length, job.submitted_at, job.job_id)


def load_policy(name: str, aging_seconds: int, options: OrderOptions | None = None) -> Policy:
    """The policy with this name, built in or installed. ValueError says which there are."""
    if name in POLICY_NAMES:
        return order_policy(name, aging_seconds, options)
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _plugged_in(point)
    if name in _COMPARED:
        raise ValueError(
            f"{name!r} is a published scheduler for comparison, only in `tgpu sim`; for a "
            "service use las, or adaptive if jobs are large or do not save their work"
        )
    raise ValueError(f"no scheduling policy {name!r}; there are: {', '.join(policy_names())}")


def policy_names() -> list[str]:
    """Built-in policies first, then those of other packages."""
    installed = {point.name for point in entry_points(group=GROUP)}
    return [*POLICY_NAMES, *sorted(installed.difference(POLICY_NAMES))]


def _plugged_in(point: EntryPoint) -> Policy:
    try:
        found = point.load()
        policy = found() if isinstance(found, type) else found
    except Exception as error:  # another package's code may fail in any way
        raise ValueError(
            f"scheduling policy {point.name!r} ({point.value}) cannot be loaded: {error}"
        ) from error
    if not isinstance(policy, SchedulingPolicy):
        raise ValueError(
            f"scheduling policy {point.name!r} ({point.value}) is no tgpu.policies.SchedulingPolicy"
        )
    return ChoicePolicy(point.name, policy.select_next_job, policy.should_preempt)
