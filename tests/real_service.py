"""The real product in a directory of its own: service, supervisor, runners and jobs as processes.

Everything is done from outside, by REST, signals and files. Whatever a test started here is ended
with it, by pid: each of those processes names its data directory in its command or environment.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

T = TypeVar("T")
Json = dict[str, Any]

# A start takes a second of processor time, which a busy machine may stretch a good deal.
START_SECONDS = 40.0
DEADLINE_SECONDS = 25.0
OVER = ("completed", "failed", "cancelled")


def eventually(
    probe: Callable[[], T | None], what: str, seconds: float = DEADLINE_SECONDS, pause: float = 0.05
) -> T:
    """The first answer of `probe` that counts as true; AssertionError when none comes in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(pause)


class RealService:
    """`python -m tgpu serve` on one data directory, through any number of lives.

    `settings` are laid over the defaults at the end of this class.
    """

    def __init__(
        self,
        directory: Path,
        *,
        gpus: str = "sim:4xA100",
        settings: Mapping[str, Mapping[str, object]] | None = None,
        tenants: Sequence[Mapping[str, object]] = (),
        environ: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
    ) -> None:
        self.data_dir = data_dir or directory / "data"
        self.work = directory / "work"  # where the jobs leave their traces
        self.work.mkdir(parents=True, exist_ok=True)
        self.log = directory / "service.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self._config = directory / "settings.json"
        self._environ = dict(environ or {})
        self._write_settings(gpus, settings or {}, tenants)
        self._http: httpx.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.tear_down()

    # -- its life ------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the service and wait until it answers."""
        self.launch()
        self.wait_ready()
        return self

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the service without waiting for it."""
        if self.process is not None:
            self.process.wait(1)  # the one before must be over
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, env=clean_environ() | self._environ
            )
        return self.process

    def command(self) -> list[str]:
        serve = [sys.executable, "-m", "tgpu", "serve"]
        return [*serve, "--config", str(self._config), "--data-dir", str(self.data_dir)]

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"it ended instead:\n{self.log_text()}"
            with contextlib.suppress(httpx.HTTPError):
                return self.http.get("/api/v1/health").status_code == 200
            return False

        eventually(ready, "the service to answer", START_SECONDS)

    def kill(self) -> None:
        """kill -9, and nothing else: supervisor, runners and jobs go on."""
        kill_and_wait(self.pid)

    def terminate(self, seconds: float = 20.0) -> int:
        """Ask it to end; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def restart(self) -> None:
        self.kill()
        self.start()

    def tear_down(self) -> None:
        """End all that this service and its jobs ever started."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while pids := self.processes():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, f"processes that do not die: {pids}"
            time.sleep(0.02)
        if self._http is not None:
            self._http.close()

    # -- its processes ---------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def processes(self) -> list[int]:
        """Every living process that belongs to the data directory, the service itself included."""
        mark = os.fsencode(self.data_dir)
        return [pid for pid in living() if mark in read_proc(pid, "cmdline", "environ")]

    def supervisor(self) -> int:
        """The supervisor's pid, as soon as there is one."""
        return eventually(lambda: self._named("tgpu-supervisor"), "a supervisor")[0]

    def runners(self) -> list[int]:
        return self._named("tgpu-runner")

    def processes_of(self, job_id: str) -> list[int]:
        """What is left of a job on this machine."""
        wanted = f"TGPU_JOB_ID={job_id}".encode()
        return [pid for pid in self.processes() if wanted in read_proc(pid, "environ").split(b"\0")]

    def kill_supervisor(self) -> None:
        kill_and_wait(self.supervisor())

    def _named(self, name: str) -> list[int]:
        mark = os.fsencode(f"--dir={self.data_dir}/engine")
        return [
            pid
            for pid in living()
            if mark in read_proc(pid, "cmdline") and read_proc(pid, "comm") == f"{name}\n".encode()
        ]

    # -- talking to it ---------------------------------------------------------------------------

    @property
    def http(self) -> httpx.Client:
        if self._http is None:
            self._http = self.client()
        return self._http

    def client(self) -> httpx.Client:
        """A connection of its own, for another thread."""
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False)

    def submit(self, script: str, **fields: object) -> str:
        """Queue a shell script that runs in `work`; its id."""
        answer = self.http.post("/api/v1/jobs", json=self.request(script, **fields))
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    def request(self, script: str, **fields: object) -> Json:
        return {"command": ["sh", "-c", script], "working_dir": str(self.work), **fields}

    def get(self, path: str) -> Json:
        answer = self.http.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def post(self, path: str, body: object = None) -> Json:
        answer = self.http.post(f"/api/v1{path}", json=body)
        assert answer.status_code in (200, 201), answer.text
        found: Json = answer.json()
        return found

    def job(self, job_id: str) -> Json:
        return self.get(f"/jobs/{job_id}")

    def cancel(self, job_id: str) -> Json:
        answer = self.http.delete(f"/api/v1/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def in_state(self, job_id: str, *states: str) -> Json:
        """The job, as soon as it is in one of these states."""

        def probe() -> Json | None:
            job = self.job(job_id)
            assert job["state"] in states or job["state"] not in OVER, job
            return job if job["state"] in states else None

        return eventually(probe, f"job {job_id} to be {' or '.join(states)}")

    def running(self, job_id: str) -> Json:
        return self.in_state(job_id, "running")

    def end(self, job_id: str) -> Json:
        return self.in_state(job_id, *OVER)

    def busy_gpus(self) -> list[int]:
        return [gpu["index"] for gpu in self.get("/gpus")["gpus"] if gpu["allocated"]]

    # -- what jobs leave behind ------------------------------------------------------------------

    def lines(self, file: str) -> list[str]:
        path = self.work / file
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_lines(self, file: str, *lines: str) -> None:
        """Until the file has exactly these."""
        eventually(lambda: self.lines(file) == list(lines), f"{lines} in {file}")

    def open_gate(self, name: str = "gate") -> None:
        """Let go on what waits in `gate(name)`."""
        (self.work / name).touch()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _write_settings(
        self,
        gpus: str,
        settings: Mapping[str, Mapping[str, object]],
        tenants: Sequence[Mapping[str, object]],
    ) -> None:
        content: dict[str, dict[str, object]] = {
            "api": {"http_port": self.port, "grpc_port": 0, "metrics_port": 0},
            "devices": {"gpus": gpus},
            "database": {"ballast_mb": 1},  # there are hundreds of these directories
            "engine": {"grace_seconds": 0.5},
        }
        for section, values in settings.items():
            content.setdefault(section, {}).update(values)
        if content.get("auth", {}).get("enabled") and os.geteuid() != 0:
            content["engine"].setdefault("jobs_as_service_user", True)  # it can be nobody else
        self._config.write_text(json.dumps(content | {"tenants": list(tenants)}))


def gate(name: str = "gate") -> str:
    """A piece of shell script that waits until the test opens the gate."""
    return f"while [ ! -e {name} ]; do sleep 0.1; done"


def free_port() -> int:
    """Below those that the kernel gives to outgoing connections: free at restarts as well."""
    while True:
        port = random.SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def clean_environ() -> dict[str, str]:
    """This process's environment, without settings that would leak into the service."""
    prefixes = ("GPU_SCHEDULER_", "TGPU_", "XDG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def living() -> Iterator[int]:
    """Processes that run; a zombie only waits to be counted."""
    for name in os.listdir("/proc"):
        if name.isdigit() and is_living(int(name)):
            yield int(name)


def is_living(pid: int) -> bool:
    state = read_proc(pid, "stat").rpartition(b")")[2].split()[:1]
    return bool(state) and state[0] not in (b"Z", b"X")


def kill_and_wait(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        eventually(partial(_is_gone, pid), f"process {pid} to be gone", pause=0.005)


def _is_gone(pid: int) -> bool:
    return not is_living(pid)


def read_proc(pid: int, *files: str) -> bytes:
    """Empty where the process is gone meanwhile."""
    text = b""
    for file in files:
        with contextlib.suppress(OSError):
            text += Path(f"/proc/{pid}/{file}").read_bytes()
    return text
