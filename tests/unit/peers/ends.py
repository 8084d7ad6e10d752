"""Real connections over loopback, whose clients are processes of other users."""

import contextlib
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can be several users; run the tests as root"
)
NOBODY = pwd.getpwnam("nobody")
FAMILIES = ("127.0.0.1", "::1", "::ffff:127.0.0.1")

_CLIENT = """
import os, socket, sys
uid, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setgroups([]) if os.geteuid() == 0 else None
os.setresgid(uid, uid, uid) if uid != os.getuid() else None
os.setresuid(uid, uid, uid)
family = socket.AF_INET6 if ":" in host else socket.AF_INET
with socket.socket(family) as client:
    client.connect((host, port))
    print(os.fstat(client.fileno()).st_ino, flush=True)
    sys.stdin.readline()
    client.close()
    print("closed", flush=True)
    sys.stdin.readline()
"""


@dataclass(slots=True)
class Client:
    """A process with a connection; `close` closes it, and the process lives on."""

    process: "subprocess.Popen[str]"
    inode: int

    @property
    def pid(self) -> int:
        return self.process.pid

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "closed\n"


@contextlib.contextmanager
def a_client(uid: int, host: str, port: int) -> Iterator[Client]:
    process = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(uid), host, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            yield Client(process, int(process.stdout.readline()))
        finally:
            process.kill()


@contextlib.contextmanager
def a_listener(host: str) -> Iterator[socket.socket]:
    """On all addresses of both families, where an IPv4 address in IPv6 is to be met."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listening:
        if host.startswith("::ffff:"):
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            host = "::"
        listening.bind((host, 0))
        listening.listen()
        yield listening


@contextlib.contextmanager
def connected(uid: int, host: str) -> Iterator[tuple[Client, socket.socket]]:
    """A client's process, and our end of its connection."""
    with (
        a_listener(host) as listening,
        a_client(uid, host, listening.getsockname()[1]) as client,
        listening.accept()[0] as ours,
    ):
        yield client, ours


# Of its own, so that ports which others on 127.0.0.1 have just left can be had again.
_SOURCE = "127.77.0.1"


@contextlib.contextmanager
def connected_here(
    listening: socket.socket | None = None, port: int = 0
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection within this process; the client's from `port`."""
    with contextlib.ExitStack() as stack:
        if listening is None:
            listening = stack.enter_context(a_listener("127.0.0.1"))
        client = stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind((_SOURCE, port))
        client.connect(listening.getsockname())
        yield client, stack.enter_context(listening.accept()[0])
