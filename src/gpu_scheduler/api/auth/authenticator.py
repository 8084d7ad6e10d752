"""From what a caller shows to who they are. One for all doors: REST, WebSocket and gRPC."""

import os
import pwd
from collections.abc import Callable, Mapping
from typing import Final

from gpu_scheduler.api.auth.job_callers import JobCallers
from gpu_scheduler.api.auth.keys import PREFIX, KeyRing
from gpu_scheduler.api.auth.tokens import TokenRules, Tokens
from gpu_scheduler.core.errors import Forbidden, Unauthenticated, Unavailable
from gpu_scheduler.core.ids import TenantId
from gpu_scheduler.peers.peer import Origin, Peer
from gpu_scheduler.service.identity import LOCAL, Principal, Role
from gpu_scheduler.service.service import Service

_BEARER: Final = "bearer "
_HOW: Final = (
    "this service asks callers who they are: send the header Authorization: Bearer KEY "
    "(tgpu: set TGPU_API_KEY), or use its Unix socket"
)


class Authenticator:
    """`service` gives the service once it has opened. Not `enabled`: everybody is LOCAL."""

    def __init__(
        self,
        service: Callable[[], Service | None],
        *,
        enabled: bool,
        tokens: Tokens | None = None,
        own_uid: int | None = None,
    ) -> None:
        self.enabled = enabled
        self._service = service
        self._tokens = tokens or Tokens(TokenRules())
        self._own_uid = os.geteuid() if own_uid is None else own_uid
        self._jobs = JobCallers(self._own_uid)
        self._ring: tuple[Service, KeyRing] | None = None

    async def authenticate(self, headers: Mapping[str, str], origin: Origin) -> Principal:
        """Who calls. `headers` have lower-case names (gRPC metadata will do).

        Raises Unauthenticated, Forbidden for a local user we cannot serve, or Unavailable while
        the service is still starting.
        """
        if not self.enabled:
            return await self._unless_a_job(origin, LOCAL)
        shown = _credential(headers)
        if shown is None:
            if origin.peer is None or not origin.is_unix:
                raise Unauthenticated(_HOW)
            return await self._unless_a_job(origin, self._of_peer(origin.peer))
        if shown.startswith(f"{PREFIX}_"):
            return await self.keys().check(shown)
        return await self._tokens.check(shown)

    async def _unless_a_job(self, origin: Origin, principal: Principal) -> Principal:
        service = self._service()
        if service is None:  # still starting: it does nothing for anybody yet
            return principal
        return await self._jobs.known_as(service, origin, principal)

    def keys(self) -> KeyRing:
        service = self._opened()
        if self._ring is None or self._ring[0] is not service:
            self._ring = service, KeyRing(service.store, service.writer)
        return self._ring[1]

    def _opened(self) -> Service:
        service = self._service()
        if service is None:
            raise Unavailable("the service is still starting; try again in a moment")
        return service

    def _of_peer(self, peer: Peer) -> Principal:
        name = _user_name(peer.uid)
        if peer.uid in (0, self._own_uid):
            return Principal(name, Role.ADMIN, uid=peer.uid, kind="uid")
        if self._own_uid != 0:
            # Their jobs would run as us, with all our files in reach.
            raise Forbidden(
                f"this service runs as {_user_name(self._own_uid)} and cannot run jobs as {name}; "
                "show an API key, or have it run by root"
            )
        return Principal(name, Role.USER, self._tenants_of(name), peer.uid, "uid")

    def _tenants_of(self, name: str) -> frozenset[TenantId]:
        return frozenset({self._opened().run_as.tenant_of(name)})


def _credential(headers: Mapping[str, str]) -> str | None:
    authorization = headers.get("authorization", "")
    if authorization:
        if authorization[: len(_BEARER)].lower() != _BEARER:
            raise Unauthenticated("Authorization must be Bearer, followed by an API key or a token")
        return authorization[len(_BEARER) :].strip()
    return headers.get("x-api-key", "").strip() or None


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
