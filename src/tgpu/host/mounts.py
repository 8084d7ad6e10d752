"""What is mounted on this machine."""

from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mounts")


def kind_of(path: str, mounts: Path = MOUNTS) -> str:
    """The kind of the file system with the longest mount point above the path."""
    best, kind = "", "unknown"
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return kind
    for line in lines:
        _, point, its_kind, *_ = line.split()
        point = point.replace("\\040", " ")
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, kind = point, its_kind
    return kind
