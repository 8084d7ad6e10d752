"""Jobs in GNU screen and tmux, from submit to cancel."""

import contextlib
import json
import os
import pty
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually


@pytest.fixture
def own() -> Iterator[dict[str, str]]:
    """Sessions of a test alone; the path of a socket must be short."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"SCREENDIR": folder, "TMUX_TMPDIR": folder, "TERM": "xterm"}


@pytest.mark.parametrize("program", ["screen", "tmux"])
def test_a_job_in_a_session_from_submit_to_cancel(box: Box, own: dict[str, str], program: str):
    box.ok(
        "submit", f"--{program}", "-q", "--", "sh", "-c", "echo up; sleep 600", "--mode=x", **own
    )

    def sessions() -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(box.ok("screens", "--json", **own))["sessions"]
        return found

    eventually(sessions, "the session")
    assert [(each["job_id"], each["session"]) for each in sessions()] == [("1", "gpujob_0_x_1")]
    assert json.loads(box.ok("show", "1", "--json"))["session"] == "gpujob_0_x_1"
    eventually(lambda: "up" in box.ok("logs", "1"), "its output")
    box.ok("cancel", "1")
    box.tgpu("wait", "1")
    assert sessions() == []


@pytest.mark.parametrize("program", ["screen", "tmux"])
def test_a_service_may_run_every_job_in_a_session(box: Box, own: dict[str, str], program: str):
    box.ok("start", f"--{program}")
    run = box.tgpu("submit", "--wait", "--", "sh", "-c", "test -t 1; exit $?", **own)
    assert run.returncode == 0


@pytest.mark.parametrize(("program", "leave"), [("screen", b"\x01d"), ("tmux", b"\x02d")])
def test_somebody_goes_in_types_and_leaves(
    box: Box, own: dict[str, str], program: str, leave: bytes
):
    script = "echo ready; read word; echo got $word; sleep 600"
    box.ok("submit", f"--{program}", "-q", "--", "sh", "-c", script, **own)
    eventually(lambda: "gpujob_" in box.ok("screens", **own), "the session")
    mine, inside = pty.openpty()
    visitor = subprocess.Popen(
        box.command("attach", "last"),
        env=box.environ | own,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    os.set_blocking(mine, False)
    shown = bytearray()

    def shows(words: bytes) -> bool:
        with contextlib.suppress(BlockingIOError):
            shown.extend(os.read(mine, 65536))
        return words in shown

    eventually(lambda: shows(b"ready"), "what the job said")
    os.write(mine, b"hello\r")
    eventually(lambda: shows(b"got hello"), "the answer")
    os.write(mine, leave)
    assert visitor.wait(20) == 0
    os.close(mine)
    assert "got hello" in box.ok("logs", "1")
    assert json.loads(box.ok("show", "1", "--json"))["state"] == "running"
    box.ok("cancel", "1")
