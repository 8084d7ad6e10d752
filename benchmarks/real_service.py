"""A real service process for benchmarks, in a directory of its own, ended with its supervisor."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil


@dataclass(frozen=True)
class RunningService:
    url: str
    pid: int
    data_dir: Path


@contextlib.contextmanager
def running_service(
    gpus: str, *, tenants: tuple[str, ...] = (), clock: str = "auto"
) -> Iterator[RunningService]:
    with tempfile.TemporaryDirectory(prefix="tgpu-bench-") as directory:
        data_dir = Path(directory)
        port = _free_port()
        config = data_dir / "config.json"
        config.write_text(
            json.dumps(
                {
                    "scheduler": {"clock": clock, "max_queue_size": 0},
                    "tenants": [{"tenant_id": tenant} for tenant in tenants],
                    "devices": {"gpus": gpus},
                    "api": {"http_port": port, "metrics_port": 0},
                }
            )
        )
        log = (data_dir / "serve.log").open("wb")
        command = [sys.executable, "-m", "gpu_scheduler", "serve"]
        process = subprocess.Popen(
            [*command, "--config", str(config), "--data-dir", str(data_dir / "data")],
            stdout=log,
            stderr=log,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_ready(url, process, data_dir / "serve.log")
            yield RunningService(url, process.pid, data_dir / "data")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            _end_supervisor(data_dir / "data")


def _wait_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/api/v1/health").status_code == 200:
                return
        time.sleep(0.05)
    raise SystemExit(f"the service did not start:\n{log.read_text()}")


def _end_supervisor(data_dir: Path) -> None:
    """The supervisor outlives the service by design; here nobody needs it any more."""
    for process in psutil.process_iter(["cmdline"]):
        if any(str(data_dir) in part for part in process.info["cmdline"] or ()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
