"""/api/v1/journal: the whole journal as a stream of lines. For admins."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.held_stream import HeldStream, streams_of
from tgpu.journal.lines import end_line, header_line, row_line
from tgpu.service.service import Service
from tgpu.store import codec
from tgpu.store.api import JournalRow

router = APIRouter(tags=["events"])

# Rows at once: little enough that reading them keeps nobody else from the store for long, even if
# each is a bulk submission of a megabyte.
_PAGE: Final = 64


class JournalLines(HeldStream):
    media_type = "application/x-ndjson"


@router.get("/api/v1/journal", response_class=JournalLines)
async def journal(
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    commands: bool = False,
) -> StreamingResponse:
    """Every recorded event after number `after`, as NDJSON: a header, one line per event, an end.

    Environment variables are never included, commands only with `commands`.
    """
    service, streams = service_of(request), streams_of(request)
    streams.check(caller_of(request))
    lines = _lines(service, after, commands, service.feed.last_seq)
    return JournalLines(lines, streams, caller_of(request))


async def _lines(
    service: Service, after: int, commands: bool, last_seq: int
) -> AsyncIterator[bytes]:
    yield header_line(
        exported_at=service.clock.now(),
        last_seq=last_seq,
        after=after,
        settings=service.settings.recorded or None,
        nodes=[codec.node_text(node) for node in service.reads.known_nodes()],
        tenants=[codec.tenant_text(tenant) for tenant in service.reads.tenants()],
    )
    seq, count = after, 0
    while seq < last_seq:
        rows = await service.store.journal(seq, min(_PAGE, last_seq - seq))
        if not rows:
            break
        # In a thread: a bulk submission is megabytes, and others want to be served meanwhile.
        yield await asyncio.to_thread(_text, rows, commands)
        seq, count = rows[-1].seq, count + len(rows)
    yield end_line(count, seq)


def _text(rows: Sequence[JournalRow], commands: bool) -> bytes:
    return b"".join(
        row_line(row.seq, row.kind, row.payload, row.decision, commands=commands) for row in rows
    )
