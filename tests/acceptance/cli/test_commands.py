"""Every command against the real service."""

import json
import os
import pty
import signal
import subprocess

import pytest

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually

pytestmark = pytest.mark.usefixtures("shared_box")


def test_the_seed_s_own_command_line_works(shared_box: Box):
    out = shared_box.ok("submit", "--gpus", "2", "--priority", "5", "--", "cmd=echo 'a b'")
    assert "queued: 2 GPUs, echo 'a b'" in out
    assert shared_box.tgpu("wait", "last").returncode == 0
    assert shared_box.ok("logs", "last") == "a b\n"


def test_a_job_has_the_submitter_s_directory_and_environment(shared_box: Box):
    show = ["sh", "-c", "pwd; echo $MINE $EXTRA $CUDA_VISIBLE_DEVICES"]
    out = shared_box.ok("submit", "--wait", "--env", "EXTRA=2", "--", *show, MINE="1")
    assert out.splitlines()[0] == str(shared_box.root)
    assert out.splitlines()[1].startswith("1 2 ")


def test_no_env_leaves_the_environment_at_home(shared_box: Box):
    show = ["sh", "-c", "echo x${MINE}x"]
    assert shared_box.ok("submit", "--wait", "--no-env", "--", *show, MINE="1") == "xx\n"


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)])
def test_submit_wait_returns_the_job_s_exit_code(shared_box: Box, script, code):
    assert shared_box.tgpu("submit", "--wait", "--", "sh", "-c", script).returncode == code


def test_waiting_streams_both_outputs_to_their_places(shared_box: Box):
    run = shared_box.tgpu("submit", "--wait", "-q", "--", "sh", "-c", "echo out; echo err >&2")
    assert (run.stdout, run.stderr) == ("out\n", "err\n")


def test_following_a_log_ends_with_the_job(shared_box: Box):
    go = shared_box.root / "go-follow"
    script = f"echo first; while [ ! -e {go} ]; do sleep 0.05; done; echo last"
    job = shared_box.ok("submit", "-q", "--", "sh", "-c", script).strip()
    follow = shared_box.start_process("logs", "-f", job)
    assert follow.stdout is not None
    assert follow.stdout.readline() == "first\n"  # while the job still runs
    go.touch()
    assert follow.communicate(timeout=60)[0] == "last\n"
    assert follow.returncode == 0


def test_an_interrupted_wait_leaves_the_job_alone(shared_box: Box):
    run = shared_box.start_process("submit", "--wait", "--", "sh", "-c", "echo up; sleep 300")
    assert run.stdout is not None
    assert run.stdout.readline() == "up\n"
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "continues; cancel it with" in err
    job = json.loads(shared_box.ok("show", "last", "--json"))
    assert job["state"] == "running"
    shared_box.ok("cancel", job["job_id"])
    assert shared_box.tgpu("wait", job["job_id"]).returncode == 143


def test_wait_times_out_with_124(shared_box: Box):
    job = shared_box.ok("submit", "-q", "--hold", "--", "true").strip()
    assert shared_box.tgpu("wait", job, "--timeout", "0.2s").returncode == 124
    assert shared_box.ok("why", job).startswith(f"job {job} waits: on hold\n  next: tgpu release")
    shared_box.ok("release", job)
    assert shared_box.tgpu("wait", job).returncode == 0


def test_arrays_and_sweeps_are_one_id_to_wait_for(shared_box: Box):
    shared_box.ok("submit", "--array", "1-3%2", "--", "sh", "-c", "exit $((TGPU_ARRAY_INDEX - 1))")
    jobs = json.loads(shared_box.ok("list", "--all", "--json"))["jobs"]
    array_id = max(
        (job["array"]["array_id"] for job in jobs if job["array"]), key=lambda text: int(text)
    )
    assert shared_box.tgpu("wait", array_id).returncode == 2  # the highest
    run = shared_box.tgpu("submit", "--wait", "-q", "--param", "lr=1,2", "--", "echo", '{lr}{"a"}')
    assert run.returncode == 0
    lines = shared_box.ok("logs", "last").splitlines()  # of the whole sweep
    assert [line.partition(": ")[2] for line in lines] == ['1{"a"}', '2{"a"}']


