"""Fetches what the screen shows and no more, however many jobs there are."""

from dataclasses import dataclass
from typing import Final, TypedDict

from tgpu.cli.render.folded import row_key
from tgpu.cli.render.job_table import in_order
from tgpu.client.errors import ClientError
from tgpu.client.http import Client
from tgpu.wire.v1 import ClusterStatus, GpuList, JobModel, WhyAnswer

PAGE: Final = 100  # rows of a page: more than any screen has, and quick to ask for
_SEARCHED: Final = 1000  # … while some are looked for among them: the most that a page may have
_LOG_BYTES: Final = 8192  # a screenful of long lines
_RUNNING: Final = ("running", "scheduled")
_WAITING: Final = ("pending", "preempted")


class _Which(TypedDict):
    array_id: str | None
    fold: bool


@dataclass(frozen=True, slots=True)
class ScreenWish:
    """What the screen is about to show."""

    cursor: int | None = None  # of the page of waiting jobs; None: the first
    chosen: str | None = None  # the job that is told of below
    stream: str = "stdout"
    array_id: str | None = None  # the elements of this array or sweep; None: all, arrays as one row
    is_search: bool = False


@dataclass(frozen=True, slots=True)
class ScreenReading:
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


def look(client: Client, wish: ScreenWish) -> ScreenReading:
    """A fixed number of requests, whatever there is. Raises ClientError."""
    which: _Which = {"array_id": wish.array_id, "fold": wish.array_id is None}
    limit = _SEARCHED if wish.is_search else PAGE
    on_gpus = client.list_jobs(limit=limit, states=_RUNNING, **which).jobs
    waiting = client.list_jobs(limit=limit, cursor=wish.cursor, states=_WAITING, **which)
    # An array that runs and waits is in both.
    running = {row_key(job): job for job in on_gpus}
    waits = [job for job in waiting.jobs if row_key(job) not in running]
    is_all = wish.cursor is None and waiting.next_cursor is None
    chosen = next((j for j in (*on_gpus, *waits) if j.job_id == wish.chosen), None)
    is_waiting = chosen is not None and chosen.state in _WAITING
    return ScreenReading(
        client.cluster_status(),
        client.gpus(),
        tuple(in_order(running.values())),
        # The service gives the newest first; who is next can be told only where all are here.
        tuple(in_order(waits) if is_all else waits),
        waiting.next_cursor,
        "" if is_waiting or wish.chosen is None else _log(client, wish.chosen, wish.stream),
        client.why(wish.chosen) if is_waiting and wish.chosen is not None else None,
    )


def _log(client: Client, job_id: str, stream: str) -> str:
    try:
        piece = client.read_log(job_id, stream, offset=-_LOG_BYTES, limit=_LOG_BYTES)
    except ClientError as error:
        if error.code == "NO_LOG":  # a lease has none, nor has what has not started
            return error.message
        raise
    text = piece.data.decode(errors="replace")
    # Where the piece does not begin with the file, its first line is torn.
    return text.partition("\n")[2] if piece.offset > 0 else text
