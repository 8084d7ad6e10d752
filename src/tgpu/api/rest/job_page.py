"""A page of jobs as JSON, made in slices: others are served while a long one is written."""

import asyncio
from dataclasses import replace
from typing import Final

from tgpu.api.rest.view import job_model
from tgpu.service.service import Service
from tgpu.store.api import JobQuery

_READ: Final = 200  # jobs that are read from the store at once
_WRITTEN: Final = 25  # … and written without a pause
# Characters after which a page ends, whatever its limit: a job may have megabytes of arguments.
_LARGEST: Final = 16 * 1024 * 1024


async def job_page(service: Service, query: JobQuery) -> bytes:
    """In the shape of JobList."""
    written: list[str] = []
    characters, cursor = 0, query.before
    while len(written) < query.limit:
        wanted = min(_READ, query.limit - len(written))
        found = await service.store.jobs(replace(query, before=cursor, limit=wanted))
        for number, stored in enumerate(found, 1):
            written.append(job_model(service, stored).model_dump_json())
            characters += len(written[-1])
            cursor = stored.number
            if characters > _LARGEST:
                return _page(written, cursor)
            if number % _WRITTEN == 0:
                await asyncio.sleep(0)
        if len(found) < wanted:
            return _page(written, None)
    return _page(written, cursor)


def _page(written: list[str], cursor: int | None) -> bytes:
    following = "null" if cursor is None else str(cursor)
    return f'{{"jobs":[{",".join(written)}],"next_cursor":{following}}}'.encode()
