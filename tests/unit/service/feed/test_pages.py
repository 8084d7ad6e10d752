"""Pages of the journal: however many read them, each is read and decoded once, off the loop."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from tests.unit.service.feed.test_feed import World, small_world, take
from tgpu.core.model.ids import JobId, TenantId
from tgpu.service.feed import pages as pages_module
from tgpu.service.feed.feed_event import FeedEvent
from tgpu.service.feed.pages import ROWS
from tgpu.store.api import JournalRow

ALL = 5 * ROWS + 7


async def long_world(count: int = ALL) -> World:
    """All but the newest are in the journal alone."""
    world = await small_world(ring_jobs=10)
    await world.churn(count - world.last_seq)
    return world


async def read_all(world: World, **wanted: object) -> list[FeedEvent]:
    async with world.feed.subscribe(0, **wanted) as events:  # type: ignore[arg-type]
        return await take(events, world.last_seq)


async def test_many_readers_of_one_place_cost_one_decoding() -> None:
    world = await long_world()
    found = await asyncio.gather(*(read_all(world) for _ in range(40)))
    assert all([event.seq for event in each] == list(range(1, ALL + 1)) for each in found)
    assert world.feed.pages.made == ALL // ROWS  # the last few are in the ring


async def test_those_of_one_tenant_share_the_pages_too() -> None:
    world = await long_world()
    one = {TenantId("default")}
    await asyncio.gather(read_all(world), *(read_all(world, tenant_ids=one) for _ in range(10)))
    assert world.feed.pages.made == ALL // ROWS  # the last few are in the ring


async def test_nothing_is_decoded_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[threading.Thread] = set()
    decode = pages_module._decoded

    def seen(rows: Sequence[JournalRow]) -> object:
        threads.add(threading.current_thread())
        return decode(rows)

    monkeypatch.setattr(pages_module, "_decoded", seen)
    world = await long_world(3 * ROWS)
    await read_all(world)
    await world.feed.history(JobId("c1"), 0, 100)
    assert len(threads) == 1
    assert threading.current_thread() not in threads


async def test_a_reader_that_goes_away_takes_the_page_from_nobody() -> None:
    world = await long_world()
    first = asyncio.create_task(read_all(world))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.create_task(read_all(world))
    await asyncio.sleep(0)
    first.cancel()
    assert len(await second) == ALL
    assert world.feed.pages.made == ALL // ROWS  # the last few are in the ring


@pytest.mark.timeout(20)  # it would never end, nor anything else of the service
async def test_a_reader_behind_a_page_that_was_just_made_does_not_stop_the_loop() -> None:
    """The page was begun before there was more, and its task is done but not yet put away."""
    world = await long_world()
    pages = world.feed.pages
    older = await pages.page(0, ROWS // 2)
    done = asyncio.create_task(asyncio.sleep(0, older))
    await done
    pages._making[0] = done
    page = await pages.page(ROWS // 2, world.last_seq)
    assert page.read_to == ROWS
    assert len(page.events) == ROWS


async def test_little_is_kept_of_pages_that_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "_MOST_KEPT", 2 * ROWS)
    world = await long_world()
    await read_all(world)
    assert world.feed.pages._weight <= 2 * ROWS
    assert len(world.feed.pages._kept) <= 2


async def test_what_is_written_of_an_event_is_not_written_of_its_part() -> None:
    world = await small_world(ring_jobs=1)
    await world.submit("a", "b", tenant="default")
    await world.churn(5)
    (whole,) = [event for event in await read_all(world) if event.jobs]
    whole.written["text"] = "of a and b"
    async with world.feed.subscribe(0, job_id=JobId("a")) as events:
        (part,) = await take(events, 1)
    assert part.job_id == "a"
    assert not part.written
