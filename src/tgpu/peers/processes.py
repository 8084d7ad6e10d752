"""The processes that hold the other end of a connection."""

import asyncio
import os
from pathlib import Path
from typing import Final

from tgpu.peers.peer import Peer

_PROC: Final = Path("/proc")


async def processes_of(peer: Peer) -> frozenset[int]:
    """Their ids; empty where none can be found, which says nothing about who they are.

    Over a Unix socket it is the one that connected. Over TCP it is everyone who has the socket
    open now, which takes a look at the files of all processes: some milliseconds, off the loop.
    A socket that is on its way between two processes is held by none.
    """
    if peer.pid is not None:
        return frozenset({peer.pid})
    if peer.inode is None:
        return frozenset()
    return await asyncio.to_thread(holders, peer.inode)


def holders(inode: int, proc: Path = _PROC) -> frozenset[int]:
    """Processes that have the socket open, of those whose files we may see.

    Of all users, not of the socket's alone: it may have been handed on.
    """
    wanted = f"socket:[{inode}]"
    return frozenset(
        int(name) for name in os.listdir(proc) if name.isdigit() and _holds(proc / name, wanted)
    )


def _holds(process: Path, wanted: str) -> bool:
    try:
        with os.scandir(process / "fd") as files:
            return any(_target(file) == wanted for file in files)
    except OSError:  # gone, or not ours to see
        return False


def _target(file: "os.DirEntry[str]") -> str:
    try:
        return os.readlink(file.path)
    except OSError:
        return ""
