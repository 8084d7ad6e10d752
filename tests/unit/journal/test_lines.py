import gzip
from pathlib import Path

import pytest

from tests.builders import a_job, a_node, a_tenant
from tgpu.core.model.events import JobMoved, JobsSubmitted, NodeSet, SettingsSet, TenantSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import PENDING, Move
from tgpu.core.model.tenant import Tenant
from tgpu.journal.lines import (
    Journal,
    end_line,
    fit_to_leave,
    header_line,
    is_journal,
    open_journal,
    row_line,
    split_lines,
)
from tgpu.journal.rebuild import rebuild
from tgpu.simulate.problems import BadInput
from tgpu.store import codec, event_codec

HEADER = header_line(exported_at=5, last_seq=3)


def rows(*events: object) -> list[bytes]:
    return [
        row_line(seq, event_codec.kind_of(event), event_codec.event_text(event, {}).encode())  # type: ignore[arg-type]  # events
        for seq, event in enumerate(events, 1)
    ]


EVENTS = rows(
    TenantSet(1, a_tenant("default")),
    NodeSet(2, a_node("n0", gpus=2)),
    JobsSubmitted(3, (a_job("j1"),)),
)


def read(*lines: bytes) -> Journal:
    journal = Journal("j.ndjson", lines)
    for row in journal.rows():
        journal.event(row)
    return journal


def problem(*lines: bytes) -> str:
    with pytest.raises(BadInput) as caught:
        rebuild(Journal("j.ndjson", lines))
    return str(caught.value)


def test_a_journal_gives_its_events_with_their_numbers():
    journal = Journal("x", [HEADER, *EVENTS, end_line(3, 3)])
    found = [(row.seq, journal.event(row), journal.at(row)) for row in journal.rows()]
    assert [seq for seq, _, _ in found] == [1, 2, 3]
    assert [at for _, _, at in found] == [1, 2, 3]
    assert isinstance(found[2][1], JobsSubmitted)
    assert journal.is_whole


def test_a_journal_without_its_end_is_read_and_known_to_be_cut_off():
    assert not read(HEADER, *EVENTS).is_whole


def test_the_header_brings_settings_nodes_and_tenants_along():
    header = header_line(
        exported_at=7,
        last_seq=0,
        settings={"scheduler.policy": "fifo", "scheduler.aging_step": 2},
        nodes=[codec.node_text(a_node("n0", gpus=2))],
        tenants=[codec.tenant_text(a_tenant("vision"))],
    )
    found = Journal("x", [header]).header
    assert found.settings == {"scheduler.policy": "fifo", "scheduler.aging_step": 2}
    assert found.nodes == (a_node("n0", gpus=2),)
    assert [tenant.tenant_id for tenant in found.tenants] == ["vision"]
    assert found.exported_at == 7


def test_settings_on_record_survive_the_way_through_a_file():
    event = SettingsSet(4, "1.2", {"scheduler.policy": "fifo", "a.b": (1, 2.5, None), "c.d": True})
    (line,) = rows(event)
    journal = Journal("x", [HEADER, line])
    assert [journal.event(row) for row in journal.rows()] == [event]


