"""Reads that hang: who waits for them, who does not, and what is left for others."""

import asyncio
import threading

import pytest

from tgpu.engines.file_reads import FileReads, ReadTimedOut


async def test_the_answer_and_the_error_of_a_read_are_the_callers() -> None:
    reads = FileReads()
    assert await reads.read("7", lambda: 5) == 5
    with pytest.raises(FileNotFoundError):
        await reads.read("7", _missing)
    assert reads.stuck == 0


def _missing() -> None:
    raise FileNotFoundError


async def test_a_job_whose_files_hang_leaves_the_others_their_turn() -> None:
    reads = FileReads(threads=2, for_one_job=1, seconds=0.3)
    free = threading.Event()
    hung = [asyncio.create_task(reads.read("hangs", lambda: free.wait(30))) for _ in range(50)]
    assert (
        await asyncio.gather(*(reads.read(f"{n}", lambda: "read") for n in range(20)))
        == ["read"] * 20
    )
    ends = await asyncio.gather(*hung, return_exceptions=True)
    assert all(isinstance(end, ReadTimedOut) for end in ends)
    assert reads.stuck == 1  # of fifty callers, one thread
    with pytest.raises(ReadTimedOut, match="still hang"):
        await reads.read("hangs", lambda: "never tried")
    assert await reads.read("another", lambda: "read") == "read"
    free.set()
    async with asyncio.timeout(20):
        while reads.stuck:
            await asyncio.sleep(0.01)
    assert await reads.read("hangs", lambda: "again") == "again"


async def test_more_jobs_with_hung_files_than_there_are_threads_stop_nobody() -> None:
    reads = FileReads(threads=2, for_one_job=1, seconds=0.5)
    free = threading.Event()
    hung = [reads.read(f"hangs-{n}", lambda: free.wait(30)) for n in range(6)]
    ends = asyncio.gather(*hung, return_exceptions=True)
    await ends
    assert await reads.read("another", lambda: "read") == "read"
    free.set()


async def test_a_caller_who_goes_away_costs_the_next_one_nothing() -> None:
    reads = FileReads(threads=1, for_one_job=1, seconds=20)
    began, free = threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        free.wait(30)

    gone = asyncio.create_task(reads.read("7", slow))
    await asyncio.to_thread(began.wait, 20)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    after = asyncio.create_task(reads.read("7", lambda: "mine"))
    free.set()
    assert await after == "mine"
    assert reads.stuck == 0
