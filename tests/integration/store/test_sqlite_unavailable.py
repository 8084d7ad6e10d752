"""What can be wrong with a database, what the store then says, and that it goes on afterwards."""

import os
import resource
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.store.builders import a_job, started, submission, submitted
from tgpu.core.model.ids import JobId
from tgpu.store.api import JobQuery, Record, StoreChanged, StoreUnavailable
from tgpu.store.schema import migrations
from tgpu.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "tgpu.db"


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="tgpu-test-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def ordinary_user() -> Iterator[Callable[[], None]]:
    """Permissions do not bind root: give them up for the rest of the test."""

    def become() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)

    before = os.geteuid()
    yield become
    os.seteuid(before)


async def assert_refused(path: Path, *words: str) -> None:
    store = SqliteStore(path, busy_seconds=0.05)
    with pytest.raises(StoreUnavailable) as refused:
        await store.open()
    for word in (str(path), *words):
        assert word in refused.value.message


async def make_store_with(path: Path, record: Record) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.commit(record)
    await store.close()


# -- opening -----------------------------------------------------------------------------------


async def test_the_database_is_for_its_user_only(path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(path)
        await store.open()
        await store.commit(submission("a"))
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        await store.close()
    finally:
        os.umask(before)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert modes == dict.fromkeys(("tgpu.db", "tgpu.db-wal", "tgpu.db-shm", "tgpu.db.lock"), 0o600)


async def test_commits_are_flushed_to_the_disk(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    assert store._writer is not None
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.close()


async def test_a_path_that_is_a_directory_is_refused(tmp_path: Path) -> None:
    await assert_refused(tmp_path, "is a directory")


async def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    await assert_refused(tmp_path / "file" / "tgpu.db", "cannot be made", "another data directory")


async def test_a_directory_that_may_not_be_written_is_refused(
    shared_folder: Path, ordinary_user: Callable[[], None]
) -> None:
    shared_folder.chmod(0o555)
    ordinary_user()
    await assert_refused(
        shared_folder / "tgpu.db", "permission denied: check its owner and mode", "check the owner"
    )


async def test_a_directory_that_may_not_be_read_is_refused(
    shared_folder: Path, ordinary_user: Callable[[], None]
) -> None:
    shared_folder.chmod(0o000)
    ordinary_user()
    await assert_refused(
        shared_folder / "data" / "tgpu.db",
        "permission denied: check its owner and mode",
        "check the owner",
    )


async def test_a_file_that_may_not_be_written_is_refused(
    shared_folder: Path, ordinary_user: Callable[[], None]
) -> None:
    path = shared_folder / "tgpu.db"
    await make_store_with(path, submission("a"))
    shared_folder.chmod(0o777)
    path.chmod(0o444)
    ordinary_user()
    await assert_refused(path, "permission denied: check its owner and mode", "check the owner")


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("dear diary, " * 1000)
    await assert_refused(path, "is not a database", "choose another")
    assert path.read_text().startswith("dear diary")


async def test_a_database_of_another_program_is_refused(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()
    await assert_refused(path, "another program", "choose another")


async def test_a_damaged_database_is_refused(path: Path) -> None:
    await make_store_with(path, submission(*(f"j{n}" for n in range(3000))))
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    await assert_refused(path, "is damaged", "backup")


async def test_a_newer_schema_is_refused_with_both_versions(path: Path) -> None:
    await make_store_with(path, submission("a"))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    connection.close()
    await assert_refused(
        path, "version 99", f"up to {migrations()[-1].version}", "install the newer tgpu"
    )


async def test_a_database_locked_by_a_shell_is_refused(path: Path) -> None:
    await make_store_with(path, submission("a"))
    shell = sqlite3.connect(path)
    shell.execute("PRAGMA locking_mode = EXCLUSIVE")
    shell.execute("BEGIN EXCLUSIVE")
    await assert_refused(path, "is locked by another program")
    shell.close()


async def test_a_second_service_on_the_same_database_is_refused(path: Path) -> None:
    first = SqliteStore(path)
    await first.open()
    await assert_refused(path, "in use by another service", f"process {os.getpid()}")
    await first.commit(submission("a"))
    await first.close()


async def test_the_lock_ends_with_the_store(path: Path) -> None:
    await make_store_with(path, submission("a"))
    await make_store_with(path, submission("b"))


async def test_a_refused_store_can_be_opened_once_the_cause_is_gone(path: Path) -> None:
    first, second = SqliteStore(path), SqliteStore(path)
    await first.open()
    with pytest.raises(StoreUnavailable):
        await second.open()
    await first.close()
    await second.open()
    await second.commit(submission("a"))
    await second.close()


async def test_a_store_that_is_not_open_says_so(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match="is not open"):
        await store.commit(submission("a"))
    await store.close()


# -- commits that fail -------------------------------------------------------------------------


async def test_a_commit_against_a_lock_fails_and_a_later_one_does_not(path: Path) -> None:
    store = SqliteStore(path, busy_seconds=0.05)
    await store.open()
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="is locked by another program"):
        await store.commit(submission("a"))
    shell.execute("ROLLBACK")
    assert await store.commit(submission("a")) == 1
    shell.close()
    await store.close()


async def test_a_value_that_cannot_be_stored_leaves_nothing_behind(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    with pytest.raises(OverflowError):
        await store.commit(Record([submitted(a_job("a"), a_job("b", at=2**70))]))
    with pytest.raises(UnicodeEncodeError):
        await store.commit(Record([], environments={"e": {"A": "\udc80"}}))
    assert await store.jobs(JobQuery()) == []
    assert await store.journal(0, 10) == []
    assert await store.commit(submission("a")) == 1
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MiB where we may mount one, else a limit on the size of files."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tgpu-test", str(folder)]
    if (
        os.geteuid() == 0
        and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    ):
        yield folder
        subprocess.run(["umount", folder], check=True)
    else:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        yield folder
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_on_a_full_disk_commits_fail_whole_and_go_on_when_there_is_room(
    small_disk: Path,
) -> None:
    path = small_disk / "tgpu.db"
    store = SqliteStore(path)
    await store.open()
    await store.commit(submission("first"))
    with pytest.raises(StoreUnavailable) as refused:
        await store.commit(submission(*(f"bulk-{n}" for n in range(20_000))))
    assert str(path) in refused.value.message
    assert "disk" in refused.value.message
    # Nothing of it is there, what was there can be read, and what fits is still taken.
    assert [each.job.job_id for each in await store.jobs(JobQuery())] == ["first"]
    assert len(await store.journal(0, 100)) == 1
    assert await store.commit(Record([started("first")])) == 2
    await store.close()
    loaded = await store.open()
    assert [(job.job_id, progress.attempt) for job, progress in loaded.live] == [("first", 1)]
    assert loaded.last_number == 1
    await store.close()


async def test_a_disk_that_stays_full_does_not_lose_what_was_acknowledged(
    small_disk: Path,
) -> None:
    store = SqliteStore(small_disk / "tgpu.db")
    await store.open()
    acknowledged: list[str] = []

    async def fill() -> None:
        for number in range(100_000):
            job_ids = [f"{number}-{n}" for n in range(50)]
            await store.commit(submission(*job_ids))
            acknowledged.extend(job_ids)

    with pytest.raises(StoreUnavailable):
        await fill()
    await store.close()
    loaded = await store.open()
    assert [job.job_id for job, _ in loaded.live] == acknowledged
    assert acknowledged
    assert await store.known([JobId(acknowledged[-1])])
    await store.close()


# -- the file is not there any more ------------------------------------------------------------


async def test_a_database_that_was_removed_takes_nothing_more(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.commit(submission("1"))
    shutil.rmtree(path.parent)
    with pytest.raises(StoreChanged, match="was removed while it was in use"):
        await store.commit(submission("2"))
    with pytest.raises(StoreChanged):  # also where nothing is asked of it
        await store.ping()
    await store.close()


async def test_a_database_that_was_replaced_takes_nothing_more(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.commit(submission("1"))
    path.rename(path.with_name("aside.db"))
    path.touch()
    with pytest.raises(StoreChanged, match="was replaced by another file"):
        await store.commit(submission("2"))
    await store.close()


async def test_a_directory_that_was_moved_is_no_proof_of_anything(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    path.parent.rename(path.parent.with_name("moved"))
    await store.commit(submission("1"))
    await store.ping()
    await store.close()
    moved = SqliteStore(path.parent.with_name("moved") / path.name)
    assert [job.job_id for job, _ in (await moved.open()).live] == ["1"]
    await moved.close()
