"""tgpu jobs-file: a file is checked here, the watched one is asked for."""

import json
from typing import Any

import httpx
import pytest

from tgpu.cli import connect
from tgpu.client import Client


def a_line(line: int, **fields: Any) -> dict[str, Any]:
    return {
        "line": line,
        "text": "a.py",
        "job_id": None,
        "state": None,
        "tries": 0,
        "problem": None,
        **fields,
    }


@pytest.fixture
def watched(tgpu, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "path": "/home/me/jobs.txt",
        "exists": True,
        "problem": None,
        "lines": [
            a_line(2, job_id="7", state="running", tries=1),
            a_line(3, text="", problem="priority must be 0"),
        ],
    }
    client = Client(
        "http://test", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    )
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: client)
    return answer


def test_a_file_is_checked_without_a_scheduler(tgpu, service, tmp_path):
    (tmp_path / "a.py").touch()
    file = tmp_path / "jobs.txt"
    file.write_text("1,a.py\n9,a.py\n1,b.py\n1,a.py\n")
    outcome = tgpu("jobs-file", "check", str(file))
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        f"{file}:2: priority must be 0 (high), 1 (normal) or 2 (low), not '9'",
        f"{file}:3: script: there is no file b.py",
    ]
    assert outcome.err == "2 lines can be used, 2 cannot\n"
    assert service.requests == []


def test_a_file_without_bad_lines_is_fine(tgpu, tmp_path):
    (tmp_path / "a.py").touch()
    (tmp_path / "jobs.txt").write_text("# nothing else\n1,a.py\n")
    outcome = tgpu("jobs-file", "check", str(tmp_path / "jobs.txt"), "--json")
    assert outcome.code == 0
    assert [line["line"] for line in json.loads(outcome.out)["lines"]] == [2]


def test_a_file_that_is_not_there_is_said_so(tgpu, tmp_path):
    outcome = tgpu("jobs-file", "check", str(tmp_path / "nope"))
    assert outcome.code == 1
    assert "there is no such file" in outcome.err


def test_the_watched_file_is_checked_by_default(tgpu, watched):
    outcome = tgpu("jobs-file", "check")
    assert outcome.code == 1
    assert outcome.out == "/home/me/jobs.txt:3: priority must be 0\n"


def test_a_problem_of_the_whole_file_counts(tgpu, watched):
    watched.update(lines=[], problem="permission denied")
    outcome = tgpu("jobs-file", "check")
    assert (outcome.code, outcome.out) == (1, "/home/me/jobs.txt: permission denied\n")


def test_the_lines_are_listed_with_their_jobs(tgpu, watched):
    lines = tgpu("jobs-file", "list").out.splitlines()
    assert lines[0].split() == ["LINE", "JOB", "STATE", "TRIES", "WHAT"]
    assert lines[1].split() == ["2", "7", "running", "1", "a.py"]
    assert "not used" in lines[2]
    assert lines[2].endswith("priority must be 0")


def test_a_file_that_is_not_there_yet_is_no_mistake(tgpu, watched):
    watched.update(lines=[], exists=False)
    assert tgpu("jobs-file", "list").err == "there is no /home/me/jobs.txt yet\n"


def test_without_a_watched_file_the_setting_is_named(tgpu, watched):
    watched.update(path=None, exists=False, lines=[])
    outcome = tgpu("jobs-file", "list")
    assert outcome.code == 2
    assert "files.jobs_file" in outcome.err
