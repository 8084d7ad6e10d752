"""The logs of a whole array, job by job, with the job id before each line."""

from collections.abc import Iterator

from tgpu.cli.exit_codes import ExitCode
from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.output import note, show_json, write_bytes
from tgpu.cli.render.jobs import natural_key
from tgpu.client.follow import read_log
from tgpu.client.http import Client
from tgpu.wire.arrays_v1 import ArraySummary
from tgpu.wire.v1 import JobModel


def print_array_log(
    client: Client,
    array: ArraySummary,
    streams: tuple[str, ...],
    tail: int | None,
    *,
    as_json: bool,
) -> None:
    """Of those that have started; a log is read when its turn comes."""
    started = sorted(_started(client, array), key=lambda job: natural_key(job.job_id))
    if not started:
        raise Failure(
            f"no job of array {array.array_id} has started yet",
            f"`tgpu why {array.array_id}` says what it waits for",
            exit_code=ExitCode.NO_SUCH_JOB,
            code="NO_LOG",
        )
    if as_json:
        show_json([_texts(client, job, streams, tail) for job in started])
        return
    for job in started:
        for stream in streams:
            parts, _ = read_log(client, job.job_id, stream, job.attempt, tail)
            for line in b"".join(parts).splitlines(keepends=True):
                end = b"" if line.endswith(b"\n") else b"\n"
                write_bytes(stream, f"{job.job_id}: ".encode() + line + end)
    if waiting := array.total - len(started):
        note(f"{waiting:,} of {array.total:,} jobs have not started, or were never run")


def no_following(array: ArraySummary) -> Failure:
    running = array.next_waiting or (array.failed[0] if array.failed else f"{array.array_id}.1")
    return bad_input(
        f"{array.array_id} is an array of {array.total:,} jobs: the log of one job can be followed",
        f"name one, such as: tgpu logs -f {running}; `tgpu list --array {array.array_id}` has them",
    )


def _started(client: Client, array: ArraySummary) -> Iterator[JobModel]:
    for job in client.iter_jobs(array_id=array.array_id):
        if job.attempt and job.command:
            yield job


def _texts(
    client: Client, job: JobModel, streams: tuple[str, ...], tail: int | None
) -> dict[str, object]:
    found: dict[str, object] = {"job_id": job.job_id, "attempt": job.attempt}
    for stream in streams:
        parts, _ = read_log(client, job.job_id, stream, job.attempt, tail)
        found[stream] = b"".join(parts).decode(errors="replace")
    return found
