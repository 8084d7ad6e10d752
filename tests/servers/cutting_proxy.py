"""A connection to a server that can be cut at a given word, before or behind it."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class CuttingProxy:
    """Passes bytes on to a server on loopback. Plain bytes only: no TLS."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._word: bytes | None = None
        self._is_word_delivered = False
        self._open: list[socket.socket] = []
        self.cuts = 0
        self.is_refusing = False  # ends connections that arrive
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, word: bytes, *, delivered: bool) -> None:
        """Cut the next connection that sends `word`: before the server has it, or once it
        has, so that only the answer is lost."""
        self._is_word_delivered = delivered
        self._word = word

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_refusing:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._open += [client, server]
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._back, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._word is not None and self._word in data:
                    self._cut(client, server, data)
                    return
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _cut(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        self._word = None
        self.cuts += 1
        client.shutdown(socket.SHUT_RDWR)  # first, so that no answer gets through
        if self._is_word_delivered:
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def cutting_proxy(server_port: int) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(server_port)
    try:
        yield proxy
    finally:
        proxy.close()
