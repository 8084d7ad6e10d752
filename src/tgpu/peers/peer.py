"""Facts about the peer of a connection, from the kernel."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Peer:
    """A process of this machine. Nothing that it sends can change what is here."""

    uid: int
    # Over a Unix socket, who connected. Over TCP the kernel tells no process: `processes_of`
    # finds those who hold the socket.
    pid: int | None = None
    inode: int | None = None  # of the other end's TCP socket


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a connection comes from."""

    address: str  # for people: an IP address, or "unix"
    is_here: bool  # whether the other end is on this machine
    peer: Peer | None = None  # None: on another machine, or the kernel does not tell
    # What was found out about it since, so that it is found out once.
    facts: dict[str, object] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_unix(self) -> bool:
        return self.address == UNIX


UNIX = "unix"
NOWHERE = Origin("", is_here=False)
