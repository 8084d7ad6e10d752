"""What must be on the disk before anybody goes on."""

import os


def flush_directory(path: str | os.PathLike[str]) -> None:
    """That a file is there, or has another name, by now. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
