"""A consistent copy of a SQLite database, also while a service writes to it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from tgpu.core.errors import Conflict
from tgpu.store.api import StoreUnavailable
from tgpu.store.sqlite_file import unavailable
from tgpu.text.system_words import system_words


def backup(source: Path, target: Path, *, replace: bool = False) -> int:
    """Copy it; the size in bytes. The copy is its owner's alone from its first byte on.

    It is there whole or not at all. Raises Conflict for a target that exists, unless it may be
    replaced, and StoreUnavailable.
    """
    if not source.is_file():
        raise StoreUnavailable(f"there is no database at {source}")
    if target.exists() and not replace:
        raise Conflict(f"{target} exists already: name another file, or replace it with --force")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _make_own(part)
        try:
            _copy(source, part)
            size = part.stat().st_size
            part.replace(target)
        finally:
            for left in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm"))):
                left.unlink(missing_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"{target} cannot be written: {system_words(error)}") from error
    return size


def _make_own(path: Path) -> None:
    """An empty file that was not there, for this user only, whatever the umask says."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _copy(source: Path, part: Path) -> None:
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True)) as origin,
            closing(sqlite3.connect(part)) as copy,
        ):
            origin.backup(copy)
            # One file, that can be copied as it is.
            copy.execute("PRAGMA journal_mode = DELETE")
            (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise unavailable(source, error) from error
    if verdict != "ok":
        raise StoreUnavailable(
            f"the database {source} is damaged, so that its copy would be: save what can be read"
            f" with `sqlite3 {source} .recover` ({verdict})"
        )
    descriptor = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
