"""The socket of a job's terminal: its path, and the user at its other end.

In Linux's abstract namespace: there is no file to be left behind, or to be put there by somebody
else, and the job need not be able to write where its submitter can. Anybody may connect, so the
kernel is asked who did.
"""

import os
import secrets
import socket
import struct
from typing import Final

_PREFIX: Final = "\0tgpu-terminal-"
_CREDENTIALS: Final = struct.Struct("3i")


def new_name() -> str:
    """Short: it is no secret, for both ends ask the kernel who is at the other."""
    return secrets.token_hex(4)


def listen(name: str) -> socket.socket:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind(_PREFIX + name)
    door.listen(4)
    return door


def connect(name: str) -> socket.socket:
    """Raises ConnectionRefusedError while nobody listens."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(_PREFIX + name)
    except OSError:
        line.close()
        raise
    return line


def uid_of(line: socket.socket) -> int:
    """Of the process at the other end."""
    found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(found)
    return int(uid)


def is_allowed(uid: int) -> bool:
    """To sit at a terminal of this process: its own user, and root."""
    return uid in (0, os.geteuid())
