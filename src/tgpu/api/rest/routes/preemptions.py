"""/api/v1/preemptions: which jobs were preempted for which, why, and what it cost."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from tgpu.api.access.visible import sight
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.core.model.units import GPU, SECOND
from tgpu.core.preemption.cause import without_names
from tgpu.service.accounting.receipts import Receipt
from tgpu.service.identity.ownership import Sight
from tgpu.text.instants import utc_millis_text
from tgpu.wire.preemptions_v1 import PreemptionList, PreemptionModel

router = APIRouter(tags=["jobs"])


@router.get("/api/v1/preemptions")
async def preemptions(
    request: Request,
    *,
    tenant_id: Name | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> PreemptionList:
    """Receipts of preemptions, newest first."""
    service = service_of(request)
    seen = sight(service, caller_of(request)).within(*([] if tenant_id is None else [tenant_id]))
    found = service.receipts.newest(limit, seen.sees)
    return PreemptionList(preemptions=[_model(receipt, seen) for receipt in found])


def _model(receipt: Receipt, seen: Sight) -> PreemptionModel:
    to = receipt.to_tenant_id
    # Bookings of earlier records have no tenant here: those see them who see all.
    known = seen.sees_tenant(to) and to not in seen.own_only
    return PreemptionModel(
        job_id=receipt.job_id,
        attempt=receipt.attempt,
        tenant_id=receipt.tenant_id,
        user=receipt.user,
        gpu_count=receipt.gpu_millis / GPU,
        to=receipt.to if known else None,
        to_tenant_id=to if known else None,
        cause=receipt.cause,
        reason=receipt.reason if known else without_names(receipt.reason),
        asked_at=utc_millis_text(receipt.asked_at),
        gone_at=None if receipt.gone_at is None else utc_millis_text(receipt.gone_at),
        lost_gpu_seconds=receipt.lost_gpu_millis_ms / GPU / SECOND,
    )
