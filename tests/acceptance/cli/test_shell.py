"""`tgpu shell`: into the surroundings of a running job, and nowhere else."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually, living, read_proc

_SECRET = "s3cr3t-of-the-job"
_SAY = "echo $TGPU_JOB_ID:$CUDA_VISIBLE_DEVICES:$TOKEN:$VIRTUAL_ENV; pwd"


def running(box: Box, job: str = "last") -> dict[str, object]:
    def is_running() -> bool:
        return bool(json.loads(box.ok("show", job, "--json"))["state"] == "running")

    eventually(is_running, "the job to run")
    found: dict[str, object] = json.loads(box.ok("show", job, "--json"))
    return found


def test_a_command_sees_what_the_job_sees(box: Box) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", box.root / "v"], check=True)
    box.ok("submit", "-q", "--gpus", "2", "--venv", "v", "--env", f"TOKEN={_SECRET}", "sleep", "60")
    running(box)
    said = box.ok("shell", "last", "--", "sh", "-c", _SAY).splitlines()
    assert said == [f"1:0,1:{_SECRET}:{box.root / 'v'}", str(box.root)]
    assert box.tgpu("shell", "1", "--", "sh", "-c", "exit 7").returncode == 7
    assert box.tgpu("shell", "1", "--", "no-such-program").returncode == 1


@pytest.mark.parametrize("words", [["--screen"], ["--workers", "2"]], ids=["session", "gang"])
def test_behind_a_process_of_ours_is_the_command(box: Box, words: list[str]) -> None:
    box.ok("submit", "-q", *words, "--", "sh", "-c", "sleep 60", SCREENDIR=_folder(box))
    running(box)

    def said() -> str:
        run = box.tgpu("shell", "1", "--", "sh", "-c", "echo $TGPU_JOB_ID ${TGPU_RANK:-none}")
        return run.stdout.strip()

    eventually(lambda: said() == ("1 none" if words == ["--screen"] else "1 0"), "its process")
    if words != ["--screen"]:
        assert box.ok("shell", "1", "--worker", "1", "--", "sh", "-c", "echo $TGPU_RANK") == "1\n"
        assert box.tgpu("shell", "1", "--worker", "2", "--", "true").returncode == 4


def test_somebody_types_into_a_shell(box: Box) -> None:
    box.ok("submit", "-q", "--env", f"TOKEN={_SECRET}", "--env", "SHELL=/bin/sh", "sleep", "60")
    running(box)
    mine, inside = pty.openpty()
    shell = subprocess.Popen(
        box.command("shell", "last"),
        env=box.environ | {"TERM": "dumb"},
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    os.write(mine, b"echo $TGPU_JOB_ID-$TERM; exit 3\n")
    assert shell.wait(30) == 3
    assert b"1-dumb" in os.read(mine, 65536)
    os.close(mine)
    assert not [pid for pid in living() if _SECRET.encode() in read_proc(pid, "cmdline")]


def test_what_does_not_run_here_is_refused_with_a_sentence(box: Box) -> None:
    box.ok("start", "--port", "0")
    box.ok("submit", "-q", "--hold", "true")
    waits = box.tgpu("shell", "1")
    assert (waits.returncode, "is pending, not running" in waits.stderr) == (4, True)
    box.ok("submit", "-q", "--lease")
    running(box)
    assert box.ok("shell", "last", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES") == "0\n"
    remote = box.tgpu("shell", "1", "--api-url", "http://127.0.0.1:1")
    assert (remote.returncode, "over the network" in remote.stderr) == (1, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user; run as root")
def test_another_user_does_not_get_in(box: Box) -> None:
    box.ok("submit", "-q", "--env", f"TOKEN={_SECRET}", "sleep", "60")
    pid = running(box)["pid"]
    script = (
        "import os, sys\n"
        "from tgpu.host.job_process import NotTheirs, surroundings\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: surroundings('1', int(sys.argv[1]), None)\n"
        "except NotTheirs as error: print(error)"
    )
    words = [sys.executable, "-c", script, str(pid)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "root\n"


def _folder(box: Box) -> str:
    folder = Path(box.root, "screens")
    folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder)
