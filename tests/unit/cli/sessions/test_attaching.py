"""`tgpu screens` and `tgpu attach`."""

import json
import os
from pathlib import Path

import pytest

from tgpu.cli.sessions.screen_sessions import JobSession, parse_sessions

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
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))  # none of whoever runs the tests
    return program


@pytest.fixture
def tmux(screen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that knows one session; the socket of another is left from before."""
    program = tmp_path / "tmux"
    answer = """[ "$2" = gpujob_3_run_8 ] || exit 1\necho '815 1'\n"""
    program.write_text(f"#!/bin/sh\n{answer}")
    program.chmod(0o755)
    folder = tmp_path / f"tmux-{os.geteuid()}"
    folder.mkdir()
    for name in ("gpujob_3_run_8", "gpujob_3_run_6", "default"):
        (folder / name).touch()
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    return program


def test_sessions_of_jobs_are_read_off_what_screen_says():
    def session(job_id: str, name: str, pid: int, state: str) -> JobSession:
        return JobSession(job_id, name, pid, state, "screen", ("screen", "-x", f"{pid}.{name}"))

    assert list(parse_sessions(LISTING, "screen")) == [
        session("7", "gpujob_0_test_7", 4711, "detached"),
        session("12", "gpujob_1_run_12", 4712, "attached"),
        session("13", "gpujob_2_run_13", 4713, "multi, attached"),
    ]
    assert list(parse_sessions("No Sockets found in /run/screen/S-me.\n", "screen")) == []


def test_sessions_are_listed(tgpu, screen):
    outcome = tgpu("screens")
    assert outcome.code == 0
    assert "gpujob_0_test_7" in outcome.out
    assert "mine" not in outcome.out
    found = json.loads(tgpu("screens", "--json").out)["sessions"]
    assert [session["job_id"] for session in found] == ["7", "12", "13"]


def test_sessions_of_screen_and_tmux_are_listed_together(tgpu, screen, tmux):
    found = json.loads(tgpu("screens", "--json").out)["sessions"]
    assert [(each["job_id"], each["program"], each["state"]) for each in found] == [
        ("7", "screen", "detached"),
        ("8", "tmux", "attached"),
        ("12", "screen", "attached"),
        ("13", "screen", "multi, attached"),
    ]


def test_without_either_program_both_say_how_to_get_it(tgpu, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for arguments in (["screens"], ["attach", "7"]):
        outcome = tgpu(*arguments)
        assert outcome.code == 1
        assert "apt install screen" in outcome.err
        assert "apt install tmux" in outcome.err


def test_a_job_without_a_session_is_named(tgpu, screen):
    outcome = tgpu("attach", "99")
    assert outcome.code == 4
    assert "tgpu logs -f 99" in outcome.err


def test_nobody_attaches_without_a_terminal(tgpu, screen):
    assert tgpu("attach", "7").code == 2


def test_attach_becomes_screen_or_tmux(tgpu, screen, tmux, monkeypatch):
    became: list[list[str]] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(os, "execve", lambda _, words, __: became.append(list(words)))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    tgpu("attach", "7")
    tgpu("attach", "8")
    assert became == [
        [str(screen), "-x", "4711.gpujob_0_test_7"],
        [str(tmux), "-L", "gpujob_3_run_8", "attach-session"],
    ]
