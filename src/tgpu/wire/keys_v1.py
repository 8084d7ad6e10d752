"""API keys and the audit log on the wire."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tgpu.wire.bounds import RequestModel

RoleName = Literal["admin", "operator", "user", "viewer"]
_TenantName = Annotated[str, Field(min_length=1, max_length=128)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class KeyCreate(RequestModel):
    """A key to create. Without `tenants`, a user or viewer sees nothing; `*` is all tenants."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"name": "ci-pipeline", "role": "user", "tenants": ["default"]}]
        },
    )

    name: Annotated[
        str,
        Field(
            max_length=100, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._@-]{0,99}$", examples=["ci-pipeline"]
        ),
    ]
    role: RoleName = "user"
    tenants: Annotated[list[_TenantName] | None, Field(max_length=1000, examples=[["vision"]])] = (
        None
    )
    expires_in_days: Annotated[float | None, Field(gt=0, le=36_500)] = None


class KeyModel(_Answer):
    """An API key without its secret. Times are ISO 8601 in UTC; the last use is accurate to the
    hour."""

    id: str
    name: str
    role: str
    tenants: list[str] | None  # null: all
    state: Literal["active", "expired", "revoked"]
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class KeyCreated(KeyModel):
    key: str  # shown this once
    warnings: list[str] = []  # what its holder cannot do yet, and what to set


class KeyList(_Answer):
    keys: list[KeyModel]


class WhoAmI(_Answer):
    """The caller's identity as the service sees it."""

    name: str
    kind: str
    role: str
    tenants: list[str] | None  # null: all
    tenant: str | None = None  # of what names none; null: it has to be named
    how: str = ""  # why these tenants and this role, in words
    problem: str = ""  # of somebody without a tenant: what there is, and whom to ask


class AuditEntry(_Answer):
    seq: int
    at: str
    actor: str
    action: str
    target: str
    tenant_id: str | None
    origin: str
    outcome: str  # "ok", or the error's code
    detail: str
    decision: int | None = None  # the events with this number were recorded because of it
    request_id: str | None = None  # as the log names it


class AuditList(_Answer):
    entries: list[AuditEntry]  # newest first
    next_cursor: int | None  # pass as `cursor` for the next page; null at the end
