"""The origin of a process from /proc: its ancestors, its job variables, its control group.

Marks can be forged and wiped by whoever has the process; ancestors cannot. So a mark may take
rights away, and gives none.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tgpu.core.model.ids import is_job_id
from tgpu.engines.api import AttemptKey, JobMark, Traced

_PROC: Final = Path("/proc")
_MOST_ANCESTORS: Final = 512  # nobody nests so deep; /proc may change while we read
_ENVIRON_BYTES: Final = 8 << 20  # the kernel's own limit is a quarter of the stack: 2 MiB as a rule
_GROUP: Final = re.compile(r"/tgpu-job-\d+-(?P<job>[^/]+)-(?P<attempt>\d+)(?:/|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lineage:
    pids: tuple[int, ...] = ()  # the process first, then its ancestors
    marks: tuple[JobMark, ...] = ()  # of the nearest first
    group: AttemptKey | None = None  # by its control group, where a service of ours made one
    # Nothing is hidden: it lives, its ancestors are known to the first, its variables can be read.
    is_whole: bool = False


UNSEEN: Final = Lineage()


def lineage_of(pid: int, proc: Path = _PROC) -> Lineage:
    """Blocks for as long as /proc takes, a tenth of a millisecond for each ancestor."""
    pids, is_rooted = _ancestry(pid, proc)
    if not pids:
        return UNSEEN
    variables = [_environ(proc / str(each)) for each in pids]
    return Lineage(
        pids,
        tuple(mark for each in variables if each is not None and (mark := _mark(each)) is not None),
        _group(proc / str(pid)),
        is_whole=is_rooted and variables[0] is not None,
    )


def traced_by(lineage: Lineage, started: Traced, folder_of: Callable[[AttemptKey], str]) -> Traced:
    """`started` is what the ancestors say; `folder_of` tells where an attempt's logs are."""
    claimed = [mark.key for mark in lineage.marks if _is_of_ours(mark, folder_of)]
    if lineage.group is not None:
        claimed.append(lineage.group)
    return Traced(
        started.is_ours or lineage.group is not None,
        started.key,
        tuple(claimed),
        lineage.pids,
        lineage.is_whole,
    )


def _is_of_ours(mark: JobMark, folder_of: Callable[[AttemptKey], str]) -> bool:
    """The workers of a gang have folders of their own in it. Another folder is of another service
    on this machine."""
    if not is_job_id(mark.key.job_id):
        return False
    return f"{mark.log_dir}/".startswith(f"{folder_of(mark.key)}/")


def _ancestry(pid: int, proc: Path) -> tuple[tuple[int, ...], bool]:
    """And whether the last of them is the first of all."""
    found: list[int] = []
    while pid > 0 and pid not in found and len(found) < _MOST_ANCESTORS:
        parent = _parent(proc / str(pid))
        if parent is None:
            return tuple(found), False
        found.append(pid)
        pid = parent
    return tuple(found), pid == 0


def _parent(process: Path) -> int | None:
    """None where it is gone; a zombie only waits to be counted."""
    try:
        fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 2 or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[1])


def _environ(process: Path) -> dict[str, str] | None:
    try:
        with open(process / "environ", "rb") as file:
            raw = file.read(_ENVIRON_BYTES + 1)
    except OSError:  # gone, or another user's
        return None
    if len(raw) > _ENVIRON_BYTES:
        return None
    pairs = (line.partition(b"=") for line in raw.split(b"\0") if line.startswith(b"TGPU_"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _mark(variables: dict[str, str]) -> JobMark | None:
    job_id, log_dir = variables.get("TGPU_JOB_ID", ""), variables.get("TGPU_LOG_DIR", "")
    attempt = variables.get("TGPU_ATTEMPT", "")
    if not (job_id and log_dir and attempt.isascii() and attempt.isdigit() and len(attempt) < 10):
        return None
    return JobMark(AttemptKey(job_id, int(attempt)), log_dir)


def _group(process: Path) -> AttemptKey | None:
    try:
        found = _GROUP.search((process / "cgroup").read_text())
    except (OSError, ValueError):
        return None
    return None if found is None else AttemptKey(found["job"], int(found["attempt"]))
