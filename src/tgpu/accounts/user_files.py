"""Reads a file named by a user as that user, in a separate process.

The service may read what that user may not, and must not wait for a pipe or a disk that hangs.
Blocks, for a bounded time: to be called in a thread.
"""

import subprocess
from typing import Final

from tgpu.accounts.api import Account

_SECONDS: Final = 10.0
_NOT_THERE: Final = 3
_NOT_READABLE: Final = 4
# A program of the system's: ours may lie where that user cannot read it.
_PROGRAM: Final = f"""
test -f "$1" || exit {_NOT_THERE}
test -r "$1" || exit {_NOT_READABLE}
exec head -c "$2" < "$1"
"""


def read_as(account: Account | None, path: str, most: int) -> bytes | None:
    """See `Accounts.read_as`."""
    user: dict[str, object] = {}
    if account is not None:
        user = {"user": account.uid, "group": account.gid, "extra_groups": list(account.groups)}
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", _PROGRAM, "sh", path, str(most)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            timeout=_SECONDS,
            check=False,
            **user,  # type: ignore[call-overload]  # the words of Popen for another user
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return b""
    if done.returncode == _NOT_THERE:
        return None
    return bytes(done.stdout) if done.returncode == 0 else b""
