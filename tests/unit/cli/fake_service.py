"""A service that answers from memory, in the place of the network."""

import json
from collections import Counter
from dataclasses import dataclass, field

import httpx
from pydantic import BaseModel

from tests.unit.cli.builders import a_gpu, a_job, some_gpus
from tgpu.client.http import Client
from tgpu.client.target import parse_target
from tgpu.wire.arrays_v1 import ArraySummary
from tgpu.wire.v1 import ClusterStatus, GpuList, JobModel


@dataclass
class FakeService:
    jobs: dict[str, JobModel] = field(default_factory=dict)
    arrays: dict[str, ArraySummary] = field(default_factory=dict)
    logs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    gpus: GpuList = field(default_factory=lambda: some_gpus(a_gpu()))
    refusal: tuple[int, str, str] | None = None  # status, code, message
    broken: BaseException | None = None
    health: dict[str, object] = field(
        default_factory=lambda: {"status": "healthy", "version": "1", "pid": 1, "problems": []}
    )
    requests: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[dict[str, object]] = field(default_factory=list)
    journal: bytes = b""
    lists: list[dict[str, str]] = field(default_factory=list)  # what was asked of lists of jobs

    def add(self, *jobs: JobModel) -> None:
        self.jobs |= {job.job_id: job for job in jobs}

    def client(self) -> Client:
        transport = httpx.MockTransport(self.answer)
        return Client(parse_target("http://127.0.0.1:8080"), transport=transport)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append((request.method, request.url.path.removeprefix("/api/v1")))
        if self.broken is not None:
            raise self.broken
        if self.refusal is not None:
            return _error(*self.refusal)
        if request.content:
            self.bodies.append(json.loads(request.content))
        match request.method, request.url.path.removeprefix("/api/v1").strip("/").split("/"):
            case "POST", ["jobs"]:
                return httpx.Response(201, json={"job_id": "12", "warnings": ["think twice"]})
            case "GET", ["jobs"]:
                return self._list(request)
            case "POST", ["jobs", "select"]:
                return httpx.Response(200, json=self._selected(self.bodies[-1]))
            case "GET", ["health"]:
                return httpx.Response(200, json=self.health)
            case "GET", ["journal"]:
                return httpx.Response(200, content=self.journal)
            case "GET", ["cluster", "status"]:
                return _model(self.status())
            case "GET", ["gpus"]:
                return _model(self.gpus)
            case "GET", ["arrays", array_id, *_] if array_id in self.arrays:
                return _model(self.arrays[array_id])
            case method, ["jobs", job_id, *tail]:
                return self._job(request, method, job_id, tail)
        return _error(404, "NOT_FOUND", f"nothing at {request.url.path}")

    def status(self) -> ClusterStatus:
        states = Counter(job.state for job in self.jobs.values())
        return ClusterStatus(
            total_nodes=1,
            online_nodes=1,
            total_gpus=8,
            available_gpus=3,
            used_gpus=5,
            total_jobs=len(self.jobs),
            running_jobs=states["running"] + states["scheduled"],
            pending_jobs=states["pending"],
            jobs_by_state=states,
            simulated=True,
            provider="simulated",
            problem=None,
            engine="local",
            store="memory",
            policy="priority",
            clock="auto",
            version="1",
            uptime_seconds=1,
            data_dir=None,
        )

    def _selected(self, body: dict[str, object]) -> dict[str, object]:
        """What the service would say is tested with the service."""
        action, jobs = str(body["action"]), body.get("jobs")
        return {"action": action, "message": f"{action}: {jobs}", "changed": 1}

    def _list(self, request: httpx.Request) -> httpx.Response:
        self.lists.append(dict(request.url.params))
        states = request.url.params.get("state", "").split(",")
        array = request.url.params.get("array_id")
        found = [
            job.model_dump()
            for job in self.jobs.values()
            if states in ([""], []) or job.state in states
            if array is None or (job.array is not None and job.array.array_id == array)
        ]
        limit = int(request.url.params["limit"])
        return httpx.Response(200, json={"jobs": found[:limit], "next_cursor": None})

    def _job(
        self, request: httpx.Request, method: str, job_id: str, tail: list[str]
    ) -> httpx.Response:
        job = next(reversed(self.jobs.values())) if job_id == "last" else self.jobs.get(job_id)
        if job is None:
            return _error(404, "JOB_NOT_FOUND", f"no job named '{job_id}'")
        match method, tail:
            case "GET", [] | ["wait"]:
                return _model(job)
            case "GET", ["why"]:
                reason = job.reason.model_dump() if job.reason else {"code": "x", "message": "y"}
                answer = {"job_id": job.job_id, "state": job.state, "reason": reason}
                return httpx.Response(200, json=answer)
            case "GET", ["logs"]:
                return self._log(request, job)
            case "POST", ["rerun"]:
                return httpx.Response(201, json={"job_id": f"{job.job_id}-again"})
        if job.state in ("completed", "failed", "cancelled"):
            return _error(409, "CONFLICT", f"job {job.job_id} is over")
        action = {"job_id": job.job_id, "status": job.state, "message": "Job cancelled"}
        return httpx.Response(200, json=action)

    def _log(self, request: httpx.Request, job: JobModel) -> httpx.Response:
        whole = self.logs.get((job.job_id, request.url.params["stream"]), b"")
        offset = int(request.url.params["offset"])
        start = max(0, len(whole) + offset) if offset < 0 else offset
        headers = {
            "X-Log-Offset": str(start),
            "X-Log-Size": str(len(whole)),
            "X-Log-Complete": "true",
        }
        return httpx.Response(200, content=whole[start:], headers=headers)


def an_element(array_id: str, index: int, **changes: object) -> JobModel:
    array = {"array_id": array_id, "index": index, "max_running": None}
    return a_job(f"{array_id}.{index}", array=array, **changes)


def a_folded_job(array_id: str = "2", total: int = 200, **states: int) -> JobModel:
    """The row of a whole array, of `total` elements in these states."""
    progress = {
        "total": total,
        "states": states,
        "first_index": 1,
        "last_index": total,
        "started_at": "2023-11-14T22:12:50Z",
        "ended_at": "2023-11-14T22:13:10Z",
    }
    array = {"array_id": array_id, "index": 3, "max_running": None, "progress": progress}
    return a_job(f"{array_id}.3", array=array, name="sweep", params={"lr": "0.1", "bs": "8"})


def _model(model: BaseModel) -> httpx.Response:
    return httpx.Response(200, json=model.model_dump())


def _error(status: int, code: str, message: str) -> httpx.Response:
    body = {"error": {"code": code, "message": message, "details": []}}
    return httpx.Response(status, json=body)
