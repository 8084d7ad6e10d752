"""Jobs in GNU screen, from submit to cancel."""

import json

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually


def test_a_job_in_a_session_from_submit_to_cancel(box: Box):
    folder = box.root / "screens"
    folder.mkdir(mode=0o700)
    own = {"SCREENDIR": str(folder)}
    box.ok("submit", "--screen", "-q", "--", "sh", "-c", "echo up; sleep 600", "--mode=x", **own)

    def sessions() -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(box.ok("screens", "--json", **own))["sessions"]
        return found

    eventually(sessions, "the session")
    assert [(each["job_id"], each["session"]) for each in sessions()] == [("1", "gpujob_0_x_1")]
    eventually(lambda: "up" in box.ok("logs", "1"), "its output")
    box.ok("cancel", "1")
    box.tgpu("wait", "1")
    assert sessions() == []


def test_a_service_may_run_every_job_in_a_session(box: Box):
    folder = box.root / "screens"
    folder.mkdir(mode=0o700)
    box.ok("start", "--screen")
    run = box.tgpu(
        "submit", "--wait", "--", "sh", "-c", "test -t 1; exit $?", SCREENDIR=str(folder)
    )
    assert run.returncode == 0
