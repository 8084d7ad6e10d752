"""A page of jobs as JSON, written in slices so that a long one does not block other requests."""

import asyncio
from dataclasses import replace
from typing import Final, NamedTuple

from tgpu.api.access.visible import as_seen, visible_query, waiting_reason
from tgpu.api.translate.jobs import folded_model
from tgpu.core.model.reasons import Reason
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service
from tgpu.store.api import FoldedJob, JobQuery

_READ: Final = 200  # jobs that are read from the store at once
_WRITTEN: Final = 25  # … and written without a pause
# Characters after which a page ends, whatever its limit: a job may have megabytes of arguments.
_LARGEST: Final = 16 * 1024 * 1024


class SeenRow(NamedTuple):
    row: FoldedJob
    waits: Reason | None


async def job_page(
    service: Service,
    caller: Principal,
    query: JobQuery,
    *,
    fold: bool = False,
    count: bool = False,
) -> bytes:
    """What the caller sees of it, in the shape of JobList; with `fold`, an array is one job, and
    with `count` it tells how many there are on all pages together."""
    total = await count_rows(service, caller, query, fold=fold) if count else None
    written: list[str] = []
    characters, cursor = 0, query.before
    while len(written) < query.limit:
        wanted = min(_READ, query.limit - len(written))
        some = replace(query, before=cursor, limit=wanted)
        found = await read_rows(service, caller, some, fold=fold)
        for number, (row, waits) in enumerate(found, 1):
            written.append(folded_model(service, row, waits).model_dump_json())
            characters += len(written[-1])
            cursor = row.number
            if characters > _LARGEST:
                return _page(written, cursor, total)
            if number % _WRITTEN == 0:
                await asyncio.sleep(0)
        if len(found) < wanted:
            return _page(written, None, total)
    return _page(written, cursor, total)


async def read_rows(
    service: Service, caller: Principal, query: JobQuery, *, fold: bool
) -> list[SeenRow]:
    """As the caller sees them; why they wait is found out for all of them at once."""
    query = visible_query(service, caller, query)
    if fold:
        found = await service.store.folded(query)
    else:
        found = [FoldedJob(stored.number, stored) for stored in await service.store.jobs(query)]
    service.reasons.look((row.job.job.job_id for row in found), service.clock.now())
    return [
        SeenRow(
            replace(row, job=as_seen(service, caller, row.job)),
            waiting_reason(service, caller, row.job),
        )
        for row in found
    ]


async def count_rows(service: Service, caller: Principal, query: JobQuery, *, fold: bool) -> int:
    """How many of them the caller sees, whatever the page."""
    return await service.store.count(visible_query(service, caller, query), fold=fold)


def _page(written: list[str], cursor: int | None, total: int | None) -> bytes:
    following = "null" if cursor is None else str(cursor)
    counted = "" if total is None else f',"total":{total}'
    return f'{{"jobs":[{",".join(written)}],"next_cursor":{following}{counted}}}'.encode()
