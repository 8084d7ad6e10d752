"""The plug-in slot for order: who is served first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import Job, JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.tenant import TenantQueue

SortKey = tuple[int, int, JobId]


class OrderPolicy(Protocol):
    """A total order over waiting jobs, lowest key first: the fast way.

    Inside one class a later `(submitted_at, job_id)` must never get a lower key: the cycle takes
    each class in that order and compares only the heads.
    """

    name: ClassVar[str]

    def share(self, use: TenantUse) -> int:
        """What goes before the key: how much of its share a tenant has. Never falls as it gets
        more, so that a start can only move the rest of its jobs back."""

    def sort_key(
        self, job_class: JobClass, submitted_at: int, job_id: JobId, now: int
    ) -> SortKey: ...


@dataclass(frozen=True, slots=True)
class ChoicePolicy:
    """An order given by asking again and again: the way of plug-ins that know nothing of classes.

    It is shown every waiting job of a queue and names one, or None to serve no more of them. Its
    cost grows with what waits.
    """

    name: str
    choose: Callable[[TenantQueue, Sequence[Job]], Job | None]


Policy = OrderPolicy | ChoicePolicy
