"""The plug-in slot for order: who is served first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import Job, JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.state import State
from gpu_scheduler.core.tenant import TenantQueue

SortKey = tuple[int, int, JobId]


Standing = tuple[int, int]  # of a tenant, then of a user inside it


class Order(Protocol):
    """A total order over waiting jobs, lowest first: standing, then key. Made for one cycle."""

    is_flat: ClassVar[bool]  # all stand alike: `standing` need not be asked

    def standing(self, use: TenantUse, user: str) -> Standing:
        """How much of their share a tenant and its user have. Never falls as they get more, so
        that a start can only move the rest of their jobs back."""

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        """Inside one class a later `(submitted_at, job_id)` must never get a lower key: the cycle
        takes each class in that order and compares only the heads."""


class OrderPolicy(Protocol):
    """An order by keys: the fast way."""

    name: ClassVar[str]

    def at(self, state: State, now: int) -> Order: ...


@dataclass(frozen=True, slots=True)
class ChoicePolicy:
    """An order given by asking again and again: the way of plug-ins that know nothing of classes.

    It is shown every waiting job of a queue and names one, or None to serve no more of them. Its
    cost grows with what waits.
    """

    name: str
    choose: Callable[[TenantQueue, Sequence[Job]], Job | None]
    # Asked for a job that cannot start, again and again until it could: who should give way?
    victim: Callable[[Sequence[Job], Job], Job | None] = lambda running, job: None


Policy = OrderPolicy | ChoicePolicy
