"""Which callers are served without a key or token, identified by their connection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tgpu.core.errors import Forbidden, Unauthenticated
from tgpu.peers.peer import Origin, Peer
from tgpu.peers.users import user_name
from tgpu.service.identity.caller import Principal, Role

HOW: Final = (
    "this service requires authentication: send the header Authorization: Bearer KEY "
    "(tgpu: set TGPU_API_KEY), or use its Unix socket"
)
# Somebody passed the request on: the connection is theirs, the request is not.
_PASSED_ON: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# A gateway says by this that its own user, or root, sent the request. It lends them its own
# connection where nobody has a key, and never where callers could show one.
_GATEWAY: Final = "x-tgpu-caller"


NOBODY: Final = Principal("nobody", Role.VIEWER, frozenset(), kind="anonymous")


class NotServed(Forbidden):
    """Nobody asks for credentials, and this caller is not one of those who need none."""


@dataclass(frozen=True, slots=True)
class DoorRules:
    """`own_uid` is the service's own user."""

    own_uid: int
    enabled: bool  # auth.enabled: keys and tokens count
    local_users: bool = False  # every user of this machine is served under their own name
    strangers: bool = False  # --insecure-listen: callers of other machines are served unseen

    def peer(
        self, origin: Origin, headers: Mapping[str, str], their_name: str | None = None
    ) -> Peer | None:
        """The process whose user the caller is; None for an unseen caller who is served anyway.

        Raises Unauthenticated, or NotServed, with `their_name` where that is known already.
        """
        passed_on = any(name in headers for name in _PASSED_ON) or (
            self.enabled and _GATEWAY in headers
        )
        found = None if passed_on else origin.peer
        if self.enabled:
            if found is None or not (origin.is_unix or self.local_users):
                raise Unauthenticated(HOW)
        elif found is None and (origin.is_here or not self.strangers):
            raise NotServed(self._of_the_unseen(passed_on=passed_on))
        if found is not None and not self.serves(found.uid):
            raise NotServed(self._of_another(their_name or user_name(found.uid)))
        return found

    def is_owner(self, uid: int) -> bool:
        """Root could be the service's user whenever it likes."""
        return uid in (0, self.own_uid)

    def serves(self, uid: int) -> bool:
        # The jobs of others would run as us, with all our files in reach, unless we are root.
        return self.is_owner(uid) or (self.own_uid == 0 and (self.local_users or self.enabled))

    def _of_another(self, name: str) -> str:
        owner = user_name(self.own_uid)
        remedy = "show an API key" if self.enabled else "turn on API keys (auth.enabled: true)"
        if self.own_uid != 0:
            return (
                f"this service is {owner}'s and cannot run jobs as {name}; {remedy}, have it run "
                "by root, or use one of your own (tgpu submit starts it)"
            )
        return f"this service is {owner}'s alone, not {name}'s; {remedy}, or auth.local_users"

    def _of_the_unseen(self, *, passed_on: bool) -> str:
        why = (
            "a proxy forwarded this request, so the kernel cannot tell who sent it"
            if passed_on
            else "the kernel does not tell which user is at the other end of this connection"
        )
        return (
            f"{why}; connect from this machine as {user_name(self.own_uid)}, or turn on API "
            "keys (auth.enabled: true)"
        )


def behind_gateway(origin: Origin, headers: Mapping[str, str]) -> Origin:
    """The owner's own connection, where a gateway passes on what came over it.

    A job that runs as the owner is found out by it, so a gateway is no way around that. It is
    asked beside the connection itself, and of the owner alone, who can lose rights by it and wins
    none: anybody else could name the socket of somebody's job, to pass for that.
    """
    inode = headers.get(_GATEWAY, "")
    if origin.peer is None or not (inode.isascii() and inode.isdigit()) or int(inode) == 0:
        return origin
    return Origin(origin.address, origin.is_here, Peer(origin.peer.uid, inode=int(inode)))


def user_of(origin: Origin) -> str:
    """The user whose connection it is; "" where the kernel does not tell."""
    return "" if origin.peer is None else user_name(origin.peer.uid)
