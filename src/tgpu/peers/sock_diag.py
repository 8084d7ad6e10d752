"""Looks up a TCP peer by its addresses with netlink's sock_diag(7).

An exact question costs a few microseconds however many connections there are. The answer is
made while the question is sent, so reading it never waits.
"""

import errno
import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from tgpu.peers.tuples import SocketEntry, TcpEnd, plain_address

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLMSG_ERROR: Final = 2
_NLM_F_REQUEST: Final = 1
_ALL_STATES: Final = 0xFFFFFFFF
_NO_COOKIE: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("=IHHII")  # nlmsghdr
_REQUEST: Final = struct.Struct("=BBBBI")  # inet_diag_req_v2, before its inet_diag_sockid
_PORTS: Final = struct.Struct("!HH")
_REST: Final = struct.Struct("=III")  # interface and cookie of inet_diag_sockid
_ANSWER: Final = struct.Struct("=BBBB4s16s16s12sIIIII")  # inet_diag_msg
_ADDRESS_BYTES: Final = 16


class DiagUnavailable(Exception):
    """The kernel does not answer such questions here."""


class SockDiag:
    """Keeps one netlink socket. For one thread."""

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
            )
        except OSError as error:
            raise DiagUnavailable(str(error)) from error
        self._socket.setblocking(False)
        self._number = 0

    def find(self, end: TcpEnd) -> SocketEntry | None:
        """None where there is no such end. Raises DiagUnavailable."""
        self._number = (self._number + 1) & 0xFFFFFFFF
        try:
            self._socket.send(_question(end, self._number))
            while True:
                answer = self._socket.recv(8192)
                _, kind, _, number, _ = _HEADER.unpack_from(answer)
                if number == self._number:
                    break
        except OSError as error:  # also: nothing there to read
            raise DiagUnavailable(str(error)) from error
        if kind == _NLMSG_ERROR:
            (code,) = struct.unpack_from("=i", answer, _HEADER.size)
            if code == -errno.ENOENT:
                return None
            raise DiagUnavailable(f"error {-code}")
        return _entry(answer, end) if kind == _SOCK_DIAG_BY_FAMILY else None

    def close(self) -> None:
        self._socket.close()


def _question(end: TcpEnd, number: int) -> bytes:
    family = socket.AF_INET if end.address.version == 4 else socket.AF_INET6
    body = b"".join(
        (
            _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES),
            _PORTS.pack(end.port, end.other_port),
            end.address.packed.ljust(_ADDRESS_BYTES, b"\0"),
            end.other_address.packed.ljust(_ADDRESS_BYTES, b"\0"),
            _REST.pack(0, _NO_COOKIE, _NO_COOKIE),
        )
    )
    size = _HEADER.size + len(body)
    return _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, number, 0) + body


def _entry(answer: bytes, end: TcpEnd) -> SocketEntry | None:
    """The kernel may answer with a socket that listens on the port: only the very end will do."""
    found = _ANSWER.unpack_from(answer, _HEADER.size)
    family, state, ports, ours, theirs, uid, inode = *found[:2], *found[4:7], *found[-2:]
    told = TcpEnd(
        _address(family, ours),
        _PORTS.unpack(ports)[0],
        _address(family, theirs),
        _PORTS.unpack(ports)[1],
    )
    return SocketEntry(state, uid, inode) if told == end else None


def _address(family: int, packed: bytes) -> IPv4Address | IPv6Address:
    raw = packed[:4] if family == socket.AF_INET else packed
    found = ip_address(raw)
    return plain_address(str(found)) or found
