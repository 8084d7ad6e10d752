"""`tgpu export`, `tgpu replay` and `tgpu whatif`: tables, JSON, and bad input named."""

import asyncio
import csv
import gzip
import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.journal.story import a_file, events, jobs, lines, started
from tgpu.store.api import Record
from tgpu.store.sqlite import SqliteStore

NOW = round(datetime(2026, 11, 16, 12, 0, tzinfo=UTC).timestamp() * 1000)  # a Monday
DAY = 86_400_000


# -- replay ----------------------------------------------------------------------------------------


def test_a_replay_shows_what_started_who_waited_and_that_it_agrees(tgpu, tmp_path):
    outcome = tgpu("replay", str(a_file(tmp_path)), "--at", "8")
    assert outcome.code == 0, outcome.err
    assert "policy fifo, backfill greedy" in outcome.out
    assert "agrees with event 8" in outcome.out
    started = next(line for line in outcome.out.splitlines() if line.startswith("hers"))
    assert "n0:1" in started
    waited = next(line for line in outcome.out.splitlines() if line.startswith("mine"))
    assert "needs 2 GPUs" in waited


def test_a_replay_tells_one_job_who_passed_it_and_who_was_in_its_way(tgpu, tmp_path):
    path = str(a_file(tmp_path))
    outcome = tgpu("replay", path, "--start-of", "hers", "--job", "mine", "--json")
    found = json.loads(outcome.out)
    assert found["agrees"] is True
    assert found["job"]["passed_by"] == ["hers"]
    assert found["job"]["ahead"] == 0
    assert [one["job_id"] for one in found["job"]["blockers"]] == ["big"]
    assert found["job"]["reason"]["code"] == "gpus_busy"
    shown = tgpu("replay", path, "--start-of", "hers", "--job", "mine").out
    assert "overtaken by  hers" in shown


def test_every_time_that_others_passed_a_job_is_listed(tgpu, tmp_path):
    path = str(a_file(tmp_path))
    outcome = tgpu("replay", path, "--job", "mine")
    assert "others started 1 time" in outcome.out
    found = json.loads(tgpu("replay", path, "--job", "mine", "--json").out)
    (cycle,) = found["cycles"]
    assert (cycle["seq"], cycle["started"], cycle["passed"]) == (8, ["hers"], ["hers"])
    assert "no other job started while job big waited" in tgpu("replay", path, "--job", "big").out


def test_a_moment_without_a_cycle_shows_what_one_would_have_decided(tgpu, tmp_path):
    outcome = tgpu("replay", str(a_file(tmp_path)), "--at", "40000ms")
    assert "no cycle decided anything here" in outcome.out
    assert "nothing started" in outcome.out


def test_a_record_that_the_rules_would_not_have_made_is_called_different(tgpu, tmp_path):
    big, *_ = jobs()
    elsewhere, _ = started(big, 1000, 1)
    path = a_file(tmp_path, [*events()[:4], elsewhere])
    outcome = tgpu("replay", str(path), "--at", "5")
    assert "DIFFERS from event 5" in outcome.out
    differs = next(line for line in outcome.out.splitlines() if line.startswith("starts"))
    assert differs.split() == ["starts", "big", "n0:1", "n0:0"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "which moment?"),
        (("--at", "3", "--start-of", "x"), "both name a moment"),
        (("--at", "99"), "event 99 is not in this journal: it has 1 to 12"),
        (("--at", "0"), "event 0 is not in this journal: it has 1 to 12"),
        (("--at", "1969-12-31 12:00"), "is not in this journal: it begins 1970-01-01 "),
        (("--at", "2001-01-01 12:00"), "2001-01-01 12:00:00 is not in this journal: it ends 1970-"),
        (("--start-of", "nobody"), "job nobody never started in this journal"),
        (("--job", "nobody"), "there is no job nobody in this journal"),
        (("--at", "5", "--job", "hers"), "job hers was over then, had not been submitted"),
        (("--at", "some day"), "'some day' is not a moment"),
    ],
)
def test_a_moment_that_is_none_is_named(tgpu, tmp_path, arguments, told):
    outcome = tgpu("replay", str(a_file(tmp_path)), *arguments)
    assert outcome.code != 0
    assert told in outcome.err


@pytest.mark.parametrize("command", ["replay", "whatif"])
def test_a_file_that_is_no_journal_is_named_with_its_line(tgpu, tmp_path, command):
    moment = ("--at", "1") if command == "replay" else ("--since", "all")
    bad = tmp_path / "bad.ndjson"
    bad.write_bytes(lines()[0] + b"{}\n")
    outcome = tgpu(command, str(bad), *moment)
    assert outcome.code != 0
    assert "bad.ndjson: line 2, seq: 0 is not 1" in outcome.err
    assert "there is no file" in tgpu(command, str(tmp_path / "no"), *moment).err
    found = json.loads(tgpu(command, str(bad), *moment, "--json").out)
    assert found["error"]["details"][0]["line"] == 2


# -- export ----------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "tgpu.db"

    async def fill() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.commit(Record(events()))
        await store.close()

    asyncio.run(fill())
    return f"sqlite:{path}"


def test_the_journal_of_a_database_is_written_without_a_service(tgpu, tmp_path, database):
    target = tmp_path / "out.ndjson.gz"
    outcome = tgpu("export", "--database", database, str(target))
    assert outcome.code == 0, outcome.err
    assert "wrote 12 events" in outcome.err
    text = gzip.decompress(target.read_bytes()).splitlines()
    assert json.loads(text[0])["kind"] == "tgpu journal"
    assert [json.loads(line)["seq"] for line in text[1:-1]] == list(range(1, 13))
    assert json.loads(text[-1]) == {"end": True, "rows": 12, "last_seq": 12}
    assert "agrees with event 8" in tgpu("replay", str(target), "--at", "8").out


def test_what_is_exported_is_its_owner_s_alone(tgpu, tmp_path, database):
    file = tmp_path / "journal.ndjson"
    before = os.umask(0)
    try:
        assert tgpu("export", "--database", database, str(file)).code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_same_journal_gives_the_same_file(tgpu, tmp_path, database, monkeypatch):
    monkeypatch.setattr("tgpu.cli.environment.now_ms", lambda: NOW)
    first, second = tmp_path / "a.gz", tmp_path / "b.gz"
    for target in (first, second):
        tgpu("export", "--database", database, str(target))
    assert first.read_bytes() == second.read_bytes()


def test_jobs_are_written_in_the_columns_that_the_simulator_reads(tgpu, tmp_path, database):
    target = tmp_path / "jobs.csv"
    outcome = tgpu("export", "--database", database, "--jobs", str(target), "--json")
    assert json.loads(outcome.out)["jobs"] == 3
    rows = {row["job_id"]: row for row in csv.DictReader(target.read_text().splitlines())}
    assert (rows["mine"]["submit_s"], rows["mine"]["duration_s"]) == ("1.0", "10.0")
    assert (rows["hers"]["gpus"], rows["hers"]["start_s"]) == ("1.0", "2.0")
    outcome = tgpu("sim", "run", "--trace", str(target), "--cluster", "1x2", "--json")
    assert json.loads(outcome.out)["summary"]["finished"] == 3


def test_a_part_is_written_with_the_state_it_begins_with(tgpu, tmp_path, database):
    target = tmp_path / "part.ndjson"
    arguments = ("--since", "2500ms", "--until", "60000ms")
    outcome = tgpu("export", "--database", database, *arguments, str(target))
    assert "wrote 3 events" in outcome.err
    assert "cut off" not in outcome.err
    assert json.loads(target.read_text().splitlines()[0])["after"] == 6
    assert "agrees with event 8" in tgpu("replay", str(target), "--at", "8").out


def test_nothing_is_left_of_an_export_that_failed(tgpu, tmp_path, service):
    target = tmp_path / "out.ndjson"
    outcome = tgpu("export", "--database", f"sqlite:{tmp_path / 'none.db'}", str(target))
    assert outcome.code != 0
    assert "there is no database" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_the_journal_comes_from_the_service_where_nothing_else_is_named(tgpu, service, tmp_path):
    service.journal = b"".join(lines())
    assert "agrees with event 8" in tgpu("replay", "--at", "8").out
    outcome = tgpu("whatif", "--since", "all")
    assert "SIMULATED" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--format", "csv"), "--format goes with --jobs"),
        (("--json",), "--json reports what was written"),
        (("--since", "never"), "--since: 'never' is not a moment"),
    ],
)
def test_options_of_an_export_that_do_not_go_together_are_named(tgpu, arguments, told):
    outcome = tgpu("export", *arguments)
    assert outcome.code == 2
    assert told in outcome.err + outcome.out


# -- the simulator ---------------------------------------------------------------------------------


def test_the_simulator_reads_a_journal_and_brings_its_cluster_along(tgpu, tmp_path):
    path = str(a_file(tmp_path))
    outcome = tgpu("sim", "run", "--trace", path, "--policy", "fifo", "--backfill", "greedy")
    assert outcome.code == 0, outcome.err
    assert "journal.ndjson on its own cluster: 1 node, 2 GPUs" in outcome.out
    outcome = tgpu("sim", "run", "--trace", path, "--cluster", "2x2", "--json")
    assert json.loads(outcome.out)["summary"]["wait_s"]["max"] == 0.0


def test_other_traces_need_a_cluster(tgpu, tmp_path):
    outcome = tgpu("sim", "run", "--trace", "synthetic:5")
    assert outcome.code == 2
    assert "--cluster is missing" in outcome.err


# -- what if ---------------------------------------------------------------------------------------


def test_what_if_puts_what_was_beside_what_would_have_been(tgpu, tmp_path):
    path = str(a_file(tmp_path))
    outcome = tgpu("whatif", path, "--since", "all", "--add-node", "2xA100")
    assert outcome.code == 0, outcome.err
    assert "REALLY  SIMULATED  CHANGED  DIFFERENCE" in outcome.out
    found = json.loads(tgpu("whatif", path, "--since", "all", "--add-node", "2xA100", "--json").out)
    assert found["really"] == found["simulated"]
    assert found["really"]["wait_s"]["max"] == 59.0
    assert found["changed"]["wait_s"]["max"] == 0.0
    assert any("users would have" in note for note in found["notes"])


def test_what_if_without_a_change_shows_two_columns(tgpu, tmp_path):
    outcome = tgpu("whatif", str(a_file(tmp_path)), "--since", "all")
    assert "SIMULATED" in outcome.out
    assert "CHANGED" not in outcome.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--quota", "nobody=3"), "there was no tenant 'nobody'; there were: default"),
        (("--quota", "default"), "TENANT=GPUS"),
        (("--quota", "default.A100=many"), "TENANT=GPUS"),
        (("--add-node", "H100"), "write GPUSxTYPE or NODESxGPUSxTYPE"),
        (("--add-node", "0xH100"), "write GPUSxTYPE or NODESxGPUSxTYPE"),
        (("--remove-node", "n9"), "there was no such node; there were: n0"),
        (("--policy", "lottery"), "no scheduling policy 'lottery'"),
        (("--set", "scheduler.nonsense=1"), "scheduler.nonsense=1 cannot be set"),
        (("--set", "api.http_port=1"), "write scheduler.NAME=VALUE"),
        (("--since", "soon"), "'soon' is not a moment"),
    ],
)
def test_a_change_that_cannot_be_is_named(tgpu, tmp_path, arguments, told):
    arguments = arguments if "--since" in arguments else (*arguments, "--since", "all")
    outcome = tgpu("whatif", str(a_file(tmp_path)), *arguments)
    assert outcome.code == 2
    assert told in outcome.err


def test_a_time_without_jobs_is_said_to_be_one(tgpu, tmp_path):
    outcome = tgpu("whatif", str(a_file(tmp_path)))
    assert outcome.code == 1
    assert "there were no jobs in this period" in outcome.err
