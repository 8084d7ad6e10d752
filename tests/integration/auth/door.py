"""A service in this process behind its gate, and callers of every kind."""

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import jwt

from tests.unit.service.world import Box, a_box
from tgpu.api.auth.authenticator import Authenticator
from tgpu.api.auth.doors import DoorRules
from tgpu.api.auth.tokens import TokenRules, Tokens
from tgpu.api.rest.app import make_app
from tgpu.api.rest.body_limits import BodyLimits
from tgpu.api.rest.gate import AuthGate
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant
from tgpu.peers.peer import Origin, Peer
from tgpu.peers.protocol import ORIGIN_KEY
from tgpu.token_buckets import TokenBuckets

SECRET = b"a secret of more than thirty-two bytes"
OURS, THEIRS = "ours", "theirs"
OWNER = Origin("127.0.0.1", is_here=True, peer=Peer(os.geteuid(), pid=os.getpid()))
UNSEEN = Origin("127.0.0.1", is_here=False)
ROLES = ("admin", "operator", "user", "viewer")


def a_token(role: str, tenants: Sequence[str] | None = None, **claims: Any) -> str:
    content = {"sub": f"{role}-ada", "exp": time.time() + 86_400, "role": role, **claims}
    if tenants is not None:
        content["tenants"] = list(tenants)
    return jwt.encode(content, SECRET, "HS256")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def as_role(role: str, *tenants: str) -> dict[str, str]:
    """The headers of a caller; users and viewers are bound to `ours` unless said otherwise."""
    bound = list(tenants) or ([OURS] if role in ("user", "viewer") else None)
    return bearer(a_token(role, bound))


class Door(httpx.AsyncClient):
    """`origin` is where its requests come from: without authentication, from the owner."""

    def __init__(
        self,
        box: Box,
        *,
        enabled: bool = True,
        origin: Origin | None = None,
        doors: DoorRules | None = None,
        **limits: Any,
    ) -> None:
        self.app = make_app(data_dir="/somewhere")
        self.app.state.service = box.service
        self.box = box
        tokens = Tokens(TokenRules(), secret=SECRET)
        self.app.state.authenticator = Authenticator(
            lambda: box.service, doors or DoorRules(os.geteuid(), enabled=enabled), tokens
        )
        self.gate = AuthGate(self.app, self.app.state.authenticator, **limits)
        self.origin = origin or (UNSEEN if enabled else OWNER)
        transport = httpx.ASGITransport(self._from_origin, raise_app_exceptions=False)
        super().__init__(transport=transport, base_url="http://127.0.0.1")

    async def _from_origin(self, scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = {ORIGIN_KEY: self.origin}
        await self.gate(scope, receive, send)

    async def submit(self, job_id: str, tenant: str, user: str = "user-ada") -> str:
        """In the name of whom `as_role("user")` is."""
        body = {"job_id": job_id, "tenant_id": tenant, "gpu_count": 1, "user": user}
        answer = await self.post("/api/v1/jobs", json=body, headers=as_role("admin"))
        assert answer.status_code == 201, answer.text
        return job_id

    async def audited(self) -> list[dict[str, Any]]:
        answer = await self.get("/api/v1/audit?limit=1000", headers=as_role("admin"))
        assert answer.status_code == 200, answer.text
        entries: list[dict[str, Any]] = answer.json()["entries"]
        return entries


@asynccontextmanager
async def a_door(
    *,
    enabled: bool = True,
    origin: Origin | None = None,
    doors: DoorRules | None = None,
    buckets: TokenBuckets | None = None,
    body_limits: BodyLimits | None = None,
    **settings: Any,
) -> AsyncIterator[Door]:
    settings.setdefault("tenants", (Tenant(TenantId(OURS)), Tenant(TenantId(THEIRS))))
    settings.setdefault("leases", True)
    async with (
        a_box(**settings) as box,
        Door(
            box,
            enabled=enabled,
            origin=origin,
            doors=doors,
            buckets=buckets,
            body_limits=body_limits,
        ) as door,
    ):
        yield door
