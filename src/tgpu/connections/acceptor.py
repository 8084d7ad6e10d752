"""Accepts connections while the limits allow it.

The event loop's own server gives up for good when accept fails for want of descriptors, takes one
connection in a round of the loop, and knows no limits. This one waits such times out.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import structlog

from tgpu.connections.budget import ConnectionBudget, caller_behind
from tgpu.connections.refusal import refusal
from tgpu.peers.lookup import Lookup

_log = structlog.get_logger("gpu_scheduler.connections")

# In one round of the loop: with hundreds of busy clients a round takes tens of milliseconds, and
# taking one new connection in each let the last of 250 wait for ten seconds.
_IN_A_ROUND: Final = 16
_BACKLOG: Final = 2048
# Until accept is tried again after a failure, which is about descriptors or memory.
_PAUSE_SECONDS: Final = 0.25
_OF_NO_MATTER: Final = frozenset(
    {errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED, errno.EINTR, errno.EPROTO}
)


class _Counted(socket.socket):
    """An accepted connection that says when it is over, whoever holds it by then."""

    when_over: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        self._tell()

    def detach(self) -> int:
        # What uvloop does with a socket whose descriptor it closes itself.
        descriptor = super().detach()
        self._tell()
        return descriptor

    def _tell(self) -> None:
        tell, self.when_over = self.when_over, None
        if tell is not None:
            tell()


class Acceptor:
    """Has what uvicorn asks of a server: `close` and `wait_closed`."""

    def __init__(
        self,
        listening: socket.socket,
        budget: ConnectionBudget,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        encryption: ssl.SSLContext | None = None,
        handshake_seconds: float = 10.0,
    ) -> None:
        self._listening = listening
        self._budget = budget
        self._make_protocol = make_protocol
        self._encryption = encryption
        self._handshake_seconds = handshake_seconds
        self._lookup = Lookup()
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def start(self) -> None:
        self._listening.setblocking(False)
        self._listening.listen(_BACKLOG)
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._again is not None:
            self._again.cancel()
        else:
            self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
        self._lookup.close()

    async def wait_closed(self) -> None:
        for task in list(self._opening):
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_IN_A_ROUND):
            try:
                descriptor, _ = self._listening._accept()  # type: ignore[attr-defined]  # untyped
            except OSError as error:
                if error.errno not in _OF_NO_MATTER:
                    self._pause(error)
                return
            self._take(_Counted(self._listening.family, socket.SOCK_STREAM, 0, descriptor))

    def _pause(self, error: OSError) -> None:
        """Those who wait stay in the kernel's queue meanwhile."""
        _log.warning("cannot take connections; trying again", problem=error.strerror)
        self._loop.remove_reader(self._listening.fileno())
        self._again = self._loop.call_later(_PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        self._again = None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _take(self, connection: _Counted) -> None:
        connection.setblocking(False)
        caller = caller_behind(self._lookup.origin(connection))
        if problem := self._budget.take(caller):
            self._refuse(connection, problem)
            return
        connection.when_over = lambda: self._budget.give_back(caller)
        if connection.family != socket.AF_UNIX:
            with contextlib.suppress(OSError):  # gone already
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opening = self._loop.create_task(self._open(connection))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _open(self, connection: _Counted) -> None:
        timeouts: dict[str, Any] = {}
        if self._encryption is not None:
            timeouts["ssl_handshake_timeout"] = self._handshake_seconds
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol, connection, ssl=self._encryption, **timeouts
            )
        except (OSError, ConnectionError):  # gone, or no TLS, or too slow at it
            connection.close()

    def _refuse(self, connection: socket.socket, problem: str) -> None:
        """Said if it can be said at once: nobody waits for those who have too many."""
        status = (
            HTTPStatus.TOO_MANY_REQUESTS
            if "connections_per_caller" in problem
            else HTTPStatus.SERVICE_UNAVAILABLE
        )
        with connection, contextlib.suppress(OSError):
            if self._encryption is None:
                connection.send(refusal(status, "TOO_MANY_CONNECTIONS", problem))
                connection.shutdown(socket.SHUT_WR)
                # What was sent already is read: else the kernel takes the answer back.
                connection.recv(65_536)
