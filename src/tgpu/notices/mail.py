"""Notices by e-mail: one message for each group of readers, over SMTP."""

import asyncio
import contextlib
import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final, Literal

from tgpu.core.model.units import SECOND
from tgpu.notices.notice import Letter, Notice, NoticeKind, NotSent

_MOST: Final = 50
# Each step of SMTP may take the timeout; a server that drips is cut off after this many of it.
_STEPS: Final = 4
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9.-]")


@dataclass(frozen=True, slots=True)
class SmtpServer:
    host: str
    port: int
    security: Literal["starttls", "tls", "none"]
    timeout_seconds: float
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)


class MailTarget:
    most = _MOST

    def __init__(self, server: SmtpServer, sender: str, to: Sequence[str]) -> None:
        self._server = server
        self._sender = sender
        self._to = tuple(to)
        self.where = f"{server.host}:{server.port} to {', '.join(to) or 'the owners of jobs'}"
        self.secrets: tuple[str, ...] = () if server.password is None else (server.password,)

    async def send(self, letters: Sequence[Letter]) -> list[str]:
        messages = [self._message(readers, notices) for readers, notices in self._sorted(letters)]
        if not messages:
            return []
        call = _Call(self._server, messages)
        return await call.made(self._server.timeout_seconds * _STEPS)

    async def close(self) -> None:
        """Nothing stays open between messages."""

    def _sorted(self, letters: Sequence[Letter]) -> list[tuple[tuple[str, ...], list[Notice]]]:
        """By who gets them: nobody sees who else was told of their own jobs."""
        found: dict[tuple[str, ...], list[Notice]] = {}
        for letter in letters:
            readers = self._to if letter.to_readers else ()
            if letter.notice.kind is NoticeKind.TEST and not readers:
                readers = (self._sender,)  # one that sends for jobs alone must be tried out too
            owners = tuple(address for address in letter.to_owner if address not in readers)
            for group in (readers, owners):
                if group:
                    found.setdefault(group, []).append(letter.notice)
        return list(found.items())

    def _message(self, readers: Sequence[str], notices: Sequence[Notice]) -> EmailMessage:
        first, last, more = notices[0], notices[-1], len(notices) - 1
        message = EmailMessage()
        message["Subject"] = f"[tgpu] {first.title}" + (f", and {more} more" if more else "")
        message["From"] = self._sender
        message["To"] = ", ".join(readers)
        message["Date"] = format_datetime(datetime.fromtimestamp(last.at / SECOND, UTC))
        message["Message-ID"] = self._id(notices)
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday answers it
        message["X-Tgpu-Event"] = ", ".join(dict.fromkeys(notice.kind for notice in notices))
        message.set_content("\n\n".join(f"{each.title}\n{each.text}" for each in notices) + "\n")
        return message

    def _id(self, notices: Sequence[Notice]) -> str:
        # The same for each try, so that programs recognise a mail that came twice.
        name = f"{notices[0].notice_id}.{notices[-1].notice_id}.{len(notices)}"
        return f"<tgpu.{_NOT_IN_AN_ID.sub('_', name)}@{self._sender.rpartition('@')[2]}>"


class _Call:
    """One connection, in a thread of its own: smtplib waits.

    The thread is a daemon, so that a server that hangs does not keep the service from ending.
    """

    def __init__(self, server: SmtpServer, messages: Sequence[EmailMessage]) -> None:
        self._server = server
        self._messages = messages
        self._socket: socket.socket | None = None

    async def made(self, seconds: float) -> list[str]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[str]] = loop.create_future()

        def settle(refused: list[str], problem: Exception | None) -> None:
            if future.done():  # nobody waits for it any more
                return
            if problem is None:
                future.set_result(refused)
            else:
                future.set_exception(problem)

        def work() -> None:
            refused: list[str] = []
            problem: Exception | None = None
            try:
                refused = self._post()
            except Exception as error:
                problem = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: the service has ended
                loop.call_soon_threadsafe(settle, refused, problem)

        threading.Thread(target=work, name="tgpu mail", daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise NotSent(f"the server took longer than {seconds:g} seconds") from None
        finally:
            self._cut()

    def _cut(self) -> None:
        """Whatever the thread still waits for does not come."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _post(self) -> list[str]:
        try:
            with self._connected() as smtp:
                return [problem for each in self._messages for problem in _send(smtp, each)]
        except smtplib.SMTPAuthenticationError as error:
            # The server may yet be told the password: what waits must not be lost by that.
            raise NotSent(f"cannot log in: the server says {_said(error)}") from None
        except smtplib.SMTPResponseException as error:
            raise NotSent(f"the server says {_said(error)}") from None
        except (smtplib.SMTPException, OSError) as error:
            raise NotSent(f"{type(error).__name__}: {error}") from None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        server = self._server
        if server.security == "tls":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=server.timeout_seconds, context=server.tls
            )
        else:
            smtp = smtplib.SMTP(server.host, server.port, timeout=server.timeout_seconds)
        with smtp:
            self._socket = smtp.sock
            if server.security == "starttls":
                smtp.starttls(context=server.tls)
                self._socket = smtp.sock
            if server.user is not None and server.password is not None:
                smtp.login(server.user, server.password)
            yield smtp


def _send(smtp: smtplib.SMTP, message: EmailMessage) -> list[str]:
    """Whom it does not reach. Raises where another try may help."""
    try:
        return _refusals(smtp.send_message(message))
    except smtplib.SMTPRecipientsRefused as error:
        smtp.rset()
        if any(code < 500 for code, _ in error.recipients.values()):  # such as grey-listing
            raise NotSent("; ".join(_refusals(error.recipients))) from None
        return _refusals(error.recipients)
    except smtplib.SMTPDataError as error:
        if error.smtp_code < 500:
            raise
        return [f"the server refuses a mail to {message['To']}: {_said(error)}"]


def _refusals(recipients: Mapping[str, tuple[int, bytes]]) -> list[str]:
    return [
        f"the server refuses {address}: {code} {_words(text)}"
        for address, (code, text) in recipients.items()
    ]


def _said(error: smtplib.SMTPResponseException) -> str:
    return f"{error.smtp_code} {_words(error.smtp_error)}"


def _words(text: bytes | str) -> str:
    words = text.decode(errors="replace") if isinstance(text, bytes) else text
    return " ".join(words.split())[:200]
