"""One look at the service: what the screen shows and nothing more, however many jobs there are."""

from dataclasses import dataclass
from typing import Final

from tgpu.cli.render.job_table import in_order
from tgpu.client.errors import ClientError
from tgpu.client.http import Client
from tgpu.wire.v1 import ClusterStatus, GpuList, JobModel, WhyAnswer

PAGE: Final = 100  # rows of a page: more than any screen has, and quick to ask for
_LOG_BYTES: Final = 8192  # a screenful of long lines
_RUNNING: Final = ("running", "scheduled")
_WAITING: Final = ("pending", "preempted")


@dataclass(frozen=True, slots=True)
class Wish:
    """What the screen is about to show."""

    cursor: int | None = None  # of the page of waiting jobs; None: the first
    chosen: str | None = None  # the job that is told of below
    stream: str = "stdout"


@dataclass(frozen=True, slots=True)
class Look:
    status: ClusterStatus
    gpus: GpuList
    running: tuple[JobModel, ...]
    waiting: tuple[JobModel, ...]
    next_cursor: int | None  # there are further jobs that wait
    log: str = ""  # of the chosen job, where it has one
    why: WhyAnswer | None = None  # … or why it waits

    @property
    def jobs(self) -> tuple[JobModel, ...]:
        return (*self.running, *self.waiting)


def look(client: Client, wish: Wish) -> Look:
    """A fixed number of requests, whatever there is. Raises ClientError."""
    running = client.list_jobs(states=_RUNNING, limit=PAGE).jobs
    waiting = client.list_jobs(states=_WAITING, limit=PAGE, cursor=wish.cursor)
    is_all = wish.cursor is None and waiting.next_cursor is None
    waits = any(job.job_id == wish.chosen for job in waiting.jobs)
    return Look(
        client.cluster_status(),
        client.gpus(),
        tuple(in_order(running)),
        # The service gives the newest first; who is next can be told only where all are here.
        tuple(in_order(waiting.jobs) if is_all else waiting.jobs),
        waiting.next_cursor,
        "" if waits or wish.chosen is None else _log(client, wish.chosen, wish.stream),
        client.why(wish.chosen) if waits and wish.chosen is not None else None,
    )


def _log(client: Client, job_id: str, stream: str) -> str:
    try:
        piece = client.read_log(job_id, stream, offset=-_LOG_BYTES, limit=_LOG_BYTES)
    except ClientError as error:
        if error.code == "NO_LOG":  # a lease has none
            return error.message
        raise
    text = piece.data.decode(errors="replace")
    # Where the piece does not begin with the file, its first line is torn.
    return text.partition("\n")[2] if piece.offset > 0 else text
