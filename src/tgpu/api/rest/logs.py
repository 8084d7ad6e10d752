"""Reads pieces of attempts' logs."""

import asyncio
from dataclasses import dataclass

from tgpu.api.rest.problem import Problem
from tgpu.core.errors import Unavailable
from tgpu.engines.api import AttemptKey
from tgpu.engines.attempt_files import Piece, read_piece
from tgpu.service.attempt_key import attempt_key
from tgpu.service.file_reads import ReadTimedOut
from tgpu.service.log_sizes import POLL_SECONDS
from tgpu.service.service import Service
from tgpu.store.api import StoredJob
from tgpu.wire.plurals import plural
from tgpu.wire.system_words import system_words


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
    key = _attempt(service, stored, attempt)
    name = f"{stream}.log"
    log = ("/".join(map(str, key)), name)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while True:
        # First whether it is over, then what is there: what is read then is all there is.
        complete = _is_over(service, stored, key.attempt)
        found = None if complete else service.log_sizes.known_end(log, offset, loop.time())
        if found is None:
            found = await _read(service, key, name, offset, limit)
            service.log_sizes.note(log, found, loop.time())
        at_end = found.offset + len(found.data) >= found.size
        over_time = service.is_ending or loop.time() >= deadline
        if found.data or complete or over_time:
            return LogPiece(found, complete and at_end)
        await asyncio.sleep(POLL_SECONDS)


async def _read(service: Service, key: AttemptKey, name: str, offset: int, limit: int) -> Piece:
    assert service.engine is not None
    engine, job_id = service.engine, key.job_id
    directory = engine.log_dir(key)
    if directory is None:
        raise Problem(404, "NO_LOG", f"the {engine.name} engine keeps no logs here")

    def read() -> Piece:
        # Looked for each time: while it starts, what is there may be an earlier job's.
        return read_piece(engine.find_logs(key) or "", name, offset, limit)

    try:
        return await service.log_reads.read(job_id, read)
    except ReadTimedOut as error:
        message = f"{name} of job {job_id} cannot be read now: {error}; look at {directory}"
        raise Unavailable(message, [{"job_id": job_id, "path": f"{directory}/{name}"}]) from None
    except OSError as error:
        message = (
            f"{name} of job {job_id} cannot be read: {system_words(error)}; look at {directory}"
        )
        details: list[dict[str, object]] = [{"job_id": job_id, "path": f"{directory}/{name}"}]
        raise Problem(409, "LOG_UNREADABLE", message, details) from None


def _attempt(service: Service, stored: StoredJob, attempt: int | None) -> AttemptKey:
    job_id = stored.job.job_id
    newest = stored.progress.attempt
    number = newest if attempt is None else attempt
    if stored.job.options.lease or service.engine is None:
        raise Problem(404, "NO_LOG", f"job {job_id} is a lease: it has no command and no log")
    if not newest:
        raise Problem(404, "NO_LOG", f"job {job_id} has not started yet; see: tgpu why {job_id}")
    if number > newest:
        raise Problem(404, "NO_LOG", f"job {job_id} has {plural(newest, 'attempt')}, not {number}")
    return attempt_key(stored.job, number)


def _is_over(service: Service, stored: StoredJob, number: int) -> bool:
    entry = service.state.entry(stored.job.job_id)
    if entry is None:
        return True
    progress = entry.progress
    return number < progress.attempt or progress.placement is None
