from tests.contract.store.builders import submission
from tgpu.store.api import JobQuery
from tgpu.store.memory import MemoryStore


async def test_the_journal_keeps_the_newest_rows_only() -> None:
    store = MemoryStore(journal_rows=3)
    for number in range(5):
        await store.commit(submission(f"j{number}"))
    assert [row.seq for row in await store.journal(0, 10)] == [3, 4, 5]
    assert len(await store.jobs(JobQuery())) == 5
