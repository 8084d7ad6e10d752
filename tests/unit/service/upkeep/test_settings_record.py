from tests.unit.service.world import FailingStore, a_box
from tgpu import __version__
from tgpu.core.model.events import SettingsSet
from tgpu.store.event_codec import decode_event
from tgpu.store.memory import MemoryStore

VALUES = {"scheduler.policy": "fifo", "scheduler.aging_step": 1}


async def recorded(store: MemoryStore) -> list[SettingsSet]:
    rows = await store.journal(0, 100)
    events = [decode_event(row.kind, row.payload) for row in rows if row.kind == "settings_set"]
    return [event for event in events if isinstance(event, SettingsSet)]


async def test_the_settings_are_put_on_record_at_the_first_start():
    store = MemoryStore()
    async with a_box(store=store, recorded=VALUES):
        (event,) = await recorded(store)
    assert event.values == VALUES
    assert event.version == __version__


async def test_a_start_with_the_same_settings_adds_nothing():
    store = MemoryStore()
    for _ in range(2):
        async with a_box(store=store, recorded=VALUES):
            pass
    await store.open()
    assert len(await recorded(store)) == 1


async def test_a_start_with_other_settings_is_put_on_record():
    store = MemoryStore()
    for policy in ("fifo", "fairshare"):
        async with a_box(store=store, recorded={**VALUES, "scheduler.policy": policy}):
            pass
    await store.open()
    found = [event.values["scheduler.policy"] for event in await recorded(store)]
    assert found == ["fifo", "fairshare"]


async def test_nothing_is_put_on_record_where_nobody_says_what():
    store = MemoryStore()
    async with a_box(store=store):
        assert await recorded(store) == []


async def test_a_service_that_cannot_put_its_settings_on_record_starts_all_the_same():
    store = FailingStore()
    async with a_box(store=store, recorded=VALUES):
        pass
    store.broken = "the disk is full"
    async with a_box(store=store, recorded={"scheduler.policy": "priority"}) as box:
        assert box.service.state.ledger.tenants
