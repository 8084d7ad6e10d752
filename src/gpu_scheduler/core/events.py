"""What can happen. Events are recorded first and applied to the state afterwards."""

from dataclasses import dataclass

from gpu_scheduler.core.booking import Booking
from gpu_scheduler.core.ids import JobId, TenantId
from gpu_scheduler.core.job import Job
from gpu_scheduler.core.lifecycle import Move, Progress
from gpu_scheduler.core.node import Node
from gpu_scheduler.core.tenant import Tenant, TenantQueue
from gpu_scheduler.core.usage import Usage


@dataclass(frozen=True, slots=True)
class JobsSubmitted:
    """New jobs; those whose ids are in `held` begin on hold."""

    at: int
    jobs: tuple[Job, ...]
    held: frozenset[JobId] = frozenset()


@dataclass(frozen=True, slots=True)
class JobMoved:
    """One legal move of one job, with all that is then true of it.

    The progress is whole, not a difference: one event type and one way to apply it serve every
    move, and a reader of the journal needs no other row to know where the job stood.
    """

    at: int
    job_id: JobId
    move: Move
    progress: Progress


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A waiting job as it is from now on: its priority is another. Whole, like a progress."""

    at: int
    job: Job


@dataclass(frozen=True, slots=True)
class TenantSet:
    at: int
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class QueueSet:
    at: int
    queue: TenantQueue


@dataclass(frozen=True, slots=True)
class QueueRemoved:
    at: int
    tenant_id: TenantId
    name: str


@dataclass(frozen=True, slots=True)
class UsageAdded:
    """What a tenant's jobs in one queue used up, and how many of them ended, by this commit."""

    at: int
    tenant_id: TenantId
    queue: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class NodeSet:
    at: int
    node: Node


@dataclass(frozen=True, slots=True)
class BookingSet:
    at: int
    booking: Booking


@dataclass(frozen=True, slots=True)
class BookingRemoved:
    """It ended, was cancelled or was given back."""

    at: int
    booking_id: str
    cause: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The clock reached `at`: back-offs that end by then are over. Not recorded, only applied."""

    at: int


Event = (
    JobsSubmitted
    | JobMoved
    | JobChanged
    | TenantSet
    | QueueSet
    | QueueRemoved
    | UsageAdded
    | NodeSet
    | BookingSet
    | BookingRemoved
    | TimePassed
)
