"""The service that nobody starts by hand: it begins with a submit and ends with `tgpu stop`."""

import json
import os
import signal
import stat

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually


def test_the_first_submit_starts_a_private_service_and_says_so(box: Box):
    run = box.tgpu("submit", "--wait", "--", "echo", "hello")
    assert (run.returncode, run.stdout) == (0, "hello\n")
    assert "started the scheduler in the background" in run.stderr
    assert "4 simulated A100" in run.stderr
    announced = json.loads((box.data_dir / "service.json").read_text())
    assert announced["url"] is None
    assert stat.S_IMODE(box.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(os.stat(announced["socket"]).st_mode) & 0o077 == 0


def test_two_submits_at_once_start_one_service(box: Box):
    runs = [box.start_process("submit", "-q", "--", "true") for _ in range(3)]
    outputs = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], outputs
    assert sorted(out.strip() for out, _ in outputs) == ["1", "2", "3"]
    assert sum("started the scheduler" in err for _, err in outputs) == 1
    assert len(box.services()) == 1


def test_bad_input_starts_no_service(box: Box):
    assert box.tgpu("submit", "--time", "30", "--", "true").returncode == 2
    assert box.services() == []
    assert not box.data_dir.exists()


def test_stop_ends_the_service_and_jobs_go_on(box: Box):
    done = box.root / "done"
    script = f"while [ ! -e {box.root}/go ]; do sleep 0.05; done; touch {done}"
    box.ok("submit", "-q", "--", "sh", "-c", script)
    eventually(lambda: "running" in box.ok("list", "--json"), "the job to run")
    assert "1 running job continues" in box.ok("stop")
    assert box.services() == []
    (box.root / "go").touch()
    eventually(done.exists, "the job to end without a service")
    box.ok("start")
    assert box.ok("wait", "last", "--timeout", "30s").startswith("job 1 completed")


def test_without_a_service_commands_say_how_to_start_one(box: Box):
    for command in (["list"], ["show", "last"], ["gpus"], ["wait", "1"], ["stop"]):
        run = box.tgpu(*command)
        assert run.returncode == 3
        assert "no scheduler is running for you" in run.stderr
    assert "tgpu start" in box.tgpu("list").stderr


def test_a_killed_service_is_found_out_and_started_again(box: Box):
    box.ok("start")
    (pid,) = box.services()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not box.services(), "the service to be gone")
    assert box.tgpu("list").returncode == 3
    assert "it crashed" in box.ok("doctor")
    assert box.ok("submit", "-q", "--", "true") == "1\n"


def test_a_service_that_cannot_start_shows_the_end_of_its_log(box: Box):
    run = box.tgpu("start", "--gpus", "sim:banana")
    assert run.returncode == 1
    assert "Its log ends with" in run.stderr
    assert "banana" in run.stderr


def test_start_twice_leaves_the_first_one_running(box: Box):
    box.ok("start")
    before = box.services()
    assert "already running" in box.ok("start")
    assert box.services() == before


def test_a_data_directory_with_a_long_path_works(box: Box):
    deep = box.root / ("long-" * 24)
    assert box.ok("submit", "--wait", "--", "echo", "hi", TGPU_DATA_DIR=str(deep)) == "hi\n"
    box.ok("stop", TGPU_DATA_DIR=str(deep))
