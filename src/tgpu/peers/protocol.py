"""HTTP connections with the identity of their peer.

The facts travel in the connection's own state, which nothing that is sent can reach: no header
makes a caller somebody else.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tgpu.peers.lookup import Lookup
from tgpu.peers.peer import NOWHERE, Origin, Peer

ORIGIN_KEY: Final = "tgpu_origin"
_lookup: Final = Lookup()


class PeerProtocol(HttpToolsProtocol):
    """uvicorn's protocol for HTTP, and for WebSockets until they are upgraded."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        origin = _lookup.origin(transport.get_extra_info("socket"))
        # A copy of our own: the one we were given is shared by all connections.
        self.app_state = {**self.app_state, ORIGIN_KEY: origin}


def origin_of(scope: Mapping[str, Any]) -> Origin:
    """Of a connection that some other server took, nothing is known but the address it tells."""
    found = scope.get("state", {}).get(ORIGIN_KEY)
    if isinstance(found, Origin):
        return found
    client = scope.get("client")
    return Origin(str(client[0]), is_here=False) if client else NOWHERE


def peer_of(scope: Mapping[str, Any]) -> Peer | None:
    """The process at the other end; None on other machines, or where the kernel does not tell."""
    return origin_of(scope).peer
