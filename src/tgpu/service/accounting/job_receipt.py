"""Reads what a job used from the journal."""

from typing import Final

from tgpu.core.accounting.receipt import JobReceipt, receipt_of
from tgpu.core.model.events import JobMoved
from tgpu.store.api import Store, StoredJob
from tgpu.store.event_codec import decode_event

_PAGE: Final = 500
_MOST: Final = 20_000  # moves of one job; one that was restarted more often is told so


async def job_receipt(store: Store, stored: StoredJob, now: int) -> JobReceipt:
    moves: list[JobMoved] = []
    after = 0
    while len(moves) < _MOST:
        rows = await store.journal(after, _PAGE, stored.job.job_id)
        for row in rows:
            event = decode_event(row.kind, row.payload)
            if isinstance(event, JobMoved):
                moves.append(event)
        if len(rows) < _PAGE:
            break
        after = rows[-1].seq
    return receipt_of(stored.job, stored.progress, moves, now)
