"""Which jobs a list shows, and the list as lines."""

from dataclasses import dataclass
from typing import Final

from tgpu.cli.environment import now_ms
from tgpu.cli.failures import bad_input
from tgpu.cli.render.grid import Line, lay_out
from tgpu.cli.render.jobs import ENDED, ON_GPUS, STATES, WAITING, in_order, job_grid
from tgpu.client.http import Client
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

    @property
    def narrows(self) -> bool:
        return bool(self.states or self.tenant_id or self.name or self.user or self.array_id)


@dataclass(frozen=True, slots=True)
class Found:
    jobs: list[JobModel]
    more: bool  # jobs that match, but are not shown


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
    ended = _find(client, filters, ENDED, filters.limit or _ENDED_SHOWN)
    return Found([*live.jobs, *ended.jobs], live.more or ended.more)


def _live(client: Client, filters: Filters, limit: int) -> Found:
    """Those on GPUs first: in a long queue they are older than all that fits into the limit."""
    running = _find(client, filters, ON_GPUS, limit)
    waiting = _find(client, filters, WAITING, limit - len(running.jobs))
    return Found([*running.jobs, *waiting.jobs], running.more or waiting.more)


def list_lines(jobs: list[JobModel], width: int | None) -> list[Line]:
    return lay_out(job_grid(in_order(jobs), now_ms()), width)


def more_note(found: Found) -> str:
    return f"{len(found.jobs)} jobs shown; there are more: tgpu list --all"


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
        )
    )
    return Found(jobs if limit is None else jobs[:limit], limit is not None and len(jobs) > limit)
