"""/api/v1/audit: who did, or tried to do, what."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from tgpu.api.rest.context import service_of
from tgpu.api.rest.parameters import Name
from tgpu.core.model.ids import TenantId
from tgpu.text.instants import utc_millis_text
from tgpu.wire.keys_v1 import AuditEntry, AuditList

router = APIRouter(tags=["identity"])


@router.get("/api/v1/audit")
async def audit(
    request: Request,
    *,
    tenant_id: Name | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> AuditList:
    """Every call that changed something or tried to, newest first."""
    rows = await service_of(request).store.audit(
        before=cursor, limit=limit, tenant_id=None if tenant_id is None else TenantId(tenant_id)
    )
    return AuditList(
        entries=[
            AuditEntry(
                seq=row.seq,
                at=utc_millis_text(row.at),
                actor=row.actor,
                action=row.action,
                target=row.target,
                tenant_id=row.tenant_id,
                origin=row.origin,
                outcome=row.outcome,
                detail=row.detail,
                decision=row.decision,
                request_id=row.request_id,
            )
            for row in rows
        ],
        next_cursor=rows[-1].seq if len(rows) == limit else None,
    )
