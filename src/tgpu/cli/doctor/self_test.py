"""The checks of `tgpu test`: this very installation, with simulated GPUs in a scratch directory.

Everything is real but the GPUs: a service of its own, its database, its supervisor, jobs.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tgpu.cli.environment import variables
from tgpu.cli.findings import Check, FindingLevel
from tgpu.client.autostart import find_running, stop_running
from tgpu.client.errors import ClientError, StartFailed
from tgpu.client.follow import read_log, wait_until_over, wait_until_started
from tgpu.client.http import Client
from tgpu.client.personal import PersonalService
from tgpu.host.processes import lives, with_argument
from tgpu.text.system_words import system_words
from tgpu.wire.v1 import ArrayRequest, JobModel, SubmitRequest

_PATIENCE_SECONDS: Final = 30.0  # for one step, on the slowest machine
_LOOK_SECONDS: Final = 0.02
_MANY: Final = 300
_GPUS: Final = "sim:2xA100"


class Wrong(Exception):
    """What a step found, in a sentence."""


def run_self_test(directory: Path, *, quick: bool) -> Iterator[Check]:
    """Each check when it is done. After a failure the rest, which builds on it, is not tried."""
    trial = _Trial(directory)
    steps: list[tuple[str, Callable[[], str]]] = [
        ("start", trial.start),
        ("GPUs", trial.gpus),
        ("job", trial.job),
        ("failure", trial.failure),
        ("cancel", trial.cancel),
        ("restart", trial.restart),
    ]
    if not quick:
        steps.append(("many", trial.many))
    try:
        for name, step in steps:
            check = _tried(name, step)
            yield check
            if check.level is FindingLevel.FAIL:
                return
        yield _tried("stop", trial.stop)
    finally:
        trial.clean_up()


def _tried(name: str, step: Callable[[], str]) -> Check:
    began = time.monotonic()
    try:
        finding = step()
    except (Wrong, ClientError, StartFailed, OSError) as error:
        return Check(name, FindingLevel.FAIL, str(error), "`tgpu doctor` checks for the cause")
    return Check(name, FindingLevel.OK, f"{finding} ({time.monotonic() - began:.1f} s)")


class _Trial:
    def __init__(self, directory: Path) -> None:
        self._service = PersonalService(directory)
        self._process: subprocess.Popen[bytes] | None = None

    # -- the steps -------------------------------------------------------------------------------

    def start(self) -> str:
        # What is set for the user's own service must not reach this one.
        environ = {n: v for n, v in variables().items() if not n.startswith(("GPU_SCHED", "TGPU_"))}
        options = ["--port", "0", "--gpus", _GPUS]
        options += [
            "--socket",
            str(self._service.socket),
            "--data-dir",
            str(self._service.data_dir),
        ]
        self._service.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._service.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tgpu", "serve", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                start_new_session=True,
            )
        _until(self._is_ready, "the service did not answer")
        return "a service starts and answers"

    def gpus(self) -> str:
        with self._client() as client:
            found = client.gpus().gpus
        if len(found) != 2:
            raise Wrong(f"there are {len(found)} GPUs instead of 2 simulated ones")
        return "2 simulated GPUs are there"

    def job(self) -> str:
        job = self._run(["sh", "-c", "echo on $CUDA_VISIBLE_DEVICES"])
        with self._client() as client:
            pieces, _ = read_log(client, job.job_id, "stdout", attempt=None, tail_lines=None)
        said = b"".join(pieces).decode(errors="replace").strip()
        if (job.state, job.exit_code) != ("completed", 0):
            raise Wrong(f"a job that should complete is {job.state}, exit code {job.exit_code}")
        if said not in ("on 0", "on 1"):
            raise Wrong(f"a job that should name its GPU said {said!r}")
        return "a job runs on its GPU, and its output is kept"

    def failure(self) -> str:
        job = self._run(["sh", "-c", "exit 3"])
        if (job.state, job.exit_code) != ("failed", 3):
            raise Wrong(f"a job that exits with 3 is {job.state}, exit code {job.exit_code}")
        return "a failing job is recorded, with its exit code"

    def cancel(self) -> str:
        with self._client() as client:
            job = self._started(client, ["sleep", "600"])
            client.cancel_job(job.job_id)
            ended = wait_until_over(client, job.job_id, time.monotonic() + _PATIENCE_SECONDS)
        if ended.state != "cancelled":
            raise Wrong(f"a job that was cancelled is {ended.state}")
        if job.pid is not None and lives(job.pid):
            raise Wrong(f"process {job.pid} of a cancelled job still runs")
        return "a cancelled job leaves no process behind"

    def restart(self) -> str:
        gate = self._service.data_dir / "gate"
        # Not for ever: should everything else of this trial be killed, it ends all the same.
        loop = 'for _ in $(seq 1200); do [ -e "$0" ] && exit 7; sleep 0.05; done; exit 8'
        command = ["sh", "-c", loop, str(gate)]
        with self._client() as client:
            job = self._started(client, command)
        self.stop()
        gate.touch()  # so it ends while nobody looks
        self.start()
        with self._client() as client:
            ended = wait_until_over(client, job.job_id, time.monotonic() + _PATIENCE_SECONDS)
        if ended.exit_code != 7:
            raise Wrong(f"a job that ended with 7 between two starts has {ended.exit_code}")
        return "a job continues without the service, and its end is recorded"

    def many(self) -> str:
        with self._client() as client:
            array = ArrayRequest(indexes=f"1-{_MANY}")
            answer = client.submit(SubmitRequest(command=["true"], array=array, gpu_count=0.1))
            for job_id in answer.job_ids:
                job = wait_until_over(client, job_id, time.monotonic() + _PATIENCE_SECONDS)
                if job.state != "completed":
                    raise Wrong(f"job {job_id} of {_MANY} at once is {job.state}")
        return f"{_MANY} jobs at once complete"

    def stop(self) -> str:
        stop_running(self._service)
        if self._process is not None and self._process.wait(_PATIENCE_SECONDS) != 0:
            raise Wrong(f"the service ended with exit code {self._process.returncode}")
        self._process = None
        return "the service stops cleanly"

    def clean_up(self) -> None:
        """Whatever happened: no process of ours stays."""
        if self._process is not None:
            self._end_jobs()
            self._process.kill()
            self._process.wait()
        _end_supervisor(self._service.data_dir)

    # -- on the way ------------------------------------------------------------------------------

    def _end_jobs(self) -> None:
        with contextlib.suppress(ClientError, OSError), self._client() as client:
            for job in client.list_jobs(states=["running", "pending"], limit=1000).jobs:
                client.cancel_job(job.job_id)
                wait_until_over(client, job.job_id, time.monotonic() + _PATIENCE_SECONDS)

    def _client(self) -> Client:
        return Client(self._service.target(), timeout_seconds=_PATIENCE_SECONDS)

    def _is_ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise Wrong(f"the service ended at once: {_last_line(self._service.log_file)}")
        try:
            return find_running(self._service) is not None
        except ClientError:
            return False  # it listens, and is not ready

    def _run(self, command: list[str]) -> JobModel:
        with self._client() as client:
            job_id = client.submit(self._request(command)).job_id
            return wait_until_over(client, job_id, time.monotonic() + _PATIENCE_SECONDS)

    def _started(self, client: Client, command: list[str]) -> JobModel:
        return wait_until_started(client, client.submit(self._request(command)).job_id)

    def _request(self, command: list[str]) -> SubmitRequest:
        environ = {"PATH": variables().get("PATH", os.defpath)}
        here = str(self._service.data_dir)
        return SubmitRequest(command=command, base_environment=environ, working_dir=here)


def _until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise Wrong(f"{complaint} within {_PATIENCE_SECONDS:g} s")
        time.sleep(_LOOK_SECONDS)


def _end_supervisor(data_dir: Path) -> None:
    """By itself it would end a minute later. The directory is ours alone, and so is its name."""
    for pid in with_argument(f"--dir={os.path.realpath(data_dir)}/engine"):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _last_line(log: Path) -> str:
    try:
        return log.read_text(errors="replace").strip().rpartition("\n")[2] or "it said nothing"
    except OSError as error:
        return f"its log cannot be read ({system_words(error)})"
