"""The files of this repository, as the tests about it see them."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = {  # by hatch_build.py
    "src/tgpu/client/http.py",
    "src/tgpu/wire/scheduler_pb2.py",
    "src/tgpu/wire/scheduler_pb2.pyi",
    "src/tgpu/wire/scheduler_pb2_grpc.py",
}


@cache
def tracked_files() -> tuple[Path, ...]:
    """What is committed or would be; the names git ignores are not there."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:  # an unpacked archive, or no git
        names = [path for path in ROOT.rglob("*") if not _is_made_here(path)]
        return tuple(sorted(path for path in names if path.is_file()))
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return tuple(sorted(path for path in paths if path.is_file()))


@cache
def texts() -> dict[Path, str]:
    """The text files, with their content."""
    found = {}
    for path in tracked_files():
        try:
            found[path] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def pages() -> dict[Path, str]:
    """The documents people read."""
    return {path: text for path, text in texts().items() if path.suffix == ".md"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _is_made_here(path: Path) -> bool:
    return name_of(path) in GENERATED or any(
        part in (".venv", "__pycache__", "build", "dist") or part.endswith("_cache")
        for part in path.relative_to(ROOT).parts
    )
