"""Limits on what could put a job ahead of others: priority and submission time.

A tenant's `max_priority` holds for its users in the place of `security.max_priority`. Whoever looks
after the whole cluster, an operator or admin who is bound to no tenant, may claim anything, and so
may the one who runs a service that asks nobody who they are.
"""

from dataclasses import replace
from typing import Final

from tgpu.core.errors import InvalidRequest
from tgpu.core.model.job import Job
from tgpu.core.model.tenant import TIER_PRIORITY
from tgpu.core.model.units import SECOND
from tgpu.service.identity.caller import Permission, Principal
from tgpu.service.service import Service

# Clocks differ, and a request takes its time.
_SLACK_MS: Final = 60 * SECOND
# Of a queue: the default one's, which every tenant has.
_USUAL_QUEUE: Final = 0


def highest_priority(service: Service, caller: Principal, tenant_id: str) -> int | None:
    """The highest that the caller may give a job of this tenant; None: any."""
    if caller.may(Permission.SEE_CLUSTER):
        return None
    tenant = service.reads.find_tenant(tenant_id)
    if tenant is not None and tenant.max_priority is not None:
        return tenant.max_priority
    most = service.settings.max_priority
    if most is None or tenant is None:
        return most
    return max(most, TIER_PRIORITY[tenant.tier])  # what its jobs have unasked is theirs to ask


def check_priority(
    service: Service, caller: Principal, tenant_id: str, priority: int | None
) -> None:
    """InvalidRequest where it is more than the caller may give."""
    if priority is None:
        return
    most = highest_priority(service, caller, tenant_id)
    if most is not None and priority > most:
        raise InvalidRequest("priority", priority, _allowed(tenant_id, most))


def check_queue_priority(caller: Principal, priority: int | None) -> None:
    """A higher queue's jobs go before those of every tenant, so that is not one tenant's to say."""
    if priority is None or priority <= _USUAL_QUEUE or caller.may(Permission.SEE_CLUSTER):
        return
    remedy = (
        f"at most {_USUAL_QUEUE} for a caller bound to tenants: jobs of a higher queue go before "
        "those of all tenants; lower the other queues, or ask an operator of all tenants"
    )
    raise InvalidRequest("priority", priority, remedy)


def as_claimed(service: Service, caller: Principal, job: Job) -> Job:
    """A plain job with what it may claim, or InvalidRequest.

    On the wall clock a job is as old as it is: an earlier `submitted_at` would be bought age.
    """
    if not caller.may(Permission.SEE_CLUSTER):
        check_priority(service, caller, job.tenant_id, job.priority)
    if service.clock.manual:
        return job
    now = service.clock.now()
    if abs(job.submitted_at - now) > _SLACK_MS:
        remedy = (
            f"must be the current time, {now // SECOND}, give or take a minute; other times "
            "need scheduler.clock: manual"
        )
        raise InvalidRequest("submitted_at", job.submitted_at // SECOND, remedy)
    return replace(job, submitted_at=now)


def _allowed(tenant_id: str, most: int) -> str:
    return (
        f"jobs of tenant {tenant_id} may have at most {most}; an operator or admin of all "
        "tenants may set more"
    )
