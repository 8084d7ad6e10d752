"""Reads pieces of attempts' logs."""

import asyncio
from dataclasses import dataclass

from gpu_scheduler.api.rest.problem import Problem
from gpu_scheduler.core.errors import Unavailable
from gpu_scheduler.engines.api import AttemptKey
from gpu_scheduler.engines.attempt_files import Piece, read_piece
from gpu_scheduler.service.file_reads import FileReads, ReadTimedOut
from gpu_scheduler.service.log_sizes import POLL_SECONDS
from gpu_scheduler.service.service import Service
from gpu_scheduler.store.api import StoredJob


@dataclass(frozen=True, slots=True)
class LogPiece:
    piece: Piece
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
    directory, number = _place(service, stored, attempt)
    name = f"{stream}.log"
    log = (directory, name)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while True:
        # First whether it is over, then what is there: what is read then is all there is.
        complete = _is_over(service, stored, number)
        found = None if complete else service.log_sizes.known_end(log, offset, loop.time())
        if found is None:
            job_id = stored.job.job_id
            found = await _read(service.log_reads, job_id, log, offset, limit)
            service.log_sizes.note(log, found, loop.time())
        at_end = found.offset + len(found.data) >= found.size
        over_time = service.is_ending or loop.time() >= deadline
        if found.data or complete or over_time:
            return LogPiece(found, complete and at_end)
        await asyncio.sleep(POLL_SECONDS)


async def _read(
    reads: FileReads, job_id: str, log: tuple[str, str], offset: int, limit: int
) -> Piece:
    directory, name = log
    try:
        return await reads.read(job_id, lambda: read_piece(directory, name, offset, limit))
    except ReadTimedOut as error:
        message = f"{name} of job {job_id} cannot be read now: {error}; look at {directory}"
        raise Unavailable(message, [{"job_id": job_id, "path": f"{directory}/{name}"}]) from None
    except OSError as error:
        message = f"{name} of job {job_id} cannot be read: {error.strerror}; look at {directory}"
        details: list[dict[str, object]] = [{"job_id": job_id, "path": f"{directory}/{name}"}]
        raise Problem(409, "LOG_UNREADABLE", message, details) from None


def _place(service: Service, stored: StoredJob, attempt: int | None) -> tuple[str, int]:
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
    return directory, number


def _is_over(service: Service, stored: StoredJob, number: int) -> bool:
    entry = service.state.entry(stored.job.job_id)
    if entry is None:
        return True
    progress = entry.progress
    return number < progress.attempt or progress.placement is None
