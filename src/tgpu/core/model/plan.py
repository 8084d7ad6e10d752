"""What a cycle decided. A plan changes nothing by itself."""

from enum import StrEnum

from msgspec import Struct

from tgpu.core.model.ids import JobId
from tgpu.core.model.node import Placement


class Start(Struct, frozen=True, gc=False):
    job_id: JobId
    placement: Placement


class PreemptionCause(StrEnum):
    PRIORITY = "priority"  # the other is more important
    RECLAIM = "reclaim"  # it ran on quota that its tenant had borrowed
    BOOKING = "booking"  # its GPUs were booked
    POLICY = "policy"  # an installed policy named it


class Preemption(Struct, frozen=True, gc=False):
    """One running job is preempted for a waiting one."""

    victim: JobId
    to: JobId  # the job, or the booking, that gets the GPUs
    cause: PreemptionCause
    lost_gpu_millis_ms: int  # GPU time since its last checkpoint


class Nomination(Struct, frozen=True, gc=False):
    """The GPUs that a job gets once the jobs preempted for it are gone."""

    job_id: JobId
    placement: Placement


class BackfillReservation(Struct, frozen=True, gc=False):
    """The first job that cannot start will, by then at the latest; others pass only around it."""

    job_id: JobId
    at: int
    placement: Placement


class Plan(Struct, frozen=True, gc=False):
    starts: tuple[Start, ...] = ()  # in the order in which they were decided
    expired: tuple[JobId, ...] = ()  # leases whose time is up
    unsatisfiable: tuple[tuple[JobId, str], ...] = ()  # jobs that can never start, with the cause
    preemptions: tuple[Preemption, ...] = ()
    nominations: tuple[Nomination, ...] = ()
    released: tuple[tuple[str, str], ...] = ()  # bookings that end, with the cause
    reservations: tuple[BackfillReservation, ...] = ()  # not recorded: every cycle makes its own
    stopped_by: JobId | None = None  # under `strict`, the job that nobody may pass

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return bool(
            self.starts
            or self.expired
            or self.unsatisfiable
            or self.preemptions
            or self.nominations
            or self.released
        )
