"""Reads pieces of attempts' logs."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from gpu_scheduler.api.rest.problem import Problem
from gpu_scheduler.engines.api import AttemptKey
from gpu_scheduler.service.service import Service
from gpu_scheduler.store.api import StoredJob

# Files cannot be waited for without more machinery; a tenth of a second is what people call live.
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class LogPiece:
    data: bytes
    offset: int  # of its first byte
    size: int  # of the file
    complete: bool  # nothing will be added to it


async def read_log(
    service: Service,
    stored: StoredJob,
    stream: str,
    offset: int,
    *,
    limit: int,
    attempt: int | None,
    wait: float,
) -> LogPiece:
    path, number = _path(service, stored, stream, attempt)
    deadline = asyncio.get_running_loop().time() + wait
    while True:
        # First whether it is over, then what is there: what is read then is all there is.
        complete = _is_over(service, stored, number)
        piece = await asyncio.to_thread(_read, path, offset, limit, complete)
        over_time = service.is_ending or asyncio.get_running_loop().time() >= deadline
        if piece.data or complete or over_time:
            return piece
        await asyncio.sleep(_POLL_SECONDS)


def _path(
    service: Service, stored: StoredJob, stream: str, attempt: int | None
) -> tuple[Path, int]:
    job_id = stored.job.job_id
    newest = stored.progress.attempt
    number = newest if attempt is None else attempt
    if stored.job.options.lease or service.engine is None:
        raise Problem(404, "NO_LOG", f"job {job_id} is a lease: it has no command and no log")
    if not newest:
        raise Problem(404, "NO_LOG", f"job {job_id} has not started yet; see: tgpu why {job_id}")
    if number > newest:
        raise Problem(404, "NO_LOG", f"job {job_id} has {newest} attempts, not {number}")
    directory = service.engine.log_dir(AttemptKey(job_id, number))
    if directory is None:
        raise Problem(404, "NO_LOG", f"the {service.engine.name} engine keeps no logs here")
    return Path(directory) / f"{stream}.log", number


def _is_over(service: Service, stored: StoredJob, number: int) -> bool:
    entry = service.state.entry(stored.job.job_id)
    if entry is None:
        return True
    progress = entry.progress
    return number < progress.attempt or progress.placement is None


def _read(path: Path, offset: int, limit: int, complete: bool) -> LogPiece:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            # Never behind the end: the file system refuses to go very far, and nothing is there.
            start = max(0, size + offset) if offset < 0 else min(offset, size)
            file.seek(start)
            data = file.read(limit)
    except FileNotFoundError:
        return LogPiece(b"", 0, 0, complete)
    at_end = start + len(data) >= size
    return LogPiece(data, start, size, complete and at_end)
