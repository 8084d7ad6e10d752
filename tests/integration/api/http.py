"""Clients of a service in this process, and what every answer must look like."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.unit.service.world import Box, a_box
from tgpu.api.rest.app import make_app
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant

ROOT = Path(__file__).resolve().parents[3]
T1, T2 = (
    Tenant(TenantId(name), max_gpu_millis_by_type=(("A100", 2000), ("H100", 1000)))
    for name in ("t1", "t2")
)


class Api(httpx.AsyncClient):
    """A client, with the box behind it at hand."""

    def __init__(self, box: Box) -> None:
        app = make_app(data_dir="/somewhere")
        app.state.service = box.service
        self.app = app
        self.box = box
        # A bug must be an answer to look at, not an exception in the test.
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        super().__init__(transport=transport, base_url="http://127.0.0.1")


@asynccontextmanager
async def an_api(**settings: Any) -> AsyncIterator[Api]:
    async with a_box(**settings) as box, Api(box) as api:
        yield api


def quickstart() -> Any:
    """What examples/quickstart.yaml sets up: leases, the manual clock, two tenants."""
    return an_api(leases=True, gpus="sim:4xA100,2xH100", tenants=(T1, T2))


def a_plain_job(job_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "tenant_id": "t1",
        "gpu_type": "A100",
        "gpus": 1,
        "priority": 5,
        "submitted_at": 0,
        **fields,
    }


def error_of(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The error of an answer that has our one shape, this status and this code."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body: dict[str, Any] = answer.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert sorted(error) == ["code", "details", "message"]
    assert error["code"] == code, error
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["details"], list)
    return error


@contextmanager
def a_served(directory: Path, *arguments: str) -> Iterator[str]:
    """`tgpu serve` as a process of its own; the URL it listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tgpu", "serve", *arguments]
    command += ["--port", str(port), "--data-dir", str(directory / "data")]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("GPU_SCHEDULER_", "TGPU_"))}
    # Every service would take the same ports for these.
    environ |= {"GPU_SCHEDULER_API_METRICS_PORT": "0", "GPU_SCHEDULER_API_GRPC_PORT": "0"}
    environ["GPU_SCHEDULER_API_GRPC_PORT"] = "0"
    with (directory / "service.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ
        )
    try:
        _wait_until_healthy(url, process, directory / "service.log")
        yield url
        process.terminate()
        assert process.wait(15) == 0, (directory / "service.log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _wait_until_healthy(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(f"{url}/healthz", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
