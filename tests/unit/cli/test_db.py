"""`tgpu db`: what it prints and how it fails. What it does is tested with the stores."""

import json
from pathlib import Path

import pytest

from tests.contract.store.builders import submission
from tgpu.cli.db import size
from tgpu.store.sqlite import SqliteStore


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
    assert "schema version  3" in outcome.out
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
    assert "schema version 0 → 3" in tgpu("db", "upgrade", "--database", address).out
    assert "has schema version 3 already" in tgpu("db", "upgrade", "--database", address).out


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


@pytest.mark.parametrize("command", ["status", "upgrade", "copy"])
def test_every_command_has_help_with_examples(tgpu, command):
    outcome = tgpu("db", command, "--help")
    assert outcome.code == 0
    assert f"tgpu db {command}" in outcome.out.partition("Examples")[2]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (1 << 60, "1048576.0 TiB"),
    ],
)
def test_sizes_are_for_people(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text
