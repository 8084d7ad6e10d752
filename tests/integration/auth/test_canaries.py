"""One tenant does everything there is, under names found nowhere else; the other reads everything
there is. Not one of those names may be in any byte that it gets."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import websockets

from tests.integration.auth.door import OURS, Door, a_door, a_token, as_role, bearer
from tests.integration.auth.test_every_route import HTTP
from tests.integration.auth.test_streams import listening
from tests.real_service import free_port
from tests.unit.service.eventually import eventually
from tgpu.api.grpc.gate import GrpcGate
from tgpu.api.grpc.server import GrpcServer
from tgpu.core.model.ids import TenantId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.model.tenant import Tenant
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire import scheduler_pb2_grpc as rpc

READERS = ("viewer", "user", "admin")
NOW = 1_000_000


class Canaries:
    """Words that are nowhere but in what the other tenant has."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __call__(self, what: str) -> str:
        word = f"{what}{secrets.token_hex(6)}"
        self.words.append(word)
        return word

    def in_(self, data: bytes) -> list[str]:
        return [word for word in self.words if word.encode() in data]


async def posted(door: Door, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
    answer = await door.post(path, json=body, headers=headers)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


class World:
    """`ours` runs, waits and is preempted; the other tenant takes, lends, reserves and fails."""

    def __init__(self, door: Door, canaries: Canaries, tenant: str) -> None:
        self.door, self.canaries, self.tenant = door, canaries, tenant
        self.them = bearer(a_token("user", [tenant], sub=canaries("user")))

    async def ours(self, job_id: str, **fields: Any) -> None:
        body = {"job_id": job_id, "tenant_id": OURS, "command": ["true"], "gpu_count": 1} | fields
        await posted(self.door, "/api/v1/jobs", body, as_role("user"))

    async def theirs(self, what: str, **fields: Any) -> str:
        word = self.canaries
        body = {
            "job_id": word(f"job-{what}-"),
            "tenant_id": self.tenant,
            "name": word("name"),
            "command": [word("/bin/command"), word("--argument")],
            "environment": {word("VARIABLE"): word("value")},
            "base_environment": {"PATH": word("/path")},
            "working_dir": word("/directory"),
            "params": {word("param"): [word("x")]},
            "gpu_count": 1,
            **fields,
        }
        made = await posted(self.door, "/api/v1/jobs", body, self.them)
        return str(made["job_ids"][0])

    async def lived(self) -> None:
        door, box = self.door, self.door.box
        admin, word = as_role("admin"), self.canaries
        queue = {"project_id": self.tenant, "name": word("queue")}
        await posted(door, "/api/v1/queues", queue, admin)
        mine = [f"ours-{number}" for number in range(4)]
        for job_id in mine:
            await self.ours(job_id, priority=10, requeue=True)
        await box.tick(NOW)
        for job_id in mine:  # two of them on lent quota
            await box.until(job_id, JobState.RUNNING)
        urgent = await self.theirs("urgent", priority=1500, gpu_count=2, queue=queue["name"])
        await box.tick(NOW + 60_000)  # ours are preempted
        await self._started(urgent, NOW + 70_000)
        await self.ours("waits", priority=1, gpu_count=4)
        await self.theirs("array", array={"indexes": "1-2"}, priority=900)
        await self._reserve(word("reservation"), NOW + 4_000_000)
        await self._reserve(None, NOW + 8_000_000)
        await box.tick(NOW + 80_000)
        box.engine.finish(await box.key(urgent), exit_code=3)
        await box.until(urgent, JobState.FAILED)
        await box.tick(NOW + 90_000)

    async def _started(self, job_id: str, now: int) -> None:
        """Preempted jobs take their time, and then it is the next cycle's turn."""
        box = self.door.box

        async def is_running() -> bool:
            await box.tick(now)
            return await box.state_of(job_id) is JobState.RUNNING

        await eventually(is_running, f"{job_id} to run")

    async def _reserve(self, name: str | None, at: int) -> None:
        starts = datetime.fromtimestamp(at / 1000, UTC).isoformat()
        body = {"tenant_id": self.tenant, "gpus": 1, "minutes": 5, "starts_at": starts}
        made = await posted(
            self.door, "/api/v1/reservations", body | ({"id": name} if name else {}), self.them
        )
        if name is None:
            self.canaries.words.append(f'"{made["id"]}"')


@asynccontextmanager
async def a_world() -> AsyncIterator[World]:
    canaries = Canaries()
    tenant = canaries("tenant")
    tenants = (
        Tenant(TenantId(OURS), max_gpu_millis=2000, cohort="both"),
        Tenant(TenantId(tenant), max_gpu_millis=2000, cohort="both", name=canaries("called")),
    )
    async with a_door(
        tenants=tenants,
        leases=False,
        gpus="sim:4xA100",
        rules=Rules(preemption=PreemptionRules()),
    ) as door:
        world = World(door, canaries, tenant)
        await world.lived()
        yield world


def urls() -> list[str]:
    """Every path that is read, with things of our own in it."""
    values = {
        "job": "ours-0",
        "array": "ours-0",
        "job_id": "ours-0",
        "tenant_id": OURS,
        "project_id": OURS,
        "queue_id": f"{OURS}:default",
        "reservation_id": "none",
        "name": "local",
        "key_id": "none",
    }
    queries = {"/api/v1/sizes": "?model=m", "/api/v1/jobs": "?limit=1000"}
    found = []
    for method, path in HTTP:
        if method != "GET" or path == "/api/v1/events":
            continue
        query = queries.get(path, "?timeout=0" if path.endswith("/wait") else "")
        url = re.sub(r"{(\w+)}", lambda part: values[part[1]], path) + query
        found.append(url)
        if "ours-0" in url:
            found += [url.replace("ours-0", name) for name in ("ours-1", "ours-3", "waits", "last")]
    return [*found, "/metrics", "/openapi.json"]


async def test_the_world_is_worth_looking_at() -> None:
    async with a_world() as world:
        admin = as_role("admin")
        found = (await world.door.get("/api/v1/preemptions", headers=admin)).json()["preemptions"]
        preempted = [each for each in found if each["tenant_id"] == OURS]
        assert preempted
        assert all(each["to_tenant_id"] == world.tenant for each in preempted)
        assert world.canaries.in_(preempted[0]["reason"].encode())  # an admin is told all
        jobs = (await world.door.get("/api/v1/jobs?limit=1000", headers=admin)).json()["jobs"]
        assert {"pending", "failed"} <= {job["state"] for job in jobs}


@pytest.mark.parametrize("role", READERS)
async def test_no_answer_names_anything_of_another_tenant(role: str) -> None:
    async with a_world() as world:
        headers = as_role(role, OURS)
        for url in urls():
            answer = await world.door.get(url, headers=headers)
            told = str(answer.headers).encode() + answer.content
            assert world.canaries.in_(told) == [], (url, answer.text)


async def test_no_question_about_what_would_be_names_another_tenant() -> None:
    async with a_world() as world:
        door, headers = world.door, as_role("user")
        bodies: list[tuple[str, dict[str, Any]]] = [
            ("/api/v1/jobs/estimate", {"tenant_id": OURS, "gpu_count": 4, "command": ["true"]}),
            ("/api/v1/jobs", {"tenant_id": OURS, "gpu_count": 64, "command": ["true"]}),
            ("/api/v1/jobs", {"tenant_id": "nobody", "command": ["true"]}),
            ("/api/v1/jobs", {"tenant_id": OURS, "queue": "nobodys"}),
            ("/api/v1/jobs", {"tenant_id": OURS, "reservation": "nobodys"}),
            ("/api/v1/reservations", {"tenant_id": OURS, "gpus": 4, "minutes": 100}),
            ("/api/v1/jobs/waits/rerun", {}),
            ("/jobs/batch", {}),
        ]
        for path, body in bodies:
            answer = await door.post(path, json=body, headers=headers)
            assert world.canaries.in_(answer.content) == [], (path, answer.text)


@pytest.mark.parametrize("role", READERS)
async def test_no_event_names_anything_of_another_tenant(role: str, tmp_path: Path) -> None:
    async with a_world() as world, listening(world.door, tmp_path / "s") as port:
        headers = as_role(role, OURS)
        heard: list[bytes] = []
        async with asyncio.timeout(20), httpx.AsyncClient() as client:
            url = f"http://127.0.0.1:{port}/api/v1/events?after=0"
            async with client.stream("GET", url, headers=headers) as answer:
                async for line in answer.aiter_lines():
                    heard.append(line.encode())
                    if '"waits"' in line:
                        break
            async with websockets.connect(
                url.replace("http", "ws", 1), additional_headers=headers
            ) as stream:
                while b'"waits"' not in (said := str(await stream.recv()).encode()):
                    heard.append(said)
        assert any(b"job_preempted" in line for line in heard)
        assert world.canaries.in_(b"\n".join(heard)) == []


async def test_no_grpc_answer_names_anything_of_another_tenant() -> None:
    async with a_world() as world:
        service = world.door.box.service
        port = free_port()
        gate = GrpcGate(
            world.door.app.state.authenticator, lambda: service, listening=("127.0.0.1", port)
        )
        server = GrpcServer(lambda: service, data_dir=None, interceptors=[gate])
        await server.start("127.0.0.1", port)
        try:
            await _no_canary_over_grpc(world, port)
        finally:
            await server.stop()
            gate.close()


async def _no_canary_over_grpc(world: World, port: int) -> None:
    for role in READERS:
        metadata = (("authorization", as_role(role, OURS)["Authorization"]),)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = rpc.SchedulerServiceStub(channel)
            told = [
                await stub.GetJobStatus(pb.GetJobStatusRequest(job_id="waits"), metadata=metadata),
                await stub.ListJobs(pb.ListJobsRequest(limit=1000), metadata=metadata),
                await stub.GetClusterStatus(pb.GetClusterStatusRequest(), metadata=metadata),
            ]
            async for event in stub.WatchEvents(
                pb.WatchEventsRequest(after=0), metadata=metadata, timeout=20
            ):
                told.append(event)
                if event.job_id == "waits":
                    break
        for message in told:
            assert world.canaries.in_(message.SerializeToString()) == [], message
