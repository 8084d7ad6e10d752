"""The supervisor's end of its Unix socket: what clients ask, and what they are told.

Nothing is answered while a request is read. Answers go out together after the turn's records are
durable, so a client never hears of anything that a crash could undo.
"""

import contextlib
import os
import selectors
import socket
from typing import Protocol

from tgpu.engines.local.loop import ASK_AGAIN_SECONDS, Loop
from tgpu.engines.local.protocol import (
    VERSION,
    Key,
    LineSplitter,
    Notice,
    Seen,
    as_epoch,
    as_flag,
    as_key,
    as_keys,
    as_ms,
    as_notice,
    decode,
    encode,
)

# A client this far behind has stopped reading; it can connect again and gets everything anew.
_BACKLOG_BYTES = 64 << 20


class Requests(Protocol):
    """What the supervisor does for clients."""

    @property
    def epoch(self) -> int: ...

    def take_over(self, epoch: int) -> None: ...

    def launch(self, key: Key, grace_ms: int, time_limit_ms: int | None, line: bytes) -> None: ...

    def stop(self, keys: list[Key], notice: Notice | None) -> None: ...

    def pause(self, keys: list[Key], paused: bool) -> None: ...

    def forget(self, keys: list[Key]) -> None: ...

    def everything(self) -> list[Seen]: ...

    def quit(self) -> None: ...


class _Client:
    __slots__ = ("asked", "epoch", "is_greeted", "is_refused", "lines", "out", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.lines = LineSplitter()
        self.out = bytearray()
        self.asked: list[tuple[str, int]] = []  # requests to answer after the turn
        self.is_greeted = False
        self.epoch = 0
        self.is_refused = False  # since it was answered last: it was overtaken


class Clients:
    def __init__(self, loop: Loop, listener: socket.socket, requests: Requests) -> None:
        self._loop = loop
        self._listener = listener
        self._requests = requests
        self._clients: list[_Client] = []
        self._wait_at(listener)

    def listen(self, listener: socket.socket) -> None:
        """At another socket from now on. Those who are connected stay so."""
        with contextlib.suppress(KeyError):  # while there are no descriptors it is not watched
            self._loop.unwatch(self._listener.fileno())
        self._listener.close()
        self._listener = listener
        self._wait_at(listener)

    def _wait_at(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listen()

    def _listen(self) -> None:
        self._loop.watch(self._listener.fileno(), self._accept)

    def __len__(self) -> int:
        return len(self._clients)

    def tell(self, news: list[Seen], *, answer: bool = True) -> None:
        """Send the news to everybody, then the answers to those who asked."""
        changes = encode("changes", news) if news else b""
        for client in list(self._clients):
            if client.is_greeted:
                client.out += changes
            if answer:
                for what, request in client.asked:
                    self._answer(client, what, request)
                client.asked.clear()
            if client.out:
                self._send(client)

    def _answer(self, client: _Client, what: str, request: int) -> None:
        match what:
            case "hello":
                client.is_greeted = True
                client.out += encode("hello", VERSION, os.getpid())
                client.out += encode("all", self._requests.everything())
            case "observe":
                client.out += encode("observed", request, self._requests.everything())
            case "overtaken":
                client.out += encode("overtaken", request, self._requests.epoch)
            case _:
                client.out += encode("done", request)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # no descriptors: whoever waits stays in line, and we do not spin
            self._loop.unwatch(self._listener.fileno())
            self._loop.call_later(ASK_AGAIN_SECONDS, self._listen)
            return
        sock.setblocking(False)
        client = _Client(sock)
        self._clients.append(client)
        self._loop.watch(sock.fileno(), lambda: self._ready(client))

    def _ready(self, client: _Client) -> None:
        if client.out:
            self._send(client)
        try:
            data = client.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(client)
            return
        try:
            for line in client.lines.feed(data):
                self._handle(client, line)
        except (ValueError, TypeError, IndexError) as error:
            with contextlib.suppress(OSError):  # a full disk
                os.write(2, f"a client was dropped: {error}\n".encode(errors="replace"))
            self._drop(client)

    def _handle(self, client: _Client, line: bytes) -> None:
        what, *fields = decode(line.partition(b"\t")[0])
        match what:
            case "epoch":
                client.epoch = as_epoch(fields[0])
                if self._leads(client):
                    self._requests.take_over(client.epoch)
            case "launch" | "stop" if not self._leads(client):
                pass
            case "launch":
                *key, grace_ms, limit_ms = fields
                time_limit_ms = None if limit_ms is None else as_ms(limit_ms)
                self._requests.launch(as_key(key), as_ms(grace_ms), time_limit_ms, line + b"\n")
            case "stop":
                keys, notice = fields
                self._requests.stop(as_keys(keys), as_notice(notice))
            case "pause":
                keys, paused = fields
                self._requests.pause(as_keys(keys), as_flag(paused))
            case "forget":
                self._requests.forget(as_keys(fields[0]))
            case "sync" if client.is_refused:
                client.is_refused = False
                client.asked.append(("overtaken", fields[0]))
            case "hello" | "observe" | "sync":
                client.asked.append((what, fields[0]))
            case "quit":
                self._requests.quit()
            case _:
                raise ValueError(f"unknown message {what!r}")

    def _leads(self, client: _Client) -> bool:
        if client.epoch < self._requests.epoch:
            client.is_refused = True
            return False
        return True

    def _send(self, client: _Client) -> None:
        try:
            sent = client.sock.send(client.out)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(client)
            return
        del client.out[:sent]
        if len(client.out) > _BACKLOG_BYTES:
            self._drop(client)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.out else 0)
        self._loop.watch(client.sock.fileno(), lambda: self._ready(client), events)

    def _drop(self, client: _Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._loop.unwatch(client.sock.fileno())
            client.sock.close()
