"""What is put on record beside events: documents, and rows of the audit."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.builders import a_state
from tests.unit.service.world import FailingStore, ignore
from tgpu.core.errors import Unavailable
from tgpu.service.recording.recorder import Recorder
from tgpu.service.recording.writer import Writer
from tgpu.store.api import AuditRow

ROW = AuditRow(7, "uid:1000", "DELETE /api/v1/jobs/1", "1", None, "unix", "FORBIDDEN")
DOCUMENT = ("mark", "mail")


@pytest.fixture
def store() -> FailingStore:
    return FailingStore()


@pytest.fixture
async def recorder(store: FailingStore) -> AsyncIterator[Recorder]:
    writer = Writer(a_state(), store, ignore)
    task = asyncio.create_task(writer.run())
    yield Recorder(writer)
    writer.close()
    await asyncio.wait_for(task, 5)


async def test_documents_are_stored_and_removed(recorder: Recorder, store: FailingStore) -> None:
    await recorder.put_documents({DOCUMENT: b"5"})
    assert await store.documents("mark") == {"mail": b"5"}
    await recorder.put_documents({DOCUMENT: None})
    assert await store.documents("mark") == {}


async def test_who_keeps_them_in_memory_is_told_once_they_are_on_record(
    recorder: Recorder, store: FailingStore
) -> None:
    applied: list[int] = []
    await recorder.put_documents(
        {DOCUMENT: b"5"}, touches=["mark:mail"], applied=lambda: applied.append(len(store.commits))
    )
    assert applied == [1]


async def test_what_is_not_on_record_is_not_taken_over(
    recorder: Recorder, store: FailingStore
) -> None:
    store.broken = "the disk is full"
    applied: list[int] = []
    with pytest.raises(Unavailable):
        await recorder.put_documents({DOCUMENT: b"5"}, applied=lambda: applied.append(1))
    assert applied == []


async def test_a_row_of_the_audit_is_stored(recorder: Recorder, store: FailingStore) -> None:
    await recorder.add_audit_row(ROW)
    (row,) = await store.audit()
    assert (row.actor, row.outcome) == ("uid:1000", "FORBIDDEN")
