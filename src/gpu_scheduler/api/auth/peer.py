"""The process at the other end of a Unix socket, as the kernel names it.

The facts travel in the connection's own state, which nothing that is sent can reach: no header
makes a TCP client a local user.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_KEY: Final = "tgpu_unix_peer"
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred of unix(7)


class Peer(NamedTuple):
    pid: int
    uid: int
    gid: int


class PeerProtocol(HttpToolsProtocol):
    """uvicorn's protocol for HTTP, and for WebSockets until they are upgraded."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = _peer(transport.get_extra_info("socket"))
        # A copy of our own: the one we were given is shared by all connections.
        self.app_state = {**self.app_state, _KEY: peer}


def peer_of(scope: Mapping[str, Any]) -> Peer | None:
    """None where the caller did not come over a Unix socket."""
    found = scope.get("state", {}).get(_KEY)
    return found if isinstance(found, Peer) else None


def origin_of(scope: Mapping[str, Any]) -> str:
    """Where a request came from, for people: an address, or "unix"."""
    if peer_of(scope) is not None:
        return "unix"
    client = scope.get("client")
    return str(client[0]) if client else "unix"


def _peer(connection: socket.socket | None) -> Peer | None:
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(raw))
