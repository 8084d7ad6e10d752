"""A service for the screen: it counts what it is asked, pages, and takes pauses."""

import json
from dataclasses import dataclass, field

import httpx

from tests.unit.cli.fake_service import FakeService
from tgpu.wire.metrics_v1 import GpuUseModel, MetricsAnswer, RunsModel, WaitingModel
from tgpu.wire.v1 import ClusterStatus


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


def some_metrics(**changes: object) -> MetricsAnswer:
    used = {"uuid": "GPU-0", "readings": 9, "paused": None}
    gpus = [
        GpuUseModel.model_validate({**used, "index": 0, "mean_percent": 78.5, "peak_percent": 95}),
        GpuUseModel.model_validate(
            {**used, "index": 3, "mean_percent": 0, "peak_percent": 0, "paused": "fan is loud"}
        ),
    ]
    answer = MetricsAnswer(
        total_jobs=156,
        ended_jobs=42,
        waiting=WaitingModel(high=2, normal=10, low=3),
        runs=RunsModel(count=42, mean_seconds=245.3, median_seconds=189.7),
        gpus=gpus,
        uptime_seconds=3600.0,
    )
    return answer.model_copy(update=changes)


@dataclass
class ScreenService(FakeService):
    changes: list[str] = field(default_factory=list)
    metrics: MetricsAnswer = field(default_factory=some_metrics)

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1/")
        if self.broken is None:
            if path == "cluster/status":
                self.requests.append(("GET", "/cluster/status"))
                waiting = sum(job.state == "pending" for job in self.jobs.values())
                return httpx.Response(200, json=a_status(pending_jobs=waiting).model_dump())
            if path == "cluster/metrics":
                return httpx.Response(200, json=self.metrics.model_dump())
            if path == "nodes":
                return httpx.Response(200, json={"nodes": [_an_agent("box-3")]})
            if path.startswith("gpus/") and request.method == "POST":
                name, _, action = path.removeprefix("gpus/").rpartition("/")
                return self._gpu(name, action, request.content)
            if request.method == "PATCH":
                self.changes.append(f"{path} {request.content.decode()}")
            if request.method in ("POST", "DELETE"):
                self.changes.append(f"{request.method} {path}")
        return super().answer(request)

    def _gpu(self, name: str, action: str, content: bytes) -> httpx.Response:
        self.changes.append(f"{action} {name}")
        paused = "paused by an operator" if action == "pause" else None
        if content:
            paused = json.loads(content).get("reason", paused)
        now = {"paused": paused, "status": "paused" if paused else "free"}
        old = next(gpu for gpu in self.gpus.gpus if name in (str(gpu.index), gpu.gpu_name))
        changed = old.model_copy(update=now)
        gpus = [changed if gpu is old else gpu for gpu in self.gpus.gpus]
        self.gpus = self.gpus.model_copy(update={"gpus": gpus})
        return httpx.Response(200, json=changed.model_dump())

    def _list(self, request: httpx.Request) -> httpx.Response:
        """The cursor is how many were shown before."""
        self.lists.append(dict(request.url.params))
        states, array = request.url.params["state"].split(","), request.url.params.get("array_id")
        folds = request.url.params.get("fold") == "true"
        found = [
            job.model_dump()
            for job in self.jobs.values()
            if job.state in states
            if array is None or (job.array is not None and job.array.array_id == array)
            # Elements and the row that stands for them are all there: one or the other is told.
            if job.array is None or (job.array.progress is not None) == folds
        ]
        limit, start = int(request.url.params["limit"]), int(request.url.params.get("cursor", 0))
        rest = start + limit
        cursor = rest if rest < len(found) else None
        return httpx.Response(200, json={"jobs": found[start:rest], "next_cursor": cursor})


def _an_agent(name: str) -> dict[str, object]:
    words = dict.fromkeys(("address", "version", "provider"), "")
    return {
        **words,
        "name": name,
        "state": "online",
        "source": "agent",
        "simulated": False,
        "problem": None,
        "cpu_cores": 1,
        "memory_mb": 1,
        "registered_at": None,
        "last_seen_at": None,
        "gpus": [],
    }
