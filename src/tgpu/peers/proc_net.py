"""Looks up a TCP peer in /proc/net/tcp, if sock_diag is not available.

It reads the table of all connections, so it is the second choice.
"""

import struct
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from tgpu.peers.tuples import SocketEntry, TcpEnd

_PROC_NET: Final = Path("/proc/net")
_WORD: Final = struct.Struct("<I" if sys.byteorder == "little" else ">I")


def find_in_proc_net(end: TcpEnd, directory: Path = _PROC_NET) -> SocketEntry | None:
    """None where there is no such end, or the table cannot be read."""
    if end.address.version == 6:
        return _find(directory / "tcp6", end)
    # A program that speaks IPv6 with an IPv4 address has its socket in the table of IPv6.
    return _find(directory / "tcp", end) or _find(directory / "tcp6", _mapped(end))


def _find(file: Path, end: TcpEnd) -> SocketEntry | None:
    wanted = [
        f"{_hex(end.address)}:{end.port:04X}",
        f"{_hex(end.other_address)}:{end.other_port:04X}",
    ]
    try:
        lines = file.read_text().splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        # number, both addresses, state, queues, timer, retransmits, uid, timeout, inode, …
        words = line.split()
        if words[1:3] == wanted:
            return SocketEntry(int(words[3], 16), int(words[7]), int(words[9]))
    return None


def _mapped(end: TcpEnd) -> TcpEnd:
    ours, theirs = (ip_address(f"::ffff:{each}") for each in (end.address, end.other_address))
    return TcpEnd(ours, end.port, theirs, end.other_port)


def _hex(address: IPv4Address | IPv6Address) -> str:
    """As the kernel prints it: words of four bytes, each as this machine reads a number."""
    raw = address.packed
    return "".join(f"{_WORD.unpack_from(raw, at)[0]:08X}" for at in range(0, len(raw), 4))
