"""The supervisor's journal: attempts it accepted, stop requests, and how attempts ended.

One JSON array a line, appended; a last line cut short by a crash is as if never written. Records
of a turn are gathered and made durable together before anything is done or said because of them.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from typing import Any

from tgpu.engines.attempt_files import open_plain
from tgpu.engines.local.protocol import encode
from tgpu.flush import flush_directory

VERSION = 2  # 1 had no identities

# Rewriting costs about a millisecond per thousand live attempts; 8 MiB is some 40,000 records.
_REWRITE_BYTES = 8 << 20
_LONGEST_LINE = 1 << 20


class AttemptJournal:
    """Appends records to `path`. `replay` first, then `rewrite`, then `append` and `flush`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._size = 0
        self._rewritten_size = 0
        self._pending: list[bytes] = []
        self._must_sync = False

    def replay(self) -> list[list[Any]]:
        """Every whole record. Raises ValueError if a newer version wrote them."""
        try:
            with open(self._path, "rb", opener=_plain) as file:
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        version = 1
        records = []
        for record in (record for line in lines if (record := _parse(line))):
            if record[0] == "version":  # the first, and each from which another version went on
                version = record[1]
                if version > VERSION:
                    raise ValueError(f"{self._path} was written by a newer version ({version})")
            else:
                records.append(record if version > 1 else [*record[:3], "", *record[3:]])
        return records

    def rewrite(self, records: Iterable[tuple[object, ...]]) -> None:
        """Replace the journal by these records, durably and in one step."""
        text = b"".join([encode("version", VERSION), *(encode(*record) for record in records)])
        temporary = self._path + ".new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # half of one, or what somebody put there
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o600)
        try:
            _write_all(fd, text)
            os.fsync(fd)
            os.rename(temporary, self._path)
            flush_directory(os.path.dirname(self._path))
        except OSError:
            os.close(fd)
            raise
        self.close()
        self._fd, self._size, self._rewritten_size = fd, len(text), len(text)

    def resume(self) -> None:
        """Go on with the file as it is, where there is no room to write another."""
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        size = os.fstat(fd).st_size
        last = os.pread(fd, _LONGEST_LINE, max(0, size - _LONGEST_LINE))
        size -= len(last) - last.rfind(b"\n") - 1  # without a last line that was cut short
        os.ftruncate(fd, size)
        self.close()
        self._fd, self._size, self._rewritten_size = fd, size, size
        self.append("version", VERSION)  # what is in it may be of an older one

    def append(self, *record: object, sync: bool = True) -> None:
        """Takes effect with the next `flush`."""
        self._pending.append(encode(*record))
        self._must_sync |= sync

    def flush(self) -> None:
        """Make durable what was appended. After an OSError nothing is lost: call it again."""
        if not self._pending:
            return
        text = b"".join(self._pending)
        try:
            _write_all(self._fd, text)
            if self._must_sync:
                os.fdatasync(self._fd)
        except OSError:
            # Part of a line would swallow the next record, so go back to the last whole one.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(text)
        self._pending.clear()
        self._must_sync = False

    @property
    def is_long(self) -> bool:
        """Whether it is time to rewrite it without the attempts that were forgotten."""
        return self._size > max(_REWRITE_BYTES, 4 * self._rewritten_size)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _plain(path: str, flags: int) -> int:
    """A job of the same user may have put a pipe here, which nobody may wait for."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_plain(os.path.basename(path), directory)
    finally:
        os.close(directory)


def _parse(line: bytes) -> list[Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, list) and record else None


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
