"""What `logs` and `wait` do once they are connected."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tgpu.cli.exit_codes import ExitCode, exit_code_of_job
from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.jobs.arrays import array_of
from tgpu.cli.output import note, say, show_json, write_bytes
from tgpu.cli.render.arrays import array_line
from tgpu.cli.render.jobs import ended_line, shown_state, waiting_line
from tgpu.client.errors import ClientError
from tgpu.client.follow import (
    ENDED,
    TimedOut,
    follow_attempt,
    follow_job,
    read_log,
    wait_until_over,
    wait_until_started,
)
from tgpu.client.http import Client
from tgpu.wire.arrays_v1 import ArraySummary
from tgpu.wire.v1 import JobModel


@dataclass(frozen=True, slots=True)
class WantedLog:
    """Which log."""

    job_id: str
    streams: tuple[str, ...]
    tail: int | None
    attempt: int | None


def print_log(client: Client, wanted: WantedLog, as_json: bool) -> None:
    job = client.get_job(wanted.job_id)
    attempt = _attempt(job, wanted)
    texts: dict[str, object] = {}
    for stream in wanted.streams:
        parts, _ = read_log(client, job.job_id, stream, attempt, wanted.tail)
        if as_json:
            texts[stream] = b"".join(parts).decode(errors="replace")
        else:
            for part in parts:
                write_bytes(stream, part)
    if as_json:
        left_out = {name: _left_out(client, job.job_id, name, attempt) for name in wanted.streams}
        show_json({"job_id": job.job_id, "attempt": attempt, **texts, "left_out_bytes": left_out})


def _left_out(client: Client, job_id: str, stream: str, attempt: int) -> int:
    return client.read_log(job_id, stream, offset=-1, limit=1, attempt=attempt).left_out


def follow_log(client: Client, wanted: WantedLog) -> None:
    """From the newest attempt (or the one named) to the end of the job (or of that attempt)."""
    job = client.get_job(wanted.job_id)
    if not job.command:
        raise _no_log(job)
    if not job.attempt and job.state not in ENDED:
        note(waiting_line(job))
        job = wait_until_started(client, job.job_id)
    attempt = _attempt(job, wanted)
    offsets = {name: _print_tail(client, job, name, attempt, wanted) for name in wanted.streams}
    follow_attempt(
        client, job.job_id, write_bytes, wanted.streams, attempt=attempt, offsets=offsets
    )
    if wanted.attempt is None:
        follow_job(client, job.job_id, write_bytes, wanted.streams, seen=attempt)


def wait_for(
    client: Client, ids: Sequence[str], seconds: float | None, *, quiet: bool, as_json: bool
) -> int:
    deadline = None if seconds is None else time.monotonic() + seconds
    found = [_wait(client, job_id, deadline) for job_id in ids]
    if as_json:
        show_json(found)
    elif not quiet:
        for each in found:
            _say_how_it_ended(each)
    codes = [_exit_code(each) for each in found]
    if None in codes:
        return ExitCode.TIMED_OUT
    return next((code for code in codes if code), ExitCode.OK)


def _wait(client: Client, job_id: str, deadline: float | None) -> JobModel | ArraySummary:
    try:
        return wait_until_over(client, job_id, deadline)
    except TimedOut as error:
        return error.job
    except ClientError as error:
        array = array_of(client, job_id, error)
        if array is None:
            raise
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return client.wait_array(array.array_id, left)


def _say_how_it_ended(each: JobModel | ArraySummary) -> None:
    if isinstance(each, ArraySummary):
        if each.is_over:
            say(array_line(each))
        else:
            note(f"{array_line(each)}; not all of it has ended")
    elif each.state in ENDED:
        say(ended_line(each))
    else:
        note(f"job {each.job_id} is still {shown_state(each)}")


def _exit_code(each: JobModel | ArraySummary) -> int | None:
    """None where it is not over."""
    if isinstance(each, ArraySummary):
        return each.exit_code if each.is_over else None
    if each.state not in ENDED:
        return None
    return exit_code_of_job(each.state, each.exit_code, each.signal)


def _print_tail(client: Client, job: JobModel, stream: str, attempt: int, wanted: WantedLog) -> int:
    if wanted.tail is None:
        return 0
    parts, end = read_log(client, job.job_id, stream, attempt, wanted.tail)
    for part in parts:
        write_bytes(stream, part)
    return end


def _attempt(job: JobModel, wanted: WantedLog) -> int:
    if not job.command or not job.attempt:
        raise _no_log(job)
    if wanted.attempt is not None and wanted.attempt > job.attempt:
        raise bad_input(
            f"--attempt: job {job.job_id} has had {job.attempt} so far",
            "leave it out for the newest",
        )
    return wanted.attempt or job.attempt


def _no_log(job: JobModel) -> Failure:
    if not job.command:
        problem, remedy = "is a lease, which has no log", ""
    elif job.state in ENDED:
        problem, remedy = f"was {job.state} before it started, so it has no log", ""
    else:
        why = f": {job.reason.message}" if job.reason is not None else ""
        problem, remedy = (
            f"has not started yet{why}",
            f"wait for it with: tgpu logs -f {job.job_id}",
        )
    return Failure(
        f"job {job.job_id} {problem}", remedy, exit_code=ExitCode.NO_SUCH_JOB, code="NO_LOG"
    )
