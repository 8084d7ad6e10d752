"""A uvicorn server whose connections are limited in number and time."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import Any, Final

import uvicorn

from tgpu.connections.acceptor import Acceptor
from tgpu.connections.budget import ConnectionLimits
from tgpu.connections.protocol import GuardedProtocol

_LOOK_SECONDS: Final = 1.0
# Nobody sends us messages over a WebSocket, which we only write to.
_LARGEST_MESSAGE: Final = 65_536


class GuardedServer(uvicorn.Server):
    """Also leaves signals to us: uvicorn raises them again after serving, before we have closed."""

    def __init__(self, app: Any, limits: ConnectionLimits, **options: Any) -> None:
        """`options` are uvicorn's, as far as they are not decided here."""
        protocol = type("LimitedProtocol", (GuardedProtocol,), {"limits": limits})
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                ws_max_size=_LARGEST_MESSAGE,
                # Packing each message for each reader is most of what a stream would cost.
                ws_per_message_deflate=False,
                timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # a timer's
                # Whoever sends X-Forwarded-For from this machine must not choose their address.
                proxy_headers=False,
                server_header=False,
                log_config=None,
                access_log=False,
                lifespan="off",
                **options,
            )
        )
        self._limits = limits
        self._looking: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """With TLS on the TCP ports alone: a Unix socket never leaves the machine."""
        await super().startup([])
        over_tcp, over_unix = self._limits.fitting()
        for listening in sockets or ():
            is_unix = listening.family == socket.AF_UNIX
            acceptor = Acceptor(
                listening,
                over_unix if is_unix else over_tcp,
                self._make_protocol,
                encryption=None if is_unix else self.config.ssl,
                handshake_seconds=self._limits.head_seconds,
            )
            acceptor.start()
            self.servers.append(acceptor)  # type: ignore[arg-type]  # it has what is asked of one
        self._looking = asyncio.create_task(self._look())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await super().shutdown(sockets)

    def _make_protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        return protocol

    async def _look(self) -> None:
        """One look at all of them every second, rather than timers for every request."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, GuardedProtocol):
                    connection.look(now)