def test_environments_never_leave_and_commands_only_when_asked():
    payload = (
        b'{"at":1,"jobs":[{"job_id":"1","detail":{"name":"n","user":"ada","argv":["x"],"cwd":"/c",'
        b'"env_id":"e","env":[["K","secret"]],"params":[["p","1"]]}}]}'
    )
    plain = fit_to_leave("jobs_submitted", payload)
    assert b'"name":"n"' in plain
    for word in (b"secret", b"env", b"argv", b"cwd", b"params"):
        assert word not in plain
    asked = fit_to_leave("jobs_submitted", payload, commands=True)
    assert b'"argv":["x"]' in asked
    assert b"secret" not in asked
    assert b"env" not in asked


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "line 1: is empty"),
        ([b"\n"], "line 1: is empty"),
        ([b"job_id,submit_s\n"], "line 1: is not a header of a journal"),
        ([b"{}\n"], "line 1: is not a header"),
        ([b"[" * 200_000], "line 1: is not a header"),
        ([b'{"kind":"a","format":1}'], "line 1, kind: is 'a'; 'tgpu journal' is right"),
        ([b'{"kind":"tgpu journal","format":9}'], "format: 9 is newer than 1"),
        ([b'{"kind":"tgpu journal","format":1,"after":-1}'], "line 1, after: -1"),
        ([header_line(exported_at=1, last_seq=9, after=4), b'{"seq":5}'], "no snapshot"),
        ([HEADER, b"\xff\xfe\n"], "line 2: is not a line of a journal"),
        ([HEADER, b"nonsense\n"], "line 2: is not a line of a journal"),
        ([HEADER, b'{"seq":"1"}\n'], "line 2: is not a line of a journal"),
        ([HEADER, EVENTS[1]], "line 2, seq: 2 is not 1: events are missing"),
        ([HEADER, EVENTS[0], EVENTS[0]], "line 3, seq: 1 is not 2"),
        ([HEADER, b'{"seq":1,"kind":"rm -rf","event":{}}'], "line 2, kind: 'rm -rf' is not a kind"),
        ([HEADER, b'{"seq":1,"kind":"job_moved","event":{}}'], "line 2, event: is not a job_moved"),
        ([HEADER, b'{"seq":1,"kind":"job_moved"}'], "line 2, event: is not a job_moved"),
        ([HEADER, EVENTS[0], end_line(1, 1), EVENTS[1]], "line 4: comes after the end"),
        ([HEADER, *rows(JobMoved(1, JobId("9"), Move.START, PENDING))], "line 2, job_moved"),
        ([HEADER, *rows(JobsSubmitted(1, (a_job("1"),)))], "line 2, jobs_submitted: does not fit"),
        ([HEADER, b'{"snapshot":{"at":1}}'], "line 2, snapshot: does not fit"),
        ([HEADER, b'{"job":[]}'], "line 2, job: does not fit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_file_is_named_with_its_line(lines, told):
    message = problem(*lines)
    assert message.startswith("j.ndjson: ")
    assert told in message


def test_a_packed_file_is_read_like_a_plain_one(tmp_path: Path):
    content = b"".join([HEADER, *EVENTS, end_line(3, 3)])
    plain, packed = tmp_path / "a.ndjson", tmp_path / "b.ndjson.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    for path in (plain, packed):
        assert is_journal(path)
        with open_journal(path) as journal:
            assert len(list(journal.rows())) == 3


def test_a_packed_file_that_was_cut_off_is_named(tmp_path: Path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"".join([HEADER, *EVENTS]))[:-12])
    with pytest.raises(BadInput, match="cannot be unpacked"), open_journal(path) as journal:
        list(journal.rows())


def test_other_files_are_no_journals(tmp_path: Path):
    for number, content in enumerate((b"", b"job_id\n1\n", b'{"kind":"x"}', b"\x1f\x8bzz")):
        path = tmp_path / str(number)
        path.write_bytes(content)
        assert not is_journal(path)


def test_lines_are_put_together_from_pieces_of_any_size():
    content = b"one\ntwo\n\nthree"
    for size in range(1, 8):
        pieces = [content[at : at + size] for at in range(0, len(content), size)]
        assert list(split_lines(pieces)) == [b"one", b"two", b"", b"three"]


def test_a_tenant_of_the_header_is_whole():
    tenant = Tenant(a_tenant("t").tenant_id, max_gpu_millis_by_type=(("A100", 4000),))
    header = header_line(exported_at=0, last_seq=0, tenants=[codec.tenant_text(tenant)])
    assert Journal("x", [header]).header.tenants == (tenant,)


def test_a_journal_from_before_the_product_had_its_name_is_read(tmp_path):
    header = HEADER.replace(b'"tgpu journal"', b'"gpu-scheduler journal"')
    assert header != HEADER
    path = tmp_path / "old.jsonl"
    path.write_bytes(header + EVENTS[0])
    assert is_journal(path)
    assert len(list(Journal("x", [header, EVENTS[0]]).rows())) == 1
