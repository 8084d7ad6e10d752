"""Private files with names, commands or journals of jobs.

A file that was there keeps its mode: who has opened it to others did so on purpose.
"""

import os
from pathlib import Path


def for_the_owner(path: str, flags: int) -> int:
    """An opener for `open`. New files have mode 0600 from the first byte on, less the umask."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def write_own(path: Path, content: bytes) -> None:
    with open(path, "wb", opener=for_the_owner) as file:
        file.write(content)
