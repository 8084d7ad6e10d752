"""When jobs start, as a user sees it: before and after submitting, and over a restart."""

import json

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually


def test_waiting_jobs_are_told_when_they_start_and_a_restart_keeps_what_was_told(box: Box) -> None:
    box.ok("submit", "-q", "--gpus", "4", "--time", "1h", "--", "sleep", "600")
    eventually(lambda: "running" in box.ok("list"), "the job to run")
    asked = box.ok("submit", "--gpus", "4", "--when", "--", "true")
    assert "it would start in about" in asked
    assert len(json.loads(box.ok("list", "--all", "--json"))["jobs"]) == 1
    box.ok("submit", "-q", "--gpus", "4", "--", "true")

    def estimate() -> object:
        return json.loads(box.ok("show", "last", "--json")).get("estimate")

    eventually(lambda: estimate() is not None, "an estimate")
    assert "STARTS IN" in box.ok("list")
    assert "starts " in box.ok("why", "last")
    announced = json.loads(box.ok("receipt", "last", "--json"))["announced"]
    assert announced is not None
    box.ok("stop")
    box.ok("start")
    assert json.loads(box.ok("receipt", "last", "--json"))["announced"] == announced
    box.ok("cancel", "1")
    assert box.tgpu("wait", "last").returncode == 0
    told = json.loads(box.ok("accuracy", "--json"))["total"]
    assert (told["jobs"], told["before_p90"]) == (1, 1.0)
    assert "within the estimate" in box.ok("receipt", "last")
