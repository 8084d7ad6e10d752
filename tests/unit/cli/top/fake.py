"""A service for the screen: it counts what it is asked, pages, and takes pauses."""

from dataclasses import dataclass, field

import httpx

from gpu_scheduler.wire.v1 import ClusterStatus
from tests.unit.cli.builders import a_gpu
from tests.unit.cli.fake_service import FakeService


def a_status(**changes: object) -> ClusterStatus:
    fields: dict[str, object] = {
        "total_nodes": 1,
        "online_nodes": 1,
        "total_gpus": 2,
        "available_gpus": 1.0,
        "total_jobs": 0,
        "running_jobs": 0,
        "pending_jobs": 0,
        "jobs_by_state": {},
        "simulated": True,
        "provider": "simulated",
        "problem": None,
        "engine": "local",
        "store": "memory",
        "policy": "priority",
        "clock": "auto",
        "version": "1",
        "uptime_seconds": 60.0,
        "data_dir": None,
    }
    return ClusterStatus.model_validate({**fields, **changes})


@dataclass
class ScreenService(FakeService):
    changes: list[str] = field(default_factory=list)

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1/")
        if self.broken is None:
            if path == "cluster/status":
                self.requests.append(("GET", "/cluster/status"))
                waiting = sum(job.state == "pending" for job in self.jobs.values())
                return httpx.Response(200, json=a_status(pending_jobs=waiting).model_dump())
            if path.startswith("gpus/") and request.method == "POST":
                return self._gpu(*path.split("/")[1:])
            if request.method in ("POST", "DELETE"):
                self.changes.append(f"{request.method} {path}")
        return super().answer(request)

    def _gpu(self, index: str, action: str) -> httpx.Response:
        self.changes.append(f"{action} {index}")
        paused = "why not" if action == "pause" else None
        changed = a_gpu(int(index), paused=paused, status="paused" if paused else "free")
        gpus = [changed if gpu.index == int(index) else gpu for gpu in self.gpus.gpus]
        self.gpus = self.gpus.model_copy(update={"gpus": gpus})
        return httpx.Response(200, json=changed.model_dump())

    def _list(self, request: httpx.Request) -> httpx.Response:
        """The cursor is how many were shown before."""
        states = request.url.params.get("state", "").split(",")
        found = [job.model_dump() for job in self.jobs.values() if job.state in states]
        limit, start = int(request.url.params["limit"]), int(request.url.params.get("cursor", 0))
        rest = start + limit
        cursor = rest if rest < len(found) else None
        return httpx.Response(200, json={"jobs": found[start:rest], "next_cursor": cursor})
