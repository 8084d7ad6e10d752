"""How a supervisor process comes to be: detached, alone in its directory, listening."""

import argparse
import contextlib
import errno
import os
import stat
import sys
from typing import NoReturn

from tgpu.engines.local import descriptors, paths, steady
from tgpu.engines.local.door import take
from tgpu.engines.local.processes import adopt_orphans, set_name
from tgpu.engines.local.supervisor import Supervisor, log

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
IDLE_SECONDS = 60.0

_LOG_BYTES = 1 << 20

# What the detached process tells the one that started it, before that one exits.
_READY = b"ready"
_ANOTHER = b"another"


def main() -> NoReturn:
    arguments = _arguments()
    descriptors.raise_limit(arguments.open_files)
    descriptors.no_core_dumps()
    root = os.path.realpath(arguments.dir)
    os.makedirs(root, 0o700, exist_ok=True)
    if not arguments.detach:
        sys.exit(_supervise(root, arguments, tell=-1))
    told, tell = os.pipe()
    if os.fork() != 0:
        os.close(tell)
        sys.exit(0 if os.read(told, 16) in (_READY, _ANOTHER) else 1)
    os.close(told)
    os.setsid()
    _redirect(f"{root}/{paths.LOG}")
    sys.exit(_supervise(root, arguments, tell))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tgpu.engines.local.supervisor")
    parser.add_argument("--dir", required=True, help="where jobs, journal and socket live")
    parser.add_argument("--boot-id-file", default=BOOT_ID_FILE)
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parser.add_argument("--open-files", type=int, help="soft limit that jobs are to have")
    parser.add_argument("--detach", action="store_true", help="return once it listens")
    return parser.parse_args()


def _supervise(root: str, arguments: argparse.Namespace, tell: int) -> int:
    door = take(root)
    if door is None:
        _tell(tell, _ANOTHER)
        return 0
    with contextlib.suppress(FileExistsError):
        os.mkdir(f"{root}/{paths.JOBS}", 0o700)
    os.chdir("/")
    set_name("tgpu-supervisor")
    adopt_orphans()
    with open(arguments.boot_id_file) as file:
        boot = file.read().strip()
    steady.begin(root, boot)
    try:
        supervisor = Supervisor(root, boot, door, arguments.idle_seconds, arguments.dir)
        supervisor.run(ready=lambda: _tell(tell, _READY))
    except (ValueError, OSError) as error:
        log(str(error))
        return 1
    finally:
        door.close()
    return 0


def _redirect(log_file: str) -> None:
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
    with contextlib.suppress(OSError):
        if os.stat(log_file).st_size > _LOG_BYTES:
            flags |= os.O_TRUNC
    null = os.open(os.devnull, os.O_RDWR)
    try:
        out = _open_log(log_file, flags)
    except OSError:  # a full disk: jobs matter more
        out = os.dup(null)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)


def _open_log(log_file: str, flags: int) -> int:
    """Not through a link, and without waiting: a job of the same user may have put a pipe there."""
    try:
        out = os.open(log_file, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        if stat.S_ISREG(os.fstat(out).st_mode):
            os.set_blocking(out, True)
            return out
        os.close(out)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
    os.unlink(log_file)
    return os.open(log_file, flags | os.O_EXCL, 0o600)


def _tell(fd: int, message: bytes) -> None:
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.write(fd, message)
        os.close(fd)
