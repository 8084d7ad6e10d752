"""Sentences about preempted jobs, with and without the names of the jobs they are preempted for.

The owner of a preempted job may not be allowed to see the job that got its GPUs: then it is
"another job". Records of earlier versions always name it, and say "gives way" instead of
"preempted", so a cause is checked again whenever it is read.
"""

import re
from typing import Final

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.plan import Preemption, PreemptionCause
from tgpu.core.state.cluster_state import State

ANOTHER: Final = "another job"

_BEGINNINGS: Final = ("preempted", "gives way")  # of today, and of earlier versions
_FOR_JOB: Final = re.compile(r"(?:preempted for|gives way to) job (\S+?)(?:,| \(|$)")
_RECLAIMED: Final = re.compile(r"(?:preempted|gives way): quota of .+ reclaimed by job (\S+)$")
_RESERVED: Final = re.compile(
    r"(?:preempted: its GPUs are reserved|gives way: its GPUs are booked): (\S+)$"
)
_KEPT: Final = ", as the scheduling policy chose"


def whose(state: State, to: str) -> TenantId | None:
    """The tenant of the job, or of the reservation, that others are preempted for."""
    other = state.entry(JobId(to))
    if other is not None:
        return other.job.tenant_id
    booking = state.ledger.bookings.get(to)
    return None if booking is None else booking.tenant_id


def reason_of(state: State, preemption: Preemption) -> str:
    """With all names, for the receipt: those see them who see both tenants."""
    to = preemption.to
    victim, other = state.entry(preemption.victim), state.entry(to)
    match preemption.cause:
        case PreemptionCause.PRIORITY:
            if victim is None or other is None:
                return f"preempted for job {to}"
            priorities = f"priority {other.job.priority} over {victim.job.priority}"
            return f"preempted for job {to} ({priorities})"
        case PreemptionCause.RECLAIM:
            whose = "its tenant" if other is None else f"tenant {other.job.tenant_id}"
            return f"preempted: quota of {whose} reclaimed by job {to}"
        case PreemptionCause.BOOKING:
            return f"preempted: its GPUs are reserved: {to}"
        case PreemptionCause.POLICY:
            return f"preempted for job {to}, as the scheduling policy chose"


def named_in(cause: str | None) -> str | None:
    """The job or the reservation that a cause names; None where it names none."""
    if cause is None or not cause.startswith(_BEGINNINGS):
        return None
    for pattern in (_FOR_JOB, _RECLAIMED, _RESERVED):
        found = pattern.match(cause)
        if found is not None:
            return found[1]
    return None


def without_names(cause: str) -> str:
    """The same for readers who may not see that job. Other causes stay as they are."""
    if named_in(cause) is None:
        return cause
    if _RECLAIMED.match(cause):
        return f"preempted for {ANOTHER}: lent quota is reclaimed"
    if _RESERVED.match(cause):
        return "preempted: its GPUs are reserved for others"
    policy = _KEPT if cause.endswith(_KEPT) else ""
    return f"preempted for {ANOTHER}{policy}"
