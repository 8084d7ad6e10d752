"""A TCP connection as in the kernel's tables, and the facts about one end."""

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final


class TcpState(IntEnum):
    """`net/tcp_states.h`; others are of no use to us."""

    ESTABLISHED = 1
    FIN_WAIT1 = 4
    FIN_WAIT2 = 5
    CLOSE_WAIT = 8


# Ends that have shaken hands and are held by a process. Never SYN_SENT: it may be another
# socket's try at the address of one that has just been closed. Never LISTEN: a lookup of an end
# that is gone finds whoever listens on its port.
TALKING: Final = frozenset(
    {TcpState.ESTABLISHED, TcpState.FIN_WAIT1, TcpState.FIN_WAIT2, TcpState.CLOSE_WAIT}
)


@dataclass(frozen=True, slots=True)
class TcpEnd:
    """One end of a connection: its own address, and the other's."""

    address: IPv4Address | IPv6Address
    port: int
    other_address: IPv4Address | IPv6Address
    other_port: int

    @property
    def opposite(self) -> "TcpEnd":
        return TcpEnd(self.other_address, self.other_port, self.address, self.port)


@dataclass(frozen=True, slots=True)
class SocketEntry:
    """What the tables say of an end."""

    state: int
    uid: int
    inode: int

    @property
    def is_owned(self) -> bool:
        """Whether the uid is somebody's.

        Of a socket whose process has closed it, or has gone, the kernel tells inode 0 and uid 0,
        and that must never be taken for root.
        """
        return self.inode != 0 and self.state in TALKING


def plain_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address, as IPv4 where it is IPv4 in IPv6's clothes; None for what is no address."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return found.ipv4_mapped
        if found.scope_id is not None:
            return None  # an address that means something on one link alone
    return found
