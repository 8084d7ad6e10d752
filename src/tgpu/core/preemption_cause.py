"""Sentences about jobs that give way to others, with and without the names of the others.

Whoever reads of a job of theirs may not know the job that got its GPUs: then it is "another job".
Records of earlier versions name it always, so what is read is looked at once more.
"""

import re
from typing import Final

from tgpu.core.ids import JobId, TenantId
from tgpu.core.plan import Preemption, PreemptionCause
from tgpu.core.state import State

ANOTHER: Final = "another job"

_TO_JOB: Final = re.compile(r"gives way to job (\S+?)(?:,| \(|$)")
_RECLAIMED: Final = re.compile(r"gives way: quota of .+ reclaimed by job (\S+)$")
_BOOKED: Final = re.compile(r"gives way: its GPUs are booked: (\S+)$")
_KEPT: Final = ", as the scheduling policy chose"


def whose(state: State, to: str) -> TenantId | None:
    """The tenant of the job, or of the booking, that others give way to."""
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
                return f"gives way to job {to}"
            priorities = f"priority {other.job.priority} over {victim.job.priority}"
            return f"gives way to job {to} ({priorities})"
        case PreemptionCause.RECLAIM:
            whose = "its tenant" if other is None else f"tenant {other.job.tenant_id}"
            return f"gives way: quota of {whose} reclaimed by job {to}"
        case PreemptionCause.BOOKING:
            return f"gives way: its GPUs are booked: {to}"
        case PreemptionCause.POLICY:
            return f"gives way to job {to}, as the scheduling policy chose"


def named_in(cause: str | None) -> str | None:
    """The job or the booking that a cause names; None where it names none."""
    if cause is None or not cause.startswith("gives way"):
        return None
    for pattern in (_TO_JOB, _RECLAIMED, _BOOKED):
        found = pattern.match(cause)
        if found is not None:
            return found[1]
    return None


def without_names(cause: str) -> str:
    """The same for those who may not know whom it is about. Others' sentences stay as they are."""
    if named_in(cause) is None:
        return cause
    if _RECLAIMED.match(cause):
        return f"gives way to {ANOTHER}: lent quota is taken back"
    if _BOOKED.match(cause):
        return "gives way: its GPUs are reserved for others"
    policy = _KEPT if cause.endswith(_KEPT) else ""
    return f"gives way to {ANOTHER}{policy}"
