"""A real SMTP server on loopback, which keeps what it is given and can be told to misbehave."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, Literal

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

Security = Literal["none", "starttls", "tls"]


class MailServer:
    """Each of `answers` is given once instead of taking a message; `refused` addresses never."""

    def __init__(
        self,
        *,
        port: int = 0,
        security: Security = "none",
        tls: ssl.SSLContext | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        self.port = port
        self.received: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.answers: list[str] = []
        self.refused: dict[str, str] = {}
        self.silent_seconds = 0.0
        self._security = security
        self._tls = tls
        self._login = login
        self._connections: list[SMTP] = []

    # -- what aiosmtpd asks ----------------------------------------------------------------------

    async def handle_RCPT(
        self, _: SMTP, __: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:
        await asyncio.sleep(self.silent_seconds)
        if self.answers:
            return self.answers.pop(0)
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.recipients.append(list(envelope.rcpt_tos))
        self.received.append(message)
        return "250 taken"

    def _authenticate(self, _: Any, __: Any, ___: Any, mechanism: str, data: Any) -> AuthResult:
        given = (data.login.decode(), data.password.decode())
        return AuthResult(success=given == self._login, handled=False)

    def _protocol(self) -> SMTP:
        made = SMTP(
            self,
            hostname="localhost",
            tls_context=self._tls if self._security == "starttls" else None,
            require_starttls=self._security == "starttls",
            auth_required=self._login is not None,
            authenticator=self._authenticate if self._login else None,
        )
        self._connections.append(made)
        return made

    @contextmanager
    def running(self) -> Iterator["MailServer"]:
        """In a thread with a loop of its own, until the block is left."""
        loop = asyncio.new_event_loop()
        ready = threading.Event()
        server: asyncio.Server | None = None

        async def begin() -> asyncio.Server:
            tls = self._tls if self._security == "tls" else None
            return await loop.create_server(self._protocol, "127.0.0.1", self.port, ssl=tls)

        def serve() -> None:
            nonlocal server
            asyncio.set_event_loop(loop)
            server = loop.run_until_complete(begin())
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            loop.run_forever()
            server.close()
            for connection in self._connections:
                if connection.transport is not None:
                    connection.transport.close()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(asyncio.sleep(0.01))  # transports close in the next round
            loop.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert ready.wait(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
