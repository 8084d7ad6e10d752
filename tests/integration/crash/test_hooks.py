"""kill -9 while a prolog or an epilog runs: both run again, and no GPU is given on in between."""

import os
from pathlib import Path

from tests.real_service import RealService, eventually

PROLOG = """#!/bin/sh
cd {work}
echo "$TGPU_HOOK_JOB_ID $$" >> prologs
while [ ! -e go ]; do sleep 0.02; done
"""
EPILOG = """#!/bin/sh
cd {work}
echo "$TGPU_HOOK_JOB_ID $TGPU_HOOK_GPUS $$" >> epilogs
while [ ! -e gone ]; do sleep 0.02; done
"""


def make(directory: Path) -> RealService:
    work = directory / "work"
    hooks = {}
    for name, text in (("prolog", PROLOG), ("epilog", EPILOG)):
        path = directory / name
        path.write_text(text.format(work=work))
        path.chmod(0o755)
        hooks[name] = [str(path)]
    return RealService(directory, gpus="sim:1xA100", settings={"engine": hooks})


def lines(service: RealService, name: str) -> list[str]:
    path = service.work / name
    return path.read_text().splitlines() if path.exists() else []


def is_gone(line: str) -> bool:
    return not os.path.exists(f"/proc/{line.split()[-1]}")


def test_a_killed_service_runs_its_hooks_again_and_gives_no_gpu_on_before(tmp_path: Path) -> None:
    with make(tmp_path) as service:
        service.start()
        first = service.submit("echo ran >> ran", job_id="first")
        service.submit("true", job_id="second")
        eventually(lambda: lines(service, "prologs"), "the prolog")
        service.kill()
        eventually(lambda: is_gone(lines(service, "prologs")[0]), "the prolog to end with it")
        assert lines(service, "ran") == []
        (service.work / "go").touch()
        service.start()
        eventually(lambda: lines(service, "epilogs"), "the epilog")
        assert lines(service, "ran") == ["ran"]
        service.kill()
        service.kill_supervisor()
        service.start()
        eventually(lambda: len(lines(service, "epilogs")) > 1, "the epilog again")
        assert {line.split()[0] for line in lines(service, "prologs")} == {"first"}
        assert service.job(first)["state"] == "running"
        (service.work / "gone").touch()
        assert service.end(first)["state"] == "completed"
        assert service.end("second")["state"] == "completed"
        told = {tuple(line.split()[:2]) for line in lines(service, "epilogs")}
        assert told == {("first", "0"), ("second", "0")}
        assert lines(service, "ran") == ["ran"]
