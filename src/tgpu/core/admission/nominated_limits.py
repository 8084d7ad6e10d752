"""Limits as they will be once nominated jobs have started and those preempted for them are gone.

A nominated job has no GPUs yet, so nothing of it counts. If others started or were nominated up to
the limit meanwhile, it could not start in the end, and its victims would be preempted in vain.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from tgpu.core.admission.admit import refuse
from tgpu.core.capacity.ledger import Ledger
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.node import Placement
from tgpu.core.model.reasons import Reason

Placed = tuple[Job, Placement]


class NominatedLimits:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._starting: dict[JobId, Placed] = {}
        self._leaving: list[Placed] = []

    def add(self, job: Job, placement: Placement) -> None:
        """Count a job that is nominated."""
        self._starting[job.job_id] = job, placement

    def leave(self, job: Job, placement: Placement) -> None:
        """Count no longer, by then, a job that is being preempted."""
        self._leaving.append((job, placement))

    def drop(self, job_id: JobId) -> None:
        self._starting.pop(job_id, None)

    def refuse(self, job_class: JobClass) -> Reason | None:
        """The limit that stands in the way of a start, now or by then: those who leave count until
        they are gone."""
        refused = refuse(self._ledger, job_class)
        if refused is not None or not (self._starting or self._leaving):
            return refused
        return self.refuse_by_then(job_class) if self._counts_others(job_class) else None

    def refuse_by_then(self, job_class: JobClass) -> Reason | None:
        """The limit that will be in the way when all who leave have left."""
        with self._counted(self._sharing_limits(job_class)):
            return refuse(self._ledger, job_class)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """The ledger's limits as they will be; its nodes are as they are."""
        with self._counted(None):
            yield

    @contextmanager
    def _counted(self, tenants: Collection[TenantId] | None) -> Iterator[None]:
        steps = [
            (job, placement, sign)
            for placed, sign in ((self._starting.values(), +1), (self._leaving, -1))
            for job, placement in placed
            if tenants is None or job.tenant_id in tenants
        ]
        for job, placement, sign in steps:
            self._ledger.count(job, placement, sign)
        try:
            yield
        finally:
            for job, placement, sign in reversed(steps):
                self._ledger.count(job, placement, -sign)

    def _counts_others(self, job_class: JobClass) -> bool:
        """Without quotas, mostly, what others have is in nobody's way."""
        ledger, use = self._ledger, self._ledger.tenant(job_class.tenant_id)
        has_caps = bool(ledger.queues) or job_class.array_max is not None
        return use.is_limited or use.limits_users or has_caps or ledger.most_jobs is not None

    def _sharing_limits(self, job_class: JobClass) -> Collection[TenantId] | None:
        """Tenants whose jobs count for it; None: those of all."""
        if self._ledger.most_jobs is not None:
            return None
        cohort = self._ledger.tenant(job_class.tenant_id).tenant.cohort
        return {job_class.tenant_id, *self._ledger.cohorts.get(cohort, ())}
