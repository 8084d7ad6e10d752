"""Where a gRPC call comes from. gRPC gives the peer's address, but not the socket."""

import re
from collections import OrderedDict
from typing import Final
from urllib.parse import unquote

from tgpu.peers.lookup import Lookup
from tgpu.peers.peer import NOWHERE, Origin

_PEER: Final = re.compile(r"ipv[46]:\[?([^\]]+?)\]?:(\d{1,5})")
_REMEMBERED: Final = 10_000
_LOOPBACK: Final = ("127.0.0.1", "::1")


class GrpcOrigins:
    """`listening` is our own host and port. Asks anew for each call: gRPC names no connections."""

    def __init__(self, listening: tuple[str, int]) -> None:
        self._host, self._port = listening
        self._lookup = Lookup()
        # What was found out about a connection holds for as long as it is the same socket.
        self._known: OrderedDict[tuple[str, int, int], Origin] = OrderedDict()

    def of(self, peer: str | None) -> Origin:
        """`peer` is as gRPC tells it: "ipv4:127.0.0.1:41234", "ipv6:%5B::1%5D:41234"."""
        found = _PEER.fullmatch(unquote(peer or ""))
        if found is None:
            return NOWHERE
        address = found[1]
        # On which of our addresses it was met is not told; a caller of this machine usually
        # comes from the very one that it calls.
        met = (address, self._host, *_LOOPBACK)
        port = int(found[2])
        return self._as_known(self._lookup.origin_of_call(address, port, met, self._port), port)

    def _as_known(self, origin: Origin, port: int) -> Origin:
        peer = origin.peer
        if peer is None or peer.inode is None:
            return origin
        key = origin.address, port, peer.inode
        known = self._known.pop(key, origin)
        self._known[key] = known = known if known == origin else origin
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return known

    def close(self) -> None:
        self._lookup.close()
