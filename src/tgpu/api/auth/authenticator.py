"""Authenticates callers by their credentials, for REST, WebSocket and gRPC alike."""

from collections.abc import Callable, Mapping
from typing import Final

from tgpu.api.auth.doors import DoorRules, behind_gateway
from tgpu.api.auth.job_callers import JobCallers
from tgpu.api.auth.keys import PREFIX, KeyRing
from tgpu.api.auth.open_calls import Lapse
from tgpu.api.auth.tokens import TokenRules, Tokens
from tgpu.core.errors import Unauthenticated, Unavailable
from tgpu.peers.peer import Origin, Peer
from tgpu.peers.users import user_name
from tgpu.service.identity.caller import LOCAL, Principal, Role
from tgpu.service.identity.memberships import Memberships
from tgpu.service.recording.clock import WallClock
from tgpu.service.service import Service

_BEARER: Final = "bearer "
_EXPIRED: Final = "this token has expired; get a new one"
_MOVED: Final = "you belong to another tenant now: connect again"
_UNSURE: Final = "the system no longer tells which groups you are in: connect again"


class Authenticator:
    """`service` gives the service once it has opened."""

    def __init__(
        self,
        service: Callable[[], Service | None],
        rules: DoorRules,
        tokens: Tokens | None = None,
    ) -> None:
        self._service = service
        self._rules = rules
        self._tokens = tokens or Tokens(TokenRules())
        self._jobs = JobCallers(rules.own_uid)
        self._names = Memberships()
        self._ring: tuple[Service, KeyRing] | None = None

    async def authenticate(self, headers: Mapping[str, str], origin: Origin) -> Principal:
        """Who calls. `headers` have lower-case names (gRPC metadata will do).

        Raises Unauthenticated, NotServed for those whom we serve neither by what they show nor by
        where they come from, or Unavailable while the service is still starting.
        """
        shown = _credential(headers) if self._rules.enabled else None
        if shown is None:
            peer = self._rules.peer(origin, headers, await self._stranger(origin))
            principal = LOCAL if peer is None else await self._of_peer(peer)
            # Both ends of a gateway: or a job would name another's socket to pass for its owner. A
            # gateway is the owner's, so what others say of one is their own invention.
            principal = await self._unless_a_job(origin, principal)
            if not self._is_the_owner(principal):
                return principal
            return await self._unless_a_job(behind_gateway(origin, headers), principal)
        if shown.startswith(f"{PREFIX}_"):
            return await self.keys().check(shown)
        return await self._tokens.check(shown)

    def lapse(self, headers: Mapping[str, str], principal: Principal) -> Lapse:
        """What tells when this caller, who was let in, would no longer be the same."""
        shown = (_credential(headers) if self._rules.enabled else None) or ""
        match principal.kind:
            case "key":
                return lambda: self.keys().lapse(shown) if self._service() else None
            case "user":
                until = self._tokens.expires_at(shown)
                return lambda: _EXPIRED if WallClock().now() >= until else None
            case "uid" if not self._is_the_owner(principal):
                return lambda: self._left(principal)
            case _:
                return lambda: None

    def _left(self, user: Principal) -> str | None:
        service = self._service()
        if service is None or user.uid is None:
            return None
        found = service.run_as.users.now(user.uid)
        if found is None:
            return _UNSURE
        is_same = (found.name, found.role, found.tenants) == (user.name, user.role, user.tenants)
        return None if is_same else _MOVED

    def _is_the_owner(self, principal: Principal) -> bool:
        """Whoever a map makes an admin is none: they must not speak for what a gateway passes."""
        is_owner = principal.uid is None or self._rules.is_owner(principal.uid)
        return principal.role is Role.ADMIN and is_owner

    async def _unless_a_job(self, origin: Origin, principal: Principal) -> Principal:
        service = self._service()
        if service is None:  # still starting: it does nothing for anybody yet
            return principal
        return await self._jobs.known_as(service, origin, principal)

    def keys(self) -> KeyRing:
        service = self._opened()
        if self._ring is None or self._ring[0] is not service:
            self._ring = service, KeyRing(service.store, service.recorder)
        return self._ring[1]

    def _opened(self) -> Service:
        service = self._service()
        if service is None:
            raise Unavailable("the service is still starting; try again in a moment")
        return service

    async def _of_peer(self, peer: Peer) -> Principal:
        if self._rules.is_owner(peer.uid):
            if not self._rules.enabled:
                return LOCAL
            return Principal(await self._owner_name(peer.uid), Role.ADMIN, uid=peer.uid, kind="uid")
        found = await self._opened().run_as.users.of(peer.uid)
        return Principal(found.name, found.role, found.tenants, peer.uid, "uid", how=found.how)

    async def _stranger(self, origin: Origin) -> str | None:
        """The name of somebody who will be refused, found off the loop: they may call often."""
        if origin.peer is None or self._rules.serves(origin.peer.uid):
            return None
        try:
            return (await self._names.of(origin.peer.uid)).name
        except Unavailable:
            return str(origin.peer.uid)

    async def _owner_name(self, uid: int) -> str:
        """Whatever the system's lists are doing: it is the owner who would have to mend them."""
        service = self._service()
        if service is None:
            return user_name(uid)
        try:
            return await service.run_as.users.name(uid)
        except Unavailable:
            return str(uid)


def _credential(headers: Mapping[str, str]) -> str | None:
    authorization = headers.get("authorization", "")
    if authorization:
        if authorization[: len(_BEARER)].lower() != _BEARER:
            raise Unauthenticated("Authorization must be Bearer, followed by an API key or a token")
        return authorization[len(_BEARER) :].strip()
    return headers.get("x-api-key", "").strip() or None
