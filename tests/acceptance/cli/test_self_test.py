"""`tgpu test` on the installation that runs these tests."""

import json

from tests.acceptance.cli.conftest import Box


def test_the_self_test_passes_and_leaves_nothing_behind(box: Box):
    found = json.loads(box.ok("test", "--json", TMPDIR=str(box.root)))
    assert found["passed"] is True
    names = [check["name"] for check in found["checks"]]
    assert names == ["start", "GPUs", "job", "failure", "cancel", "restart", "many", "stop"]
    assert list(box.root.iterdir()) == []


def test_the_self_test_of_an_installation_that_cannot_work_fails(box: Box):
    folder = box.root / "bin"
    folder.mkdir()
    run = box.tgpu("test", "--quick", TMPDIR=str(box.root), PATH=str(folder))
    assert run.returncode == 1
    assert "fail job" in run.stdout
    assert "something is wrong" in run.stdout
    assert list(box.root.iterdir()) == [folder]


def test_start_takes_daemon_and_does_what_it_always_does(box: Box):
    box.ok("start", "--daemon")
    assert len(box.services()) == 1
