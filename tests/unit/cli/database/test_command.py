"""`tgpu db`: what it prints and how it fails. What it does is tested with the stores."""

import json
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.contract.store.builders import submission
from tgpu.store import sqlite_backup
from tgpu.store.sqlite import SqliteStore
from tgpu.store.sqlite_tables import SqliteTables


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    path = tmp_path / "tgpu.db"
    store = SqliteStore(path)
    await store.open()
    await store.commit(submission("a", "b"))
    await store.close()
    return path


def test_status_shows_version_rows_and_size(tgpu, path):
    outcome = tgpu("db", "status", "--database", f"sqlite:{path}")
    assert outcome.code == 0
    assert f"SQLite at {path}" in outcome.out
    assert re.search(r"schema version  \d+\n", outcome.out)
    assert "jobs            2" in outcome.out
    assert "KiB" in outcome.out


def test_status_as_json_is_for_programs(tgpu, path):
    outcome = tgpu("db", "status", "--database", f"sqlite:{path}", "--json")
    found = json.loads(outcome.out)
    assert found["rows"]["jobs"] == 2
    assert found["schema_version"] == found["newest_version"]


def test_the_database_of_the_settings_is_the_default(tgpu, path, tmp_path):
    outcome = tgpu("db", "status", "--data-dir", str(tmp_path), "--json")
    assert json.loads(outcome.out)["rows"]["jobs"] == 2


def test_a_database_that_is_not_there_is_a_sentence(tgpu, tmp_path):
    outcome = tgpu("db", "status", "--data-dir", str(tmp_path / "empty"))
    assert outcome.code == 1
    assert "there is no database" in outcome.err


def test_an_upgrade_says_what_it_did(tgpu, tmp_path):
    address = f"sqlite:{tmp_path}/new.db"
    assert (
        f"schema version 0 → {SqliteTables.newest}"
        in tgpu("db", "upgrade", "--database", address).out
    )
    told = f"has schema version {SqliteTables.newest} already"
    assert told in tgpu("db", "upgrade", "--database", address).out


def test_a_copy_says_how_many_rows(tgpu, path, tmp_path):
    target = f"sqlite:{tmp_path}/copy.db"
    outcome = tgpu("db", "copy", "--from", f"sqlite:{path}", "--to", target)
    assert outcome.code == 0
    assert outcome.out == "copied and counted: 1 in journal, 2 in jobs\n"
    again = tgpu("db", "copy", "--from", f"sqlite:{path}", "--to", target, "--json")
    assert again.code == 1
    assert "is not empty" in json.loads(again.out)["error"]["message"]


def test_an_address_that_is_none_is_bad_input_and_not_repeated(tgpu):
    outcome = tgpu("db", "copy", "--from", "mysql://me:secret@h/db", "--to", "sqlite:x.db")
    assert outcome.code == 2
    assert "--from: must be sqlite:PATH or postgresql://" in outcome.err
    assert "secret" not in outcome.err


def test_settings_that_keep_jobs_in_memory_have_no_database(tgpu, monkeypatch):
    monkeypatch.setenv("GPU_SCHEDULER_DATABASE_KIND", "memory")
    outcome = tgpu("db", "status")
    assert outcome.code == 2
    assert "there is no database" in outcome.err


@pytest.mark.parametrize("command", ["status", "upgrade", "copy", "backup"])
def test_every_command_has_help_with_examples(tgpu, command):
    outcome = tgpu("db", command, "--help")
    assert outcome.code == 0
    assert f"tgpu db {command}" in outcome.out.partition("Examples")[2]


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o377])
def test_a_backup_is_its_owner_s_alone_from_its_first_byte(tgpu, path, tmp_path, mask, monkeypatch):
    modes = []
    copied = sqlite_backup._copy

    def looked_at(source: Path, part: Path) -> None:
        modes.append((part.stat().st_size, stat.S_IMODE(part.stat().st_mode)))
        copied(source, part)

    monkeypatch.setattr(sqlite_backup, "_copy", looked_at)
    file = tmp_path / "copy.db"
    with umask(mask):
        outcome = tgpu("db", "backup", str(file), "--database", f"sqlite:{path}")
    assert outcome.code == 0, outcome.err
    assert modes == [(0, 0o600)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "keep a copy of secret.key" in outcome.err


async def test_a_backup_is_whole_while_a_service_writes(tgpu, path, tmp_path):
    file = tmp_path / "copy.db"
    store = SqliteStore(path)
    await store.open()
    try:
        await store.commit(submission("c"))
        assert tgpu("db", "backup", str(file), "--database", f"sqlite:{path}").code == 0
    finally:
        await store.close()
    with closing(sqlite3.connect(file)) as copy:
        assert copy.execute("select count(*) from jobs").fetchone() == (3,)
    assert sorted(each.name for each in tmp_path.iterdir() if "copy" in each.name) == ["copy.db"]


def test_a_backup_replaces_nothing_unless_it_is_told_to(tgpu, path, tmp_path):
    file = tmp_path / "copy.db"
    file.write_text("mine")
    outcome = tgpu("db", "backup", str(file), "--database", f"sqlite:{path}")
    assert outcome.code == 1
    assert f"{file} exists already: name another file, or replace it with --force" in outcome.err
    assert file.read_text() == "mine"
    file.chmod(0o644)
    outcome = tgpu("db", "backup", str(file), "--database", f"sqlite:{path}", "--force", "--json")
    assert json.loads(outcome.out)["size_bytes"] == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("sqlite:/nowhere/tgpu.db", "there is no database at /nowhere/tgpu.db"),
        ("postgresql:///x", "pg_dump --format=custom"),
    ],
)
def test_what_cannot_be_backed_up_is_a_sentence(tgpu, tmp_path, address, told):
    outcome = tgpu("db", "backup", str(tmp_path / "copy.db"), "--database", address)
    assert outcome.code in (1, 2)
    assert told in outcome.err


def test_a_damaged_database_is_not_copied(tgpu, tmp_path):
    broken, file = tmp_path / "tgpu.db", tmp_path / "copy.db"
    broken.write_bytes(b"no database at all" * 1000)
    outcome = tgpu("db", "backup", str(file), "--database", f"sqlite:{broken}")
    assert outcome.code == 1
    assert "is not a database" in outcome.err
    assert list(tmp_path.iterdir()) == [broken]
