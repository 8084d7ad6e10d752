"""The events of one process and those who read them."""

import asyncio

import pytest

from tgpu.gateway.ring import Event, Over, Ring, RingReader, TooSlow


def events(*seqs: int) -> list[Event]:
    return [Event(seq, "job_started", b"{}") for seq in seqs]


def a_ring(floor: int, *seqs: int, max_events: int = 100) -> Ring:
    ring = Ring(max_events=max_events)
    ring.open(floor)
    ring.add(events(*seqs))
    return ring


async def taken(reader: RingReader) -> list[int]:
    found, _ = await reader.next()
    reader.taken(found)
    return [event.seq for event in found]


async def test_a_reader_gets_what_comes_after_its_position() -> None:
    ring = a_ring(4, 5, 7, 8)
    reader = RingReader(ring, 5, readings=False)
    assert await taken(reader) == [7, 8]
    waiting = asyncio.create_task(taken(reader))
    await asyncio.sleep(0)
    ring.add(events(9))
    assert await waiting == [9]


def test_what_is_there_already_is_not_added_again() -> None:
    ring = a_ring(4, 5, 6)
    ring.add(events(5, 6, 7))
    assert [event.seq for event in ring.after(0)] == [5, 6, 7]


def test_it_covers_only_what_it_knows_all_about() -> None:
    ring = a_ring(4, 6, 8)
    assert [ring.covers(after) for after in (3, 4, 5, 8, 9)] == [False, True, True, True, False]
    assert not Ring().covers(0)


async def test_a_reader_that_the_ring_has_left_behind_is_told_its_position() -> None:
    ring = a_ring(0, 1, 2, 3, max_events=3)
    reader = RingReader(ring, 0, readings=False)
    ring.add(events(4, 5))
    assert ring.floor == 2
    with pytest.raises(TooSlow) as slow:
        await reader.next()
    assert slow.value.position == 0


async def test_what_is_being_sent_counts_as_taken_only_afterwards() -> None:
    ring = a_ring(0, 1, 2)
    reader = RingReader(ring, 0, readings=False)
    await reader.next()
    assert reader.position == 0


async def test_readers_of_a_row_that_was_broken_off_must_come_again() -> None:
    ring = a_ring(0, 1)
    reader = RingReader(ring, 1, readings=False)
    ring.open(10)
    with pytest.raises(Over):
        await reader.next()


async def test_only_the_newest_reading_is_given() -> None:
    ring = a_ring(0)
    reader = RingReader(ring, 0, readings=True)
    for number in range(3):
        ring.add_reading(b"%d" % number)
    assert await reader.next() == ([], b"2")


def test_large_events_make_the_ring_shorter() -> None:
    ring = Ring(max_bytes=250)
    ring.open(0)
    for seq in range(1, 6):
        ring.add([Event(seq, "job_submitted", b"x" * 100)])
    assert [event.seq for event in ring.after(0)] == [4, 5]
    assert ring.floor == 3
