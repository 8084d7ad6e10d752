"""No torn state after kill -9 at any write: every write of a series of commits is tried."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.store.builders import a_job, submitted
from tests.integration.store.crash_series import FILE, series
from tgpu.store.api import JobQuery, Record, Store
from tgpu.store.event_codec import decode_details, decode_event
from tgpu.store.memory import MemoryStore
from tgpu.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def interposer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("interposer") / "kill_at_write.so"
    source = ROOT / "tests" / "fakes" / "kill_at_write.c"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", source, "-o", library, "-ldl"],
        check=True,
    )
    return library


@pytest.fixture(scope="module")
def deaths(
    interposer: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[list[int]]]:
    """The folder of all databases, and per child: the write it died at, status, commits."""
    folder = tmp_path_factory.mktemp("deaths")
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.store.crash_series", folder],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(interposer)},
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    return folder, [json.loads(line) for line in done.stdout.splitlines()]


def test_every_write_was_died_at_until_the_series_was_done(
    deaths: tuple[Path, list[list[int]]],
) -> None:
    _, lines = deaths
    *killed, (_, last_status, last_acknowledged) = lines
    assert {os.WTERMSIG(status) for _, status, _ in killed} == {signal.SIGKILL}
    assert (last_status, last_acknowledged) == (0, len(series()))
    # Deaths before the first commit, and after each of them.
    assert {acknowledged for _, _, acknowledged in killed} == set(range(len(series()) + 1))


def test_no_death_tears_the_state(deaths: tuple[Path, list[list[int]]]) -> None:
    folder, lines = deaths
    expected = asyncio.run(states_after_each_commit())
    for write, _, acknowledged in lines:
        path = folder / str(write) / FILE
        found = asyncio.run(reopened(path))
        # All that was acknowledged; the one under way wholly or not at all.
        assert found in expected[acknowledged : acknowledged + 2], f"died at write {write}"


async def states_after_each_commit() -> list[tuple]:
    store = MemoryStore()
    states = [await state_of(store)]
    for record in series():
        await store.commit(record)
        states.append(await state_of(store))
    return states


async def reopened(path: Path) -> tuple:
    """What a service finds after the crash; checked to be sound and to take more commits."""
    store = SqliteStore(path)
    state = await state_of(store)
    assert await tables_from_journal(store) == state[1:]
    await store.commit(Record([submitted(a_job("after-the-crash"))]))
    await store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return state


async def state_of(store: Store) -> tuple:
    loaded = await store.open()
    journal = await store.journal(0, 1000)
    jobs = await store.jobs(JobQuery(limit=1000))
    environments = [dict(await store.environment(each)) for each in ("e0", "e1")]
    return journal, jobs, loaded, environments


async def tables_from_journal(store: Store) -> tuple:
    """The tables that replaying the journal gives."""
    replayed = MemoryStore()
    for row in await store.journal(0, 1000):
        details = decode_details(row.payload) if row.kind == "jobs_submitted" else {}
        await replayed.commit(Record([decode_event(row.kind, row.payload)], details))
    # Environments are not in the journal: they are beside it, under the id of their content.
    environments = {each: await store.environment(each) for each in ("e0", "e1")}
    await replayed.commit(Record([], environments=environments))
    return (await state_of(replayed))[1:]
