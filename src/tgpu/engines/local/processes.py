"""Processes as the kernel tells of them: who they are, whose children they are, signals to them.

A process is named by pid and start time together, because pids are used again.
"""

import ctypes
import errno
import os
import signal
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

_PR_SET_DUMPABLE: Final = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)

# All that means that a process is over. Everything else (no descriptors, no rights, a filter for
# system calls) means that we cannot look now.
_GONE: Final = frozenset({errno.ENOENT, errno.ESRCH})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM})


class CannotTell(Exception):
    """The kernel does not say now; to be asked again. Not an OSError, which many pass over."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(f"{what}: {error.strerror}")
        self.errno = error.errno


class Process(NamedTuple):
    pid: int
    ppid: int
    group: int
    session: int
    start: int  # clock ticks since boot, field 22 of /proc/PID/stat
    state: str
    name: str
    threads: int = 1

    @property
    def is_over(self) -> bool:
        """A zombie only waits to be counted, unless threads go on that outlived the first one."""
        return self.state in "ZX" and self.threads <= 1

    @property
    def is_stopped(self) -> bool:
        return self.state in "Tt"


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, instead of init."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def keep_memory_private() -> None:
    """No core dumps, and nobody but root reads or traces this process, not its own user either.

    What it starts with another program does not inherit that.
    """
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def set_name(name: str) -> None:
    """What ps and top show; at most 15 bytes. A runner is otherwise not told from its parent."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def set_command_line(*words: str) -> None:
    """What ps and `pgrep -f` show, as far as there is room where the old one stood.

    A forked process shows its parent's: whoever ends "the supervisor" by that would end all
    runners with it, and lose the exit codes that they are there to keep.
    """
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    # Numbers 48 and 49 of proc(5); what is behind the name begins with number 3.
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        text = "\0".join(words).encode(errors="surrogateescape")[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, text, len(text))


def read_process(pid: int) -> Process | None:
    """None where there is no such process. Raises CannotTell."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(fd, 4096)  # ESRCH: it ended between open and read
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise CannotTell(f"process {pid} cannot be looked at", error) from error
    return _parse_stat(pid, text)


def start_time(pid: int) -> int:
    """0 where there is no such process; no live process started at tick 0. Raises CannotTell."""
    process = read_process(pid)
    return process.start if process else 0


def is_alive(pid: int, start: int) -> bool:
    """Whether this very process still runs. Raises CannotTell."""
    process = read_process(pid)
    return process is not None and process.start == start and not process.is_over


def descendants(root: int, skip: Iterable[int] = ()) -> list[Process]:
    """All processes below `root`, itself not included, without `skip` and what is below those.

    Raises CannotTell.
    """
    found: list[Process] = []
    seen = {root, *skip}
    level = [root]
    while level:
        level = [pid for parent in level for pid in _children(parent) if pid not in seen]
        seen.update(level)
        found += [process for pid in level if (process := _named(pid))]
    return [process for process in found if not process.is_over]


def children(pid: int) -> list[Process]:
    """Direct children, zombies included. Raises CannotTell."""
    return [process for child in _children(pid) if (process := _named(child))]


def all_processes() -> list[Process]:
    """All that we are shown: not those of other users, where these are hidden from us.

    Raises CannotTell.
    """
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError as error:
        raise CannotTell("the processes cannot be listed", error) from error
    found = [process for pid in pids if (process := _named(pid))]
    return [process for process in found if process.start and not process.is_over]


def output_directories(pid: int) -> set[str]:
    """The directories of the files that standard output and error of a process go to.

    Raises CannotTell.
    """
    found: set[str] = set()
    for descriptor in (1, 2):
        try:
            found.add(os.path.dirname(os.readlink(f"/proc/{pid}/fd/{descriptor}")))
        except OSError as error:
            # Gone, or a zombie, that has none any more; or another user's.
            if error.errno not in _GONE | _FORBIDDEN:
                raise CannotTell(f"the output of process {pid} cannot be seen", error) from error
    return found


def send_signal(process: Process, number: int) -> bool:
    """Signal exactly this process: a pidfd cannot come to mean another one.

    False if it is gone, or not ours to signal. Raises CannotTell.
    """
    try:
        fd = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno in _GONE:
            return False
        # No descriptors, or a filter that forbids these: by its number then, right after a look.
        if start_time(process.pid) != process.start:
            return False
        return _sent(lambda: os.kill(process.pid, number))
    try:
        # Checked after opening: from here on the descriptor means the process that was found.
        if start_time(process.pid) != process.start:
            return False
        return _sent(lambda: signal.pidfd_send_signal(fd, number)) or (
            # Filters know one call and not the other; it is still the one that was found.
            _sent(lambda: os.kill(process.pid, number))
        )
    finally:
        os.close(fd)


def _sent(send: Callable[[], None]) -> bool:
    try:
        send()
    except OSError:
        return False
    return True


def _children(pid: int) -> list[int]:
    # Children are listed by the thread that made them.
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError as error:
        return _nothing_below(pid, error)
    found: list[int] = []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as listing:
                found += map(int, listing.read().split())
        except FileNotFoundError:
            if not _HAS_CHILDREN_FILES:
                return [process.pid for process in all_processes() if process.ppid == pid]
        except OSError as error:
            found += _nothing_below(pid, error)
    return found


def _nothing_below(pid: int, error: OSError) -> list[int]:
    # What is not ours to see (another user's, where those are hidden) is not ours to end either.
    if error.errno in _GONE | _FORBIDDEN:
        return []
    raise CannotTell(f"what is below process {pid} cannot be seen", error) from error


def _named(pid: int) -> Process | None:
    """One that we know to be there, with a start of 0 where it is hidden from us."""
    try:
        return read_process(pid)
    except CannotTell as error:
        if error.errno in _FORBIDDEN:
            return Process(pid, 0, 0, 0, 0, "?", "")
        raise


# A kernel built without CONFIG_PROC_CHILDREN makes us look through all of /proc instead.
_HAS_CHILDREN_FILES = os.path.exists("/proc/thread-self/children")


def _parse_stat(pid: int, text: bytes) -> Process | None:
    # The name stands in parentheses and may itself hold spaces and parentheses.
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    return Process(
        pid=pid,
        ppid=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start=int(fields[19]),
        state=fields[0].decode(),
        name=head.partition(b"(")[2].decode(errors="replace"),
        threads=int(fields[17]),
    )
