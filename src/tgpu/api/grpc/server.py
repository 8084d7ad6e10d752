"""The gRPC server: our two services, health and reflection, on one port."""

from collections.abc import Callable, Sequence
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tgpu.api.grpc.agents import AgentServicer
from tgpu.api.grpc.decoding import Decoding
from tgpu.api.grpc.scheduler import SchedulerServicer
from tgpu.api.streams import Streams
from tgpu.service.service import Service
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire import scheduler_pb2_grpc as rpc

SERVICES: Final = tuple(service.full_name for service in pb.DESCRIPTOR.services_by_name.values())
_GRACE_SECONDS: Final = 1.0
_OPTIONS: Final = (
    # Whoever connects must speak HTTP/2 soon, and call something now and then; a peer that is gone
    # without a word is found by pings, and one that pings us without end is cut off.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 3),
    ("grpc.max_concurrent_streams", 128),
    ("grpc.max_metadata_size", 16 * 1024),
    # Without this a second server on the same port would start, and each get half of the calls.
    ("grpc.so_reuseport", 0),
)


class CannotListen(Exception):
    """The port cannot be had."""


class GrpcServer:
    """`service` gives None until the service has opened. Made and used in one event loop."""

    def __init__(
        self,
        service: Callable[[], Service | None],
        *,
        data_dir: str | None,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        max_message_mib: int = 2,
        max_connections: int = 1024,
        streams: Streams | None = None,
    ) -> None:
        bounds = (
            ("grpc.max_receive_message_length", max_message_mib * 1024 * 1024),
            ("grpc.max_allowed_incoming_connections", max_connections),
        )
        self._server = grpc.aio.server(
            interceptors=[*interceptors, Decoding(SERVICES)], options=(*_OPTIONS, *bounds)
        )
        self._health = health.aio.HealthServicer()
        rpc.add_SchedulerServiceServicer_to_server(
            SchedulerServicer(service, data_dir, streams), self._server
        )
        rpc.add_AgentServiceServicer_to_server(AgentServicer(service), self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        known = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(known, self._server)

    async def start(
        self, host: str, port: int, credentials: tuple[bytes, bytes] | None = None
    ) -> int:
        """Listen; the port, which 0 lets the system choose. Raises CannotListen.

        `credentials` are a private key and its certificates (PEM); without, nothing is encrypted.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                secured = grpc.ssl_server_credentials([credentials])
                port = self._server.add_secure_port(address, secured)
        except RuntimeError as error:
            raise CannotListen(str(error)) from error
        await self._tell_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.start()
        return port

    async def ready(self) -> None:
        """Tell those who ask for health that the service has opened."""
        await self._tell_health(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        """Take no more calls; those under way have a moment to end."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(_GRACE_SECONDS)

    async def _tell_health(self, status: int) -> None:
        for name in ("", *SERVICES):
            await self._health.set(name, status)
