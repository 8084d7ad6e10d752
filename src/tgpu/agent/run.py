"""Registers this machine with a service and streams its readings until it is stopped."""

import asyncio
import contextlib
import random
import signal
import uuid
from dataclasses import dataclass, field
from typing import Final

import grpc
import structlog

from tgpu import __version__
from tgpu.agent.report import gpu_messages, readings_message
from tgpu.devices.api import GPUProvider
from tgpu.devices.detect import detect, node_size
from tgpu.devices.host import NodeSize
from tgpu.devices.watch import DeviceWatch
from tgpu.pauses import Pauses
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire import scheduler_pb2_grpc as rpc

_log = structlog.get_logger("gpu_scheduler.agent")

_CALL_SECONDS: Final = 10.0
_PAUSES: Final = Pauses(first_seconds=0.5, longest_seconds=30.0)
# A lost beat or two must not make the node seem offline.
_BEATS_BEFORE_OFFLINE: Final = 3
_CHANNEL_OPTIONS: Final = (
    # The service is in the same network; a proxy for the web would only be in the way.
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    server: str  # "host:port"
    name: str
    gpus: str = "auto"
    interval_seconds: float = 5.0
    driver_timeout_seconds: float = 5.0
    api_key: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: bytes | None = None  # certificates (PEM) to trust instead of the system's


class StreamLost(Exception):
    """The stream ended, or nobody answers on it."""


def run(options: AgentOptions) -> None:
    """Report until TERM or INT. NoDriver or ValueError where the GPUs cannot be read."""
    detected = detect(options.gpus)
    _log.info("gpus", found=detected.sentence)
    asyncio.run(_run_until_told(options, detected.provider))


async def _run_until_told(options: AgentOptions, provider: GPUProvider) -> None:
    watch = DeviceWatch(provider, options.driver_timeout_seconds)
    machine = AgentMachine(options.name, provider, watch, node_size(provider))
    reporting = asyncio.create_task(Reporter(options, machine).report_for_ever())
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, reporting.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await reporting
    finally:
        watch.close()
    _log.info("stopped")


@dataclass(frozen=True, slots=True)
class AgentMachine:
    name: str
    provider: GPUProvider
    watch: DeviceWatch
    size: NodeSize
    # Tells the service this run of the agent from others under the same name.
    instance: str = field(default_factory=lambda: uuid.uuid4().hex)

    async def registration(self) -> pb.RegisterAgentRequest:
        snapshot = await self.watch.read()
        return pb.RegisterAgentRequest(
            name=self.name,
            instance=self.instance,
            version=__version__,
            provider=self.provider.name,
            simulated=self.provider.simulated,
            cpu_cores=self.size.cores,
            memory_mb=self.size.memory_mib,
            problem=snapshot.problem,
            gpus=gpu_messages(snapshot),
        )

    async def beat(self) -> pb.HeartbeatRequest:
        readings = readings_message(await self.watch.read())
        return pb.HeartbeatRequest(name=self.name, instance=self.instance, readings=readings)


class Reporter:
    def __init__(self, options: AgentOptions, machine: AgentMachine) -> None:
        self._options = options
        self._machine = machine
        self._pause = _PAUSES.first_seconds
        self.trouble = ""  # as logged last: an hour without the service is one line, not hundreds

    async def report_for_ever(self) -> None:
        while True:
            try:
                await self._report()
            except Exception as error:  # an agent that gave up would look like a dead machine
                self._tell(error)
            # Not all at the same moment, when a service with a thousand agents comes back.
            await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
            self._pause = _PAUSES.after(self._pause)

    async def _report(self) -> None:
        """One connection, from the registration to whatever ends it."""
        server, key = self._options.server, self._options.api_key
        identity = () if key is None else (("authorization", f"Bearer {key}"),)
        async with self._channel() as channel:
            stub = rpc.AgentServiceStub(channel)
            registration = await self._machine.registration()
            known = await stub.RegisterAgent(registration, timeout=_CALL_SECONDS, metadata=identity)
            _log.info("registered", server=server, name=known.name, gpus=len(registration.gpus))
            self._pause, self.trouble = _PAUSES.first_seconds, ""
            beats = stub.Heartbeat(metadata=identity)
            while True:
                await _exchange(beats, await self._machine.beat())
                await asyncio.sleep(
                    min(
                        self._options.interval_seconds,
                        known.offline_after_seconds / _BEATS_BEFORE_OFFLINE,
                    )
                )

    def _channel(self) -> grpc.aio.Channel:
        server = self._options.server
        if not self._options.tls:
            return grpc.aio.insecure_channel(server, options=_CHANNEL_OPTIONS)
        credentials = grpc.ssl_channel_credentials(self._options.ca)
        return grpc.aio.secure_channel(server, credentials, options=_CHANNEL_OPTIONS)

    def _tell(self, error: Exception) -> None:
        match error:
            case grpc.aio.AioRpcError():
                text = str(error.details())
            case StreamLost():
                text = str(error)
            case _:
                text = f"{type(error).__name__}: {error}"
        if text != self.trouble:
            self.trouble = text
            _log.warning("no service", server=self._options.server, problem=text)


async def _exchange(
    beats: "grpc.aio.StreamStreamCall[pb.HeartbeatRequest, pb.HeartbeatReply]",
    beat: pb.HeartbeatRequest,
) -> None:
    """Send a beat and have it answered."""
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            await beats.write(beat)
            answer = await beats.read()
    except TimeoutError:
        raise StreamLost(f"no answer in {_CALL_SECONDS:g} s") from None
    except asyncio.InvalidStateError:  # it had ended before we wrote
        raise StreamLost(str(await beats.details())) from None
    if answer is grpc.aio.EOF:
        raise StreamLost("the service ended the stream")
