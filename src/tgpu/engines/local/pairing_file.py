"""The engine id of this directory and the database it belongs to, in two small files.

One is written when the pair is made, in one step. The other, the high-water mark, before launches:
in place and without a flush, which every launch would pay for. It outlives every process of ours;
only a power failure can take the last of it, and that matters only if a backup of just before is
put back.
"""

import contextlib
import errno
import json
import os
import secrets
from pathlib import Path
from typing import Final

from tgpu.engines.api import Pairing
from tgpu.flush import flush_directory

PAIRING: Final = "pairing.json"
HIGH_WATER: Final = "high-water"
_MACHINE_ID: Final = Path("/etc/machine-id")
_OPEN: Final = os.O_NOFOLLOW | os.O_CLOEXEC


def read_pairing(directory: Path) -> Pairing:
    """As the files say; a new identity, not written yet, where there are none. Raises OSError."""
    seq, number = _read_mark(directory)
    try:
        text = (directory / PAIRING).read_bytes()
    except FileNotFoundError:
        return Pairing(secrets.token_hex(16), place=_place(directory), seq=seq, number=number)
    try:
        fields = json.loads(text)
        return Pairing(
            str(fields["engine"]),
            str(fields["database"]),
            bool(fields["is_durable"]),
            str(fields["machine"]),
            _place(directory),
            seq,
            number,
            is_new=False,
        )
    except (ValueError, KeyError, TypeError) as error:
        damaged = f"{directory / PAIRING} is damaged: restore it from a backup, or remove it"
        raise OSError(errno.EINVAL, damaged) from error


def write_pairing(directory: Path, pairing: Pairing) -> None:
    """Durably, and all of it or nothing. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps(
        {
            "engine": pairing.engine,
            "database": pairing.database,
            "is_durable": pairing.is_durable,
            "machine": machine_id(),
        }
    )
    write_mark(directory, pairing.seq, pairing.number)
    temporary = directory / f"{PAIRING}.new"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _OPEN, 0o600)
    try:
        os.write(fd, text.encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.rename(directory / PAIRING)
    flush_directory(directory)


def write_mark(directory: Path, seq: int, number: int) -> None:
    """Raises OSError."""
    fd = os.open(directory / HIGH_WATER, os.O_CREAT | os.O_WRONLY | _OPEN, 0o600)
    try:
        # Always of one length: half of it is never written.
        os.pwrite(fd, f"{seq:020d} {number:020d}\n".encode(), 0)
    finally:
        os.close(fd)


def machine_id() -> str:
    """Empty where the system has none, as in many containers."""
    try:
        return _MACHINE_ID.read_text().strip()
    except (OSError, ValueError):
        return ""


def _place(directory: Path) -> str:
    """The data directory, which is what people name."""
    return str(directory.parent if directory.name == "engine" else directory)


def _read_mark(directory: Path) -> tuple[int, int]:
    try:
        seq, number = (directory / HIGH_WATER).read_text().split()
        return int(seq), int(number)
    except (FileNotFoundError, ValueError):
        return 0, 0
