"""A real server on loopback in front of a service on simulated GPUs, and a client of it."""

import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from tests.unit.service.world import Box, a_box
from tgpu.api.grpc.refusal import TRAILER
from tgpu.api.grpc.server import GrpcServer
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant
from tgpu.service.service import Service
from tgpu.wire import scheduler_pb2_grpc as rpc


@dataclass
class Served:
    box: Box
    channel: grpc.aio.Channel
    scheduler: Any
    agents: Any
    server: GrpcServer

    @property
    def service(self) -> Service:
        return self.box.service


@asynccontextmanager
async def serving(box: Box | None) -> AsyncIterator[Served]:
    server = GrpcServer(lambda: box.service if box else None, data_dir="/data")
    port = await server.start("127.0.0.1", 0)
    options = (("grpc.enable_http_proxy", 0),)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            yield Served(
                box,  # type: ignore[arg-type]  # None only where no test looks at it
                channel,
                rpc.SchedulerServiceStub(channel),
                rpc.AgentServiceStub(channel),
                server,
            )
    finally:
        await server.stop()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    tenants = (Tenant(TenantId("default")), Tenant(TenantId("small"), max_gpu_millis=1000))
    async with a_box(tenants=tenants) as box, serving(box) as made:
        yield made


@dataclass
class Refused:
    status: str
    message: str
    code: str
    details: list[Any]


async def refusal(call: Awaitable[object]) -> Refused:
    """The error that a call ends with, and what its trailer says."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return refusal_of(caught.value)


def refusal_of(error: grpc.aio.AioRpcError) -> Refused:
    trailers = {key: value for key, value in error.trailing_metadata() or ()}
    told = json.loads(trailers[TRAILER])["error"]
    assert told["message"] == error.details()
    return Refused(error.code().name, told["message"], told["code"], told["details"])
