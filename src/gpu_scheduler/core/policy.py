"""The plug-in slot for order: who is served first."""

from typing import ClassVar, Protocol

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import JobClass

SortKey = tuple[int, int, JobId]


class OrderPolicy(Protocol):
    """A total order over waiting jobs, lowest key first.

    Inside one class a later `(submitted_at, job_id)` must never get a lower key: the cycle takes
    each class in that order and compares only the heads.
    """

    name: ClassVar[str]

    def sort_key(
        self, job_class: JobClass, submitted_at: int, job_id: JobId, now: int
    ) -> SortKey: ...
