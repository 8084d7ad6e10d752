"""Receipts are kept across restarts, completed at the end, and the oldest are dropped."""

from typing import Any

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.plan import PreemptionCause
from tgpu.service.accounting.receipts import Receipt, Receipts
from tgpu.service.identity.ownership import Sight
from tgpu.store.api import Record
from tgpu.store.memory import MemoryStore


def a_receipt(job_id: str, asked_at: int = 5, tenant: str = "vision", **fields: Any) -> Receipt:
    facts: dict[str, Any] = {
        "attempt": 1,
        "user": "ada",
        "gpu_millis": 2000,
        "to": "other",
        "to_tenant_id": TenantId("speech"),
        "cause": PreemptionCause.PRIORITY,
        "reason": "preempted",
        "lost_gpu_millis_ms": 70,
    }
    return Receipt(JobId(job_id), tenant_id=TenantId(tenant), asked_at=asked_at, **facts | fields)


async def recorded(receipts: Receipts, store: MemoryStore, *new: Receipt) -> None:
    await store.commit(Record([], documents=receipts.documents(new)))
    receipts.keep(new)


async def reopened(store: MemoryStore) -> list[Receipt]:
    receipts = Receipts(store)
    await receipts.open()
    return receipts.newest(100)


async def test_the_newest_come_first_also_after_a_restart() -> None:
    store = MemoryStore()
    receipts = Receipts(store)
    await recorded(receipts, store, a_receipt("z", 1), a_receipt("b", 2))
    await recorded(receipts, store, a_receipt("c", 3))
    assert [r.job_id for r in receipts.newest(2)] == ["c", "b"]
    assert await reopened(store) == receipts.newest(100)


async def test_at_the_end_it_says_when_and_what_it_cost() -> None:
    store = MemoryStore()
    receipts = Receipts(store)
    await recorded(receipts, store, a_receipt("a"), a_receipt("b"))
    gone = receipts.gone(JobId("a"), 1, 9, 123)
    assert gone is not None
    await recorded(receipts, store, gone)
    first = await reopened(store)
    assert [(r.job_id, r.gone_at, r.lost_gpu_millis_ms) for r in first] == [
        ("b", None, 70),
        ("a", 9, 123),
    ]


def test_an_attempt_that_nobody_asked_has_none() -> None:
    assert Receipts(MemoryStore()).gone(JobId("a"), 1, 9, 123) is None


async def test_the_oldest_are_dropped_from_memory_and_store() -> None:
    store = MemoryStore()
    receipts = Receipts(store, kept=2)
    for number in range(4):
        await recorded(receipts, store, a_receipt(f"j{number}", number))
    assert [r.job_id for r in receipts.newest(100)] == ["j3", "j2"]
    assert [r.job_id for r in await reopened(store)] == ["j3", "j2"]


async def test_completing_one_drops_none() -> None:
    store = MemoryStore()
    receipts = Receipts(store, kept=2)
    await recorded(receipts, store, a_receipt("a", 1), a_receipt("b", 2))
    gone = receipts.gone(JobId("b"), 1, 9, 123)
    assert gone is not None
    await recorded(receipts, store, gone)
    assert [r.job_id for r in await reopened(store)] == ["b", "a"]


def test_a_tenant_is_shown_its_own_jobs() -> None:
    receipts = Receipts(MemoryStore())
    receipts.keep([a_receipt("a"), a_receipt("b", tenant="speech")])
    assert [
        r.job_id for r in receipts.newest(100, Sight(frozenset({TenantId("vision")})).sees)
    ] == ["a"]
    assert receipts.newest(100, Sight(frozenset()).sees) == []