def test_a_lease_holds_gpus_until_it_is_completed(shared_box: Box):
    held = shared_box.ok("submit", "--lease", "--gpus", "2", "--wait", "-q").strip()
    assert len(held.split(",")) == 2
    shared_box.ok("complete", "last")
    assert json.loads(shared_box.ok("show", "last", "--json"))["state"] == "completed"


def test_gpus_can_be_paused_and_resumed(shared_box: Box):
    shared_box.ok("pause-gpu", "3", "--reason", "fan is loud")
    assert "paused: fan is loud" in shared_box.ok("gpus")
    shared_box.ok("resume-gpu", "3")
    assert "fan is loud" not in shared_box.ok("gpus")


def test_the_same_id_twice_is_one_job(shared_box: Box):
    first = shared_box.ok("submit", "-q", "--id", "mine", "--", "true")
    assert shared_box.ok("submit", "-q", "--id", "mine", "--", "true") == first
    assert shared_box.tgpu("submit", "--id", "mine", "--", "false").returncode == 5


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["submit"], 2, "--lease"),
        (["submit", "--gpus", "0", "--", "x"], 2, "--gpus: "),
        (["submit", "--gpus", "99", "--", "x"], 2, "--gpus: "),
        (["submit", "--type", "H900", "--", "x"], 2, "A100"),
        (["submit", "--after", "nobody", "--", "x"], 2, "--after"),
        (["show", "nobody"], 4, "tgpu list --all"),
        (["pause-gpu", "77"], 4, "GPU"),
        (["list", "--state", "odd"], 2, "pending"),
        (["--api-url", "http://127.0.0.1:1", "list"], 3, "TGPU_URL"),
        (["list", "--api-url", "nonsense"], 2, "http://host:port"),
    ],
)
def test_bad_input_is_a_sentence_and_an_exit_code(shared_box: Box, arguments, code, says):
    run = shared_box.tgpu(*arguments)
    assert run.returncode == code
    assert run.stderr.startswith("tgpu: ")
    assert says in run.stderr


def test_output_into_a_closed_pipe_is_no_error(shared_box: Box):
    command = subprocess.list2cmdline(shared_box.command("config-sample"))
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"],
        env=shared_box.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_status_and_doctor_speak_json(shared_box: Box):
    assert json.loads(shared_box.ok("status", "--json"))["total_gpus"] == 4
    levels = {check["level"] for check in json.loads(shared_box.ok("doctor", "--json"))["checks"]}
    assert "fail" not in levels


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_list_fits_its_terminal(shared_box: Box, columns):
    shared_box.ok("submit", "--hold", "--name", "a-rather-long-name-" * 4, "--", "true")
    text = in_terminal(shared_box, columns, "list")
    assert "held" in text
    assert "\x1b[" in text  # coloured
    assert all(visible_length(line) <= columns for line in text.splitlines())
    shared_box.ok("cancel", "last")


def in_terminal(box: Box, columns: int, *arguments: str) -> str:
    master, slave = pty.openpty()
    environ = box.environ | {"COLUMNS": str(columns), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    environ.pop("NO_COLOR", None)
    command = box.command(*arguments)
    # Only the list itself is measured: hints on standard error may be longer than a line.
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, env=environ) as run:
        os.close(slave)
        text = b""
        while chunk := read_some(master):
            text += chunk
        assert run.wait(60) == 0
    os.close(master)
    return text.decode()


def read_some(master: int) -> bytes:
    try:
        return os.read(master, 65_536)
    except OSError:  # Linux says EIO once the other side is closed
        return b""


def visible_length(line: str) -> int:
    length, in_escape = 0, False
    for char in line.rstrip("\r"):
        if char == "\x1b":
            in_escape = True
        elif in_escape:
            in_escape = not char.isalpha()
        else:
            length += 1
    return length


def test_the_service_survives_all_of_this(shared_box: Box):
    eventually(lambda: len(shared_box.services()) == 1, "the one service")
