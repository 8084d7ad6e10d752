"""Gateways as processes, in front of a real service."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.real_service import clean_environ, eventually, free_port

START_SECONDS = 40.0


class RealGateway:
    """`python -m tgpu gateway`, started when made."""

    def __init__(
        self,
        directory: Path,
        upstream: str,
        *options: str,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / f"gateway-{self.port}.log"
        command = [sys.executable, "-m", "tgpu", "gateway", "--upstream", upstream]
        command += ["--port", str(self.port), *options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=clean_environ() | dict(environ or {})
            )
        self.http = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        eventually(self._answers, "the gateway to answer", START_SECONDS)

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get("/gateway/health").json()
        return found

    def until(self, **wanted: object) -> None:
        """Until its health says so."""
        eventually(lambda: wanted.items() <= self.health().items(), f"{wanted} in health")

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.http.get(f"/api/v1{path}", headers=headers)

    def submit(self, **fields: object) -> str:
        answer = self.http.post("/api/v1/jobs", json={"gpu_count": 1, **fields})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"it ended instead:\n{self.log_text()}"
        with contextlib.suppress(httpx.HTTPError):
            return self.http.get("/gateway/health").status_code == 200
        return False


class Watcher:
    """Reads server-sent events in a thread, over one connection, from its making on."""

    def __init__(self, url: str, query: str = "?readings=0", **headers: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.position: int | None = None
        self.ended = False
        self.status: int | None = None
        self._url = f"{url}/api/v1/events{query}"
        self._headers = headers
        self._response: httpx.Response | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        eventually(self._has_begun, "the stream to begin")

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events]

    def of_jobs(self, kind: str) -> list[str]:
        return [event["job_id"] for event in self.events if event["kind"] == kind]

    def until_started(self, jobs: Sequence[str]) -> None:
        """Until it was told that exactly these have started, in this order."""
        eventually(lambda: self.of_jobs("job_started") == jobs, "the jobs' starts", pause=0.001)

    def close(self) -> None:
        if self._response is not None:
            stream = self._response.extensions["network_stream"]
            with contextlib.suppress(OSError):
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def _has_begun(self) -> bool:
        """Refused, or told where the stream is."""
        return self.status is not None and (self.status != 200 or self.position is not None)

    def _read(self) -> None:
        try:
            with httpx.stream(
                "GET", self._url, headers=self._headers, timeout=None, trust_env=False
            ) as response:
                self._response = response
                self.status = response.status_code
                for line in response.iter_lines():
                    if line.startswith("id: ") and self.position is None:
                        self.position = int(line[4:])
                    elif line.startswith("data: "):
                        self.events.append(json.loads(line[6:]))
        except Exception:
            pass  # closed from outside, or cut off
        finally:
            self.status = self.status or 0
            self.ended = True
