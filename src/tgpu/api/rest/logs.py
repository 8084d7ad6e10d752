"""Reads pieces of attempts' logs."""

import asyncio
from dataclasses import dataclass

from tgpu.api.rest.problem import ApiProblem
from tgpu.core.errors import Unavailable
from tgpu.engines.api import AttemptKey, EngineUnavailable, LogUnreadable, NoLog
from tgpu.engines.log_piece import Piece
from tgpu.service.attempt_key import attempt_key
from tgpu.service.execution.log_sizes import POLL_SECONDS
from tgpu.service.service import Service
from tgpu.store.api import StoredJob
from tgpu.text.plurals import plural


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
    log = ("/".join(map(str, key)), stream)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while True:
        # First whether it is over, then what is there: what is read then is all there is.
        complete = _is_over(service, stored, key.attempt)
        found = None if complete else service.log_sizes.known_end(log, offset, loop.time())
        if found is None:
            found = await _read(service, key, stream, offset, limit)
            service.log_sizes.note(log, found, loop.time())
        at_end = found.offset + len(found.data) >= found.size
        over_time = service.is_ending or loop.time() >= deadline
        if found.data or complete or over_time:
            return LogPiece(found, complete and at_end)
        await asyncio.sleep(POLL_SECONDS)


async def _read(service: Service, key: AttemptKey, stream: str, offset: int, limit: int) -> Piece:
    assert service.engine is not None
    try:
        return await service.engine.read_log(key, stream, offset, limit)
    except NoLog as error:
        raise ApiProblem(404, "NO_LOG", str(error)) from None
    except LogUnreadable as error:
        raise _unreadable(key, error, service.engine.log_dir(key)) from None
    except EngineUnavailable as error:
        message = f"the log of job {key.job_id} cannot be read now: {error}"
        raise Unavailable(message, [{"job_id": key.job_id}]) from None


def _unreadable(key: AttemptKey, error: LogUnreadable, folder: str | None) -> Exception:
    details: list[dict[str, object]] = [{"job_id": key.job_id}]
    look = ""
    if folder is not None:
        details[0]["path"] = f"{folder}/{error.name}"
        look = f"; look at {folder}"
    now = " now" if error.is_for_now else ""
    message = f"{error.name} of job {key.job_id} cannot be read{now}: {error}{look}"
    if error.is_for_now:
        return Unavailable(message, details)
    return ApiProblem(409, "LOG_UNREADABLE", message, details)


def _attempt(service: Service, stored: StoredJob, attempt: int | None) -> AttemptKey:
    job_id = stored.job.job_id
    newest = stored.progress.attempt
    number = newest if attempt is None else attempt
    if stored.job.options.lease or service.engine is None:
        raise ApiProblem(404, "NO_LOG", f"job {job_id} is a lease: it has no command and no log")
    if not newest:
        raise ApiProblem(404, "NO_LOG", f"job {job_id} has not started yet; see: tgpu why {job_id}")
    if number > newest:
        raise ApiProblem(
            404, "NO_LOG", f"job {job_id} has {plural(newest, 'attempt')}, not {number}"
        )
    return attempt_key(stored.job, number)


def _is_over(service: Service, stored: StoredJob, number: int) -> bool:
    live = service.reads.job(stored.job.job_id)
    if live is None:
        return True
    progress = live.progress
    return number < progress.attempt or progress.placement is None
