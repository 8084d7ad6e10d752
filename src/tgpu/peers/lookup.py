"""Looks up the peer of a connection, once per connection."""

import contextlib
import socket
import struct
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Final

import structlog

from tgpu.peers.peer import NOWHERE, UNIX, Origin, Peer
from tgpu.peers.proc_net import find_in_proc_net
from tgpu.peers.sock_diag import DiagUnavailable, SockDiag
from tgpu.peers.tuples import TALKING, SocketEntry, TcpEnd, plain_address

_log = structlog.get_logger("gpu_scheduler.peers")

_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred of unix(7)
_LOOPBACK: Final = IPv4Address("127.0.0.1")
_UID_MAP: Final = Path("/proc/self/uid_map")
_OVERFLOW_UID: Final = Path("/proc/sys/kernel/overflowuid")


class Lookup:
    """Asks the kernel who is at the other end. For one thread, the event loop's."""

    def __init__(self) -> None:
        self._diag: SockDiag | None = None
        self._is_probed = False
        self._nameless = nameless_uid()

    def origin(self, connection: Any) -> Origin:
        """Of an accepted connection (a socket, or what an event loop shows of one)."""
        if connection is None:
            return NOWHERE
        if connection.family == socket.AF_UNIX:
            return Origin(UNIX, is_here=True, peer=_unix_peer(connection))
        try:
            name, other = connection.getsockname(), connection.getpeername()
        except OSError:  # gone already
            return NOWHERE
        ours, theirs = plain_address(name[0]), plain_address(other[0])
        if ours is None or theirs is None or not is_of_this_machine(theirs, ours):
            return Origin(str(other[0]), is_here=False)
        peer = self.owner(TcpEnd(theirs, other[1], ours, name[1]))
        # Asked last: while our end lives no other connection can have the same addresses, so
        # what was found cannot be a socket that took the port of one that is gone.
        if peer is not None and _state(connection) not in TALKING:
            peer = None
        return Origin(str(theirs), is_here=True, peer=peer)

    def origin_of_call(
        self, address: str, port: int, our_addresses: tuple[str, ...], our_port: int
    ) -> Origin:
        """Where only the other end's address is known: `our_addresses` may be the ones it met."""
        theirs = plain_address(address)
        met = [found for each in our_addresses if (found := plain_address(each)) is not None]
        if theirs is None or not met or not is_of_this_machine(theirs, met[0]):
            return Origin(address, is_here=False)
        for ours in met:
            end = TcpEnd(theirs, port, ours, our_port)
            if theirs.version == ours.version and (peer := self.owner(end)) is not None:
                our_end = self._find(end.opposite)
                if our_end is not None and our_end.is_owned:
                    return Origin(str(theirs), is_here=True, peer=peer)
        return Origin(str(theirs), is_here=True)

    def owner(self, end: TcpEnd) -> Peer | None:
        """Who owns this end of a connection; None where nobody does, or it cannot be told."""
        found = self._find(end)
        if found is None or not found.is_owned or found.uid == self._nameless:
            return None
        return Peer(found.uid, inode=found.inode)

    def close(self) -> None:
        if self._diag is not None:
            self._diag.close()

    def _find(self, end: TcpEnd) -> SocketEntry | None:
        if not self._is_probed:
            self._probe()
        if self._diag is not None:
            with contextlib.suppress(DiagUnavailable):
                return self._diag.find(end)
        return find_in_proc_net(end)

    def _probe(self) -> None:
        """Whether sock_diag knows a connection of our own: without its module it finds nothing."""
        self._is_probed = True
        try:
            diag = SockDiag()
        except DiagUnavailable as error:
            _log.info("connections are looked up in /proc/net/tcp", problem=str(error))
            return
        if _finds_our_own(diag):
            self._diag = diag
        else:
            diag.close()
            _log.info("connections are looked up in /proc/net/tcp", problem="no sock_diag here")


def is_of_this_machine(address: IPv4Address | IPv6Address, ours: IPv4Address | IPv6Address) -> bool:
    if address.is_loopback or address == ours:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((str(address), 0))  # only our own addresses can be had
    except OSError:
        return False
    return True


def nameless_uid() -> int | None:
    """The uid that stands for everybody whom our user namespace has no number for."""
    try:
        words = _UID_MAP.read_text().split()
        if words[:3] == ["0", "0", "4294967295"]:
            return None
        return int(_OVERFLOW_UID.read_text())
    except (OSError, ValueError):
        return None


def _unix_peer(connection: Any) -> Peer:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return Peer(uid, pid=pid)


def _state(connection: Any) -> int:
    try:
        raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except OSError:
        return 0
    return int(raw[0])


def _finds_our_own(diag: SockDiag) -> bool:
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as listening,
            socket.create_connection(listening.getsockname(), timeout=1) as client,
        ):
            (_, port), (_, listens) = client.getsockname(), listening.getsockname()
            found = diag.find(TcpEnd(_LOOPBACK, port, _LOOPBACK, listens))
            return found is not None and found.is_owned
    except (OSError, DiagUnavailable):
        return False
