"""`tgpu screens` and `tgpu attach`."""

import json
import os
from pathlib import Path

import pytest

from gpu_scheduler.cli.screen_sessions import ScreenSession, parse_sessions

LISTING = """There are screens on:
\t4711.gpujob_0_test_7\t(11/16/26 03:03:33)\t(Detached)
\t4712.gpujob_1_run_12\t(Attached)
\t99.mine\t(11/16/26 03:03:33)\t(Detached)
\t4713.gpujob_2_run_13\t(11/16/26 03:03:33)\t(Multi, attached)
3 Sockets in /run/screen/S-me.
"""


@pytest.fixture
def screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that lists the sessions above."""
    program = tmp_path / "screen"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTING}END\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


def test_sessions_of_jobs_are_read_off_what_screen_says():
    assert parse_sessions(LISTING) == [
        ScreenSession("7", "gpujob_0_test_7", 4711, "detached"),
        ScreenSession("12", "gpujob_1_run_12", 4712, "attached"),
        ScreenSession("13", "gpujob_2_run_13", 4713, "multi, attached"),
    ]
    assert parse_sessions("No Sockets found in /run/screen/S-me.\n") == []


def test_sessions_are_listed(tgpu, screen):
    outcome = tgpu("screens")
    assert outcome.code == 0
    assert "gpujob_0_test_7" in outcome.out
    assert "mine" not in outcome.out
    found = json.loads(tgpu("screens", "--json").out)["sessions"]
    assert [session["job_id"] for session in found] == ["7", "12", "13"]


def test_without_screen_both_say_how_to_get_it(tgpu, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for arguments in (["screens"], ["attach", "7"]):
        outcome = tgpu(*arguments)
        assert outcome.code == 1
        assert "apt install screen" in outcome.err


def test_a_job_without_a_session_is_named(tgpu, screen):
    outcome = tgpu("attach", "99")
    assert outcome.code == 4
    assert "tgpu logs -f 99" in outcome.err


def test_nobody_attaches_without_a_terminal(tgpu, screen):
    assert tgpu("attach", "7").code == 2


def test_attach_becomes_screen(tgpu, screen, monkeypatch):
    became: list[list[str]] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(os, "execv", lambda _, words: became.append(words))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    tgpu("attach", "7")
    assert became == [[str(screen), "-x", "4711.gpujob_0_test_7"]]
