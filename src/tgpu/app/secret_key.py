"""The file with the keys that encrypt stored secrets: one per line, the newest first."""

import base64
import binascii
import contextlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tgpu.app.disk_words import with_disk
from tgpu.app.refusal import CannotServe
from tgpu.flush import flush_directory
from tgpu.service.secrets.sealing import KEY_BYTES, Sealer
from tgpu.settings import Settings
from tgpu.text.system_words import system_words

FILE: Final = "secret.key"
_MOST_BYTES: Final = 4096  # some eighty keys


def key_file(settings: Settings, data_dir: Path) -> Path:
    return settings.security.secret_key_file or data_dir / FILE


def load_sealer(settings: Settings, data_dir: Path) -> Sealer | None:
    """With the keys of the file, which is made where there is none. CannotServe says what is wrong.

    None where nothing is kept: then there is nothing to be read later.
    """
    if settings.database.kind == "memory":
        return None
    path = key_file(settings, data_dir)
    if not os.path.lexists(path):
        with contextlib.suppress(FileExistsError):
            write_keys(path, [new_key()], is_new=True)
    return Sealer(read_keys(path))


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def read_keys(path: Path) -> list[bytes]:
    try:
        # Neither a link nor a pipe in its place is followed.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CannotServe(f"cannot read the key file {path}: {system_words(error)}") from None
    with os.fdopen(descriptor, "rb") as file:
        _check(path, os.fstat(descriptor))
        lines = file.read(_MOST_BYTES + 1).split()
    try:
        keys = [base64.b64decode(line, validate=True) for line in lines]
    except binascii.Error:
        keys = []
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise CannotServe(
            f"the key file {path} has no keys in it (lines of base64, {KEY_BYTES} bytes each): put "
            "the right one back, or move it away to start with a new one"
        )
    return keys


def write_keys(path: Path, keys: Sequence[bytes], *, is_new: bool = False) -> None:
    """All or nothing, on the disk when this returns. FileExistsError where a new one is there."""
    content = b"".join(base64.b64encode(key) + b"\n" for key in keys)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            os.link(draft, path)
        else:
            os.replace(draft, path)
        flush_directory(path.parent)
    except FileExistsError:
        raise
    except OSError as error:
        sentence = f"cannot write the key file {path}: {system_words(error)}"
        raise CannotServe(with_disk(sentence, path.parent)) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise CannotServe(f"the key file {path} is not a file")
    if found.st_uid not in (0, os.geteuid()):
        raise CannotServe(f"the key file {path} belongs to another user: chown it to your own")
    if found.st_mode & 0o077:
        raise CannotServe(f"the key file {path} can be read by others: chmod 600 {path}")
