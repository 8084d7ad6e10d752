"""Events. They are recorded first and applied to the state afterwards.

Those that every job makes are structs: a frozen dataclass takes ten times as long to make.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import Move, Progress
from tgpu.core.model.node import Node
from tgpu.core.model.request_profile import RequestProfile
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage


class JobsSubmitted(Struct, frozen=True, gc=False):
    """New jobs; those whose ids are in `held` begin on hold."""

    at: int
    jobs: tuple[Job, ...]
    held: frozenset[JobId] = frozenset()


class JobMoved(Struct, frozen=True, gc=False):
    """One legal move of one job, with all that is then true of it.

    The progress is whole, not a difference: one event type and one way to apply it serve every
    move, and a reader of the journal needs no other row to know where the job stood.
    """

    at: int
    job_id: JobId
    move: Move
    progress: Progress
    by: str = ""  # who asked for it; "" where the service did it by itself


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A waiting job as it is from now on. Whole, like a progress.

    Its name is not kept in the state, and None leaves it as it is. `changes` tells readers what was
    changed, as fields of the API with their values before and after.
    """

    at: int
    job: Job
    by: str = ""  # as of JobMoved
    name: str | None = None
    changes: tuple[tuple[str, str, str], ...] = ()

    def changes_text(self) -> str:
        return ", ".join(f"{name} {before} → {after}" for name, before, after in self.changes)


@dataclass(frozen=True, slots=True)
class TenantSet:
    at: int
    tenant: Tenant
    by: str = ""  # as of JobMoved


@dataclass(frozen=True, slots=True)
class QueueSet:
    at: int
    queue: TenantQueue
    by: str = ""  # as of JobMoved


@dataclass(frozen=True, slots=True)
class QueueRemoved:
    at: int
    tenant_id: TenantId
    name: str
    by: str = ""  # as of JobMoved


@dataclass(frozen=True, slots=True)
class UsageAdded:
    """What a tenant's jobs in one queue used up, and how many of them ended, by this commit."""

    at: int
    tenant_id: TenantId
    queue: str
    usage: GpuTimeUsage


@dataclass(frozen=True, slots=True)
class NodeSet:
    at: int
    node: Node
    by: str = ""  # as of JobMoved


@dataclass(frozen=True, slots=True)
class BookingSet:
    at: int
    booking: AdvanceReservation
    by: str = ""  # as of JobMoved


@dataclass(frozen=True, slots=True)
class BookingRemoved:
    """It ended, was cancelled or was given back."""

    at: int
    booking_id: str
    cause: str
    by: str = ""  # as of JobMoved


Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class SettingsSet:
    """How jobs are scheduled from now on, by the names of the settings. The state has no part in
    it: whoever looks back needs to know by which rules was decided then."""

    at: int
    version: str  # of the program
    values: Mapping[str, Scalar | tuple[Scalar, ...]]


@dataclass(frozen=True, slots=True)
class MixSet:
    """What jobs usually ask for, from now on: learnt from those there were."""

    at: int
    mix: RequestProfile


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """The wall clock was set, `by` so many milliseconds; `at` is on the new time.

    `moved` are the jobs that have GPUs, or wait out a back-off, with the instants that durations
    are counted from moved along: the step itself charges nothing and ends nothing. When jobs came
    that are not over moves along for all of them. See `core/state/clock_step.py`.
    """

    at: int
    by: int
    moved: tuple[tuple[JobId, Progress], ...] = ()


class TimePassed(Struct, frozen=True, gc=False):
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
    | SettingsSet
    | MixSet
    | ClockStepped
    | TimePassed
)
