"""The file of a SQLite store: who may read it, who holds it, and what can be wrong with it."""

import errno
import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Final

from tgpu.store.api import StoreChanged, StoreUnavailable
from tgpu.text.system_words import system_words

# The JSON functions are always built in from here on; STRICT tables are from 3.37.
_OLDEST_SQLITE: Final = (3, 38, 0)

# 32 MiB of log before it is written back: a bulk of 10,000 jobs is about 4 MiB, so a write-back
# and its flushes come with every eighth bulk and not with each (a quarter more jobs/s measured).
# Reading the log back at start after a crash takes about 0.05 s.
_CHECKPOINT_PAGES: Final = 8_000
_CACHE_KIB: Final = 32_768  # the dirty pages of one bulk fit, so none is written twice

_OF_A_FULL_DISK: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)

_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: "cannot be written, the disk is full: free some space and try again",
    sqlite3.SQLITE_BUSY: (
        "is locked by another program: end it (a sqlite3 shell or a backup?) and try again"
    ),
    sqlite3.SQLITE_LOCKED: (
        "is locked by another program: end it (a sqlite3 shell or a backup?) and try again"
    ),
    sqlite3.SQLITE_NOTADB: ("is not a database: move it away, or choose another data directory"),
    sqlite3.SQLITE_CORRUPT: (
        "is damaged: restore a backup, or save what can be read with `sqlite3 FILE .recover`"
    ),
    sqlite3.SQLITE_READONLY: "cannot be written: check its owner and permissions",
    sqlite3.SQLITE_PERM: "cannot be written: check its owner and permissions",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the owner and permissions of its directory",
    sqlite3.SQLITE_IOERR: "cannot be read or written: check the disk and its limits",
}


def unavailable(path: Path, error: Exception) -> StoreUnavailable:
    """The error as a sentence that names the file and what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    remedy = None if code is None else _REMEDIES.get(code & 0xFF)
    if remedy is None:
        remedy = "cannot be used: see the cause"
    return StoreUnavailable(f"the database {path} {remedy} ({error})", [{"path": str(path)}])


def may_be_full(error: Exception) -> bool:
    """Whether more room on the disk may help. SQLite says of its side files only that they fail."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT)
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _OF_A_FULL_DISK


def check_sqlite() -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        oldest = ".".join(map(str, _OLDEST_SQLITE))
        raise StoreUnavailable(
            f"SQLite {sqlite3.sqlite_version} is too old: "
            f"use a Python that comes with SQLite {oldest}"
            " or newer"
        )


def prepare(path: Path) -> None:
    """Make the directory and an empty file where missing, for this user only.

    Environments of jobs are stored, and people keep secrets in them. SQLite gives its side files
    the mode of the database.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except IsADirectoryError as error:
        raise StoreUnavailable(
            f"the database {path} is a directory: name a file in it, or another path"
        ) from error
    except OSError as error:
        raise _not_made(f"the database {path}", error) from error


def take_lock(path: Path) -> int:
    """A descriptor that holds `<path>.lock` until it is closed or the process ends."""
    lock_path = path.with_name(path.name + ".lock")
    try:
        lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _not_made(f"the lock file {lock_path}", error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
        os.close(lock)
        raise StoreUnavailable(
            f"the database {path} is in use by another service"
            f"{f' (process {holder})' if holder else ''}: stop that one, or choose another data"
            " directory"
        ) from error
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        pass  # the lock counts; the number in it is only for the sentence above, and may not fit
    return lock


class OpenFile:
    """The file that a store has open, to know it from what stands at its path later.

    Held without opening it for reading or writing: closing such a descriptor would give up the
    locks that SQLite has on the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)

    def check(self) -> None:
        """Raises StoreChanged once it is certain that what is written can be found by nobody.

        That the path cannot be looked at proves nothing: the directory may have been moved.
        """
        ours = os.fstat(self._descriptor)
        if ours.st_nlink == 0:
            raise StoreChanged(f"the database {self._path} was removed while it was in use")
        try:
            there = self._path.stat()
        except OSError:
            return
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            raise StoreChanged(
                f"the database {self._path} was replaced by another file while it was in use"
            )

    def close(self) -> None:
        os.close(self._descriptor)


def _not_made(what: str, error: OSError) -> StoreUnavailable:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free some space" if full else "check the owner and permissions of its directory"
    return StoreUnavailable(
        f"{what} cannot be made or opened ({system_words(error)}): {remedy}, or choose another data"
        " directory"
    )


def connect(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection whose acknowledged commits are on disk, also after a loss of power."""
    connection = sqlite3.connect(
        path,
        timeout=busy_seconds,
        isolation_level=None,  # transactions are begun and ended by name
        check_same_thread=False,  # each is used by one thread, and closed by whoever closes
        cached_statements=256,  # many-row statements have one text per power of two
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_CHECKPOINT_PAGES * 4096}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection
