"""`tgpu report` on a journal in a file."""

import json
import stat
import sys

import pytest

from tests.unit.report.journals import HOUR, T0, Story, a_node, in_order, nodes
from tgpu.core.model.cause import Fault
from tgpu.core.model.lifecycle import JobState
from tgpu.journal.lines import end_line, header_line, row_line
from tgpu.store import event_codec

PLOTS = {
    f"{name}.png"
    for name in ("use-by-tenant", "use-by-user", "use-by-gpu", "waits", "gantt", "failures")
}


@pytest.fixture
def journal(tmp_path):
    jobs = [
        Story("1", T0).start(T0 + HOUR).end(T0 + 2 * HOUR),
        Story("2", T0, tenant="nlp").start(T0, [1]).end(T0 + HOUR, JobState.FAILED, Fault.XID),
    ]
    events = [*nodes(a_node()), *in_order(*jobs)]
    rows = [
        row_line(seq, event_codec.kind_of(event), event_codec.event_text(event, {}).encode())
        for seq, event in enumerate(events, 1)
    ]
    file = tmp_path / "journal.ndjson"
    head = header_line(exported_at=T0 + 5 * HOUR, last_seq=len(events))
    file.write_bytes(b"".join([head, *rows, end_line(len(rows), len(rows))]))
    return file


def test_a_page_and_pictures_are_written(tgpu, journal, tmp_path):
    out = tmp_path / "report"
    outcome = tgpu("report", str(journal), "--out", str(out))
    assert outcome.code == 0
    assert outcome.out.strip() == str(out / "report.html")
    assert {file.name for file in out.iterdir()} == PLOTS | {"report.html"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in out.iterdir()} == {0o600}
    assert "GPU error (Xid)" in (out / "report.html").read_text()


def test_numbers_are_printed_for_programs_and_nothing_is_written(tgpu, journal, tmp_path):
    outcome = tgpu("report", str(journal), "--json", "--out", str(tmp_path / "none"))
    found = json.loads(outcome.out)
    assert found["gpu_hours"] == 2
    assert found["failures"] == {"xid": 1}
    assert [each["tenant_id"] for each in found["tenants"]] == ["nlp", "vision"]
    assert not (tmp_path / "none").exists()


def test_time_is_counted_back_from_when_the_file_was_written(tgpu, journal):
    found = json.loads(tgpu("report", str(journal), "--since", "4h", "--json").out)
    assert found["since"] == "2025-11-01T13:26:40+00:00"
    assert found["jobs_completed"] == 1
    assert found["jobs_submitted"] == 0


def test_without_the_library_the_page_is_written_and_the_remedy_told(
    tgpu, journal, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    outcome = tgpu("report", str(journal), "--out", str(tmp_path / "r"))
    assert outcome.code == 0
    assert "pip install 'tgpu[report]'" in outcome.err
    assert [file.name for file in (tmp_path / "r").iterdir()] == ["report.html"]


def test_a_picture_of_before_that_has_nothing_to_show_now_is_gone(tgpu, journal, tmp_path):
    tgpu("report", str(journal), "--out", str(tmp_path / "r"))
    tgpu("report", str(journal), "--out", str(tmp_path / "r"), "--since", "1h")
    assert not (tmp_path / "r" / "failures.png").exists()


def test_an_end_before_the_beginning_is_refused(tgpu, journal):
    outcome = tgpu("report", str(journal), "--since", "1h", "--until", "2h")
    assert outcome.code == 2
    assert "--since is not before --until" in outcome.err


def test_a_file_that_is_no_journal_is_named(tgpu, tmp_path):
    (tmp_path / "x").write_text("{}\n")
    outcome = tgpu("report", str(tmp_path / "x"))
    assert outcome.code == 2
    assert "header of a journal" in outcome.err


def test_prices_and_their_sign_are_options(tgpu, journal):
    found = json.loads(
        tgpu("report", str(journal), "--json", "--price", "A100=2.5", "--currency", "€").out
    )
    assert (found["cost"], found["currency"]) == (5.0, "€")
    assert [each["gpu_hours"] for each in found["top_jobs"]] == [1, 1]
    assert json.loads(tgpu("report", str(journal), "--json").out)["cost"] is None
    refused = tgpu("report", str(journal), "--price", "dear")
    assert refused.code == 2
    assert "'dear' is not a price" in refused.err
