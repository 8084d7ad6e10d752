"""The agent against a real server in this process: who it says it is, and what it survives."""

import asyncio
import contextlib
import datetime
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, a_box
from tgpu.agent.run import AgentMachine, AgentOptions, Reporter
from tgpu.api.grpc.server import GrpcServer
from tgpu.devices.host import NodeSize
from tgpu.devices.simulated import SimulatedProvider
from tgpu.devices.watch import DeviceWatch


class Overhearing(grpc.aio.ServerInterceptor):
    """Notes what callers say of themselves."""

    def __init__(self) -> None:
        self.heard: dict[str, str | None] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        said = {str(key): value for key, value in handler_call_details.invocation_metadata or ()}
        name = str(handler_call_details.method).rpartition("/")[2]
        self.heard[name] = str(said["authorization"]) if "authorization" in said else None
        return await continuation(handler_call_details)


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    async with a_box() as made:
        yield made


@asynccontextmanager
async def reporting(port: int, **options: Any) -> AsyncIterator[Reporter]:
    provider = SimulatedProvider("sim:3xH100")
    watch = DeviceWatch(provider)
    machine = AgentMachine("box", provider, watch, NodeSize(8, 1024))
    chosen = AgentOptions(f"127.0.0.1:{port}", "box", interval_seconds=0.02, **options)
    reporter = Reporter(chosen, machine)
    task = asyncio.create_task(reporter.report_for_ever())
    try:
        yield reporter
        assert not task.done()  # whatever happened, it goes on
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        watch.close()


def is_measured(box: Box) -> bool:
    return any(
        gpu.temperature_c is not None
        for agent in box.service.agents.all()
        for gpu in agent.readings.gpus
    )


async def test_an_agent_says_who_it_is_with_every_call(box):
    overhearing = Overhearing()
    server = GrpcServer(lambda: box.service, data_dir=None, interceptors=[overhearing])
    port = await server.start("127.0.0.1", 0)
    async with reporting(port, api_key="secret"):
        await eventually(lambda: is_measured(box), "readings")
    await server.stop()
    assert overhearing.heard == {"RegisterAgent": "Bearer secret", "Heartbeat": "Bearer secret"}


async def test_an_agent_without_a_key_sends_none(box):
    overhearing = Overhearing()
    server = GrpcServer(lambda: box.service, data_dir=None, interceptors=[overhearing])
    port = await server.start("127.0.0.1", 0)
    async with reporting(port):
        await eventually(lambda: is_measured(box), "readings")
    await server.stop()
    assert overhearing.heard == {"RegisterAgent": None, "Heartbeat": None}


async def test_a_key_is_not_shown_with_the_options():
    assert "secret" not in repr(AgentOptions("x:1", "box", api_key="secret"))


async def test_an_agent_registers_again_when_it_was_forgotten(box):
    server = GrpcServer(lambda: box.service, data_dir=None)
    port = await server.start("127.0.0.1", 0)
    async with reporting(port):
        await eventually(lambda: is_measured(box), "readings")
        box.service.agents.all()[0].instance = "another"  # and its stream is closed by that
        await eventually(lambda: box.service.agents.all()[0].instance != "another", "its return")
    await server.stop()


async def test_an_agent_is_quick_enough_for_an_impatient_service(box):
    """The service's patience counts, where it is shorter than the agent's pause."""
    box.service.agents.offline_after_seconds = 0.3
    server = GrpcServer(lambda: box.service, data_dir=None)
    port = await server.start("127.0.0.1", 0)
    provider = SimulatedProvider("sim:1xH100")
    watch = DeviceWatch(provider)
    machine = AgentMachine("box", provider, watch, NodeSize(8, 1024))
    slow = AgentOptions(f"127.0.0.1:{port}", "box", interval_seconds=60)
    task = asyncio.create_task(Reporter(slow, machine).report_for_ever())
    await eventually(lambda: is_measured(box), "the first beat")
    first = box.service.agents.get("box").heard_at
    await eventually(lambda: box.service.agents.get("box").heard_at > first, "the second")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    watch.close()
    await server.stop()


def a_certificate() -> tuple[bytes, bytes]:
    """A key and a certificate for 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tgpu")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    return (
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain),
        certificate.public_bytes(pem),
    )


async def test_an_agent_talks_tls_to_a_service_it_trusts(box):
    key, certificate = a_certificate()
    server = GrpcServer(lambda: box.service, data_dir=None)
    port = await server.start("127.0.0.1", 0, (key, certificate))
    async with reporting(port, tls=True, ca=certificate):
        await eventually(lambda: is_measured(box), "readings", 15)
    await server.stop()


async def test_an_agent_does_not_talk_to_a_service_it_does_not_trust(box):
    key, certificate = a_certificate()
    _, other = a_certificate()
    server = GrpcServer(lambda: box.service, data_dir=None)
    port = await server.start("127.0.0.1", 0, (key, certificate))
    async with reporting(port, tls=True, ca=other) as reporter:
        await eventually(lambda: reporter.trouble, "it to notice", 15)
        assert box.service.agents.all() == []
    await server.stop()
