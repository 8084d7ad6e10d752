"""A real HTTP server on loopback that takes what webhooks send, and can be told to misbehave."""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Posted:
    path: str
    headers: dict[str, str]
    body: bytes


class HookServer:
    """Each of `answers` is given once, 200 without; `headers` go with every answer."""

    def __init__(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.port = port
        self.posted: list[Posted] = []
        self.answers: list[int] = []
        self.headers: dict[str, str] = {}
        self.silent_seconds = 0.0
        self._tls = tls

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://localhost:{self.port}/hook"

    @contextmanager
    def running(self) -> Iterator["HookServer"]:
        server = _Server(("127.0.0.1", self.port), _handler_of(self))
        if self._tls is not None:
            server.socket = self._tls.wrap_socket(server.socket, server_side=True)
        self.port = server.server_address[1]
        thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about."""


def _handler_of(hook: HookServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(hook.silent_seconds)
            status = hook.answers.pop(0) if hook.answers else 200
            if status < 300:
                hook.posted.append(Posted(self.path, dict(self.headers), body))
            self.send_response(status)
            for name, value in hook.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    return Handler
