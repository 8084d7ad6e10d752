"""Which jobs a list shows, and the line below them."""

from dataclasses import dataclass
from typing import Final

from tgpu.cli.environment import now_ms
from tgpu.cli.failures import bad_input
from tgpu.cli.live import Frame
from tgpu.cli.render.folded import row_key, row_state
from tgpu.cli.render.grid import Cell, Line, lay_out
from tgpu.cli.render.job_table import COLUMNS, counts_text, in_order, job_grid
from tgpu.cli.render.jobs import ENDED, ON_GPUS, STATES, WAITING
from tgpu.client.http import Client
from tgpu.text.plurals import plural
from tgpu.wire.v1 import JobModel

_LIVE_SHOWN: Final = 500  # more than anyone reads; --all shows the rest
_ENDED_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Filters:
    states: tuple[str, ...] = ()
    tenant_id: str | None = None
    name: str | None = None
    user: str | None = None
    array_id: str | None = None
    limit: int | None = None
    all_jobs: bool = False
    fold: bool = False  # an array or sweep is one row

    @property
    def narrows(self) -> bool:
        return bool(self.states or self.tenant_id or self.name or self.user or self.array_id)


@dataclass(frozen=True, slots=True)
class Found:
    jobs: list[JobModel]
    more: bool  # jobs that match, but are not shown


@dataclass(frozen=True, slots=True)
class TableShape:
    """How the table looks."""

    columns: tuple[str, ...] = ()  # these alone, in this order
    wide: bool = False  # all columns, none cut


def read_states(text: str | None) -> tuple[str, ...]:
    """ "pending,running" as states; Failure for one that there is not."""
    states = tuple(part.strip().lower() for part in (text or "").split(",") if part.strip())
    for state in states:
        if state not in STATES:
            raise bad_input(f"--state: there is no state {state!r}", f"use {', '.join(STATES)}")
    return states


def find_jobs(client: Client, filters: Filters) -> Found:
    """Live jobs and the newest that ended; with states, an array or --all, those alone."""
    if filters.all_jobs:
        return _find(client, filters, filters.states, filters.limit)
    if filters.states or filters.array_id:
        return _find(client, filters, filters.states, filters.limit or _LIVE_SHOWN)
    live = _live(client, filters, filters.limit or _LIVE_SHOWN)
    ended = _ended(client, filters, filters.limit or _ENDED_SHOWN, live.jobs)
    return Found([*live.jobs, *ended.jobs], live.more or ended.more)


def _live(client: Client, filters: Filters, limit: int) -> Found:
    """Those on GPUs first: in a long queue they are older than all that fits into the limit."""
    running = _find(client, filters, ON_GPUS, limit)
    waiting = _find(client, filters, WAITING, limit)
    # An array that runs and waits is found twice.
    jobs = {row_key(job): job for job in (*running.jobs, *waiting.jobs)}
    more = running.more or waiting.more or len(jobs) > limit
    return Found(list(jobs.values())[:limit], more)


def _ended(client: Client, filters: Filters, limit: int, live: list[JobModel]) -> Found:
    """The newest that are over. Some elements of an array that goes on are over too."""
    seen = {row_key(job) for job in live}
    found = _find(client, filters, ENDED, limit + sum(job.array is not None for job in live))
    over = [job for job in found.jobs if row_key(job) not in seen and row_state(job) in ENDED]
    return Found(over[:limit], found.more or len(over) > limit)


def read_columns(text: str | None) -> tuple[str, ...]:
    """ "job,name,user" as columns; Failure for one that there is not."""
    names = tuple(part.strip().lower() for part in (text or "").split(",") if part.strip())
    for name in names:
        if name not in COLUMNS:
            raise bad_input(f"--columns: there is no column {name!r}", f"use {', '.join(COLUMNS)}")
    return tuple(dict.fromkeys(names))


def list_lines(jobs: list[JobModel], width: int | None, shape: TableShape) -> list[Line]:
    grid = job_grid(in_order(jobs), now_ms(), shape.columns, wide=shape.wide)
    return lay_out(grid, None if shape.wide else width)


def list_frame(client: Client, filters: Filters, width: int | None, shape: TableShape) -> Frame:
    """For `watch`: the list, with the counts below it."""
    found = find_jobs(client, filters)
    foot = (Cell(counts_note(client, filters), "dim"),)
    more = "tgpu list --all" if found.more else "tgpu list"
    return Frame(list_lines(found.jobs, width, shape), (foot,), more, found.more)


def more_note(found: Found) -> str:
    rows = plural(len(found.jobs), "row")
    return f"{rows} shown; there are more: tgpu list --all"


def counts_note(client: Client, filters: Filters) -> str:
    """What there is altogether, whatever of it is shown."""
    told = counts_text(client.cluster_status())
    return f"in all: {told}" if filters.narrows else told


def _find(client: Client, filters: Filters, states: tuple[str, ...], limit: int | None) -> Found:
    # One more than is shown, to know whether there are more.
    jobs = list(
        client.iter_jobs(
            None if limit is None else limit + 1,
            states=states,
            tenant_id=filters.tenant_id,
            name=filters.name,
            user=filters.user,
            array_id=filters.array_id,
            fold=filters.fold,
        )
    )
    return Found(jobs if limit is None else jobs[:limit], limit is not None and len(jobs) > limit)
