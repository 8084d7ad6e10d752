"""How many connections there may be, per caller and in total."""

import resource
from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from tgpu.peers.peer import Origin
from tgpu.settings.model import LimitSettings

# Descriptors that are for everything else: the store, logs, the supervisor, gRPC.
_RESERVE: Final = 256
# Their bodies are read as they come, and may take as long as they keep coming.
_STREAMS: Final = frozenset({"/ingest", "/jobs/batch"})
_NETWORK: Final = 64  # of an IPv6 address: who has one of them has all that share it


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What holds for each connection, and how many there may be."""

    most: int = 4096  # over TCP; the Unix socket has as many as a quarter of them for itself
    most_of_a_caller: int = 1024
    head_seconds: float = 10.0
    body_seconds: float = 60.0  # of an ordinary request; a stream may go on while it comes
    idle_seconds: float = 10.0  # between two requests
    streams: frozenset[str] = frozenset()  # paths whose body may take as long as it likes

    def fitting(self) -> "tuple[ConnectionBudget, ConnectionBudget]":
        """Of TCP and of the Unix socket, within the descriptors that this process has."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = self.most * 2 if soft == resource.RLIM_INFINITY else max(soft - _RESERVE, soft // 2)
        tcp = min(self.most, room * 3 // 4)
        unix = min(max(self.most // 4, 16), room // 4)
        return self._budget(tcp), self._budget(unix)

    def _budget(self, most: int) -> "ConnectionBudget":
        # One caller never has all of them, whatever the settings say.
        return ConnectionBudget(most, max(1, min(self.most_of_a_caller, most // 2)))


USUAL: Final = ConnectionLimits()


def connection_limits(settings: LimitSettings) -> ConnectionLimits:
    return ConnectionLimits(
        most=settings.connections,
        most_of_a_caller=settings.connections_per_caller,
        head_seconds=settings.head_seconds,
        body_seconds=settings.body_seconds,
        idle_seconds=settings.idle_seconds,
        streams=_STREAMS,
    )


class ConnectionBudget:
    """Counts connections. Whoever was let in gives its place back by the same name."""

    def __init__(self, most: int, most_of_a_caller: int) -> None:
        self.most = most
        self.most_of_a_caller = most_of_a_caller
        self.taken = 0
        self._of: Counter[str] = Counter()

    def take(self, caller: str) -> str:
        """Why there is no place for one more connection; empty where there is, and it is taken."""
        if self._of[caller] >= self.most_of_a_caller:
            return (
                f"{caller} has {self.most_of_a_caller} connections open, the maximum "
                "(limits.connections_per_caller); close some, or reuse them"
            )
        if self.taken >= self.most:
            return f"all {self.most} connections are in use (limits.connections); try again later"
        self._of[caller] += 1
        self.taken += 1
        return ""

    def give_back(self, caller: str) -> None:
        self.taken -= 1
        self._of[caller] -= 1
        if not self._of[caller]:
            del self._of[caller]


def caller_behind(origin: Origin) -> str:
    """For whom a connection counts: the user of this machine, else the address."""
    if origin.peer is not None:
        return f"user {origin.peer.uid}"
    try:
        address = ip_address(origin.address)
    except ValueError:
        return origin.address or "an unknown address"
    if isinstance(address, IPv6Address) and not address.is_loopback:
        network = int(address) >> (128 - _NETWORK) << (128 - _NETWORK)
        return f"{IPv6Address(network)}/{_NETWORK}"
    return str(address)
