"""What a job tries that means harm. Run by a plain Python, as the job's user: no imports of ours.

The argument is JSON: whom and what to try. Prints one line of JSON: what came of each attempt,
which begins with "got" where it succeeded.
"""

import contextlib
import ctypes
import http.client
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

_PTRACE_ATTACH = 16
_PTRACE_DETACH = 17
_libc = ctypes.CDLL(None, use_errno=True)


class OverSocket(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


def call(path: str, method: str, target: str, body: object = None) -> tuple[int, Any]:
    connection = OverSocket(path)
    headers = {"Content-Type": "application/json"}
    connection.request(method, target, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    with contextlib.suppress(ValueError):
        return answer.status, json.loads(text)
    return answer.status, text


def reads(path: str) -> str:
    with open(path, "rb") as file:
        return f"got {len(file.read(100))} bytes"


def lists(path: str) -> str:
    return f"got {os.listdir(path)}"


def connects(path: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(path)
    return "got in"


def signals(pid: int) -> str:
    os.kill(pid, 0)
    os.kill(pid, signal.SIGCONT)
    return "got it signalled"


def traces(pid: int) -> str:
    if _libc.ptrace(_PTRACE_ATTACH, pid, None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    _libc.ptrace(_PTRACE_DETACH, pid, None, None)
    return "got it traced"


def asks(sock: str, method: str, target: str, body: object = None) -> str:
    status, answer = call(sock, method, target, body)
    return f"got {answer}" if status < 400 else f"{status} {answer['error']['code']}"


def writes(path: str) -> str:
    with open(path, "r+b"):
        return "got it open"


def becomes_root() -> str:
    os.setuid(0)
    return "got root"


def attempts(plan: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str]]]:
    for path in plan["files"]:
        yield f"read {path}", partial(reads, path)
        yield f"write {path}", partial(writes, path)
    for path in plan["folders"]:
        yield f"list {path}", partial(lists, path)
    for path in plan["sockets"]:
        yield f"connect {path}", partial(connects, path)
    for pid in plan["pids"]:
        for name in ("environ", "mem", "fd/1", "cwd/."):
            yield f"read {name} of {pid}", partial(reads, f"/proc/{pid}/{name}")
        yield f"signal {pid}", partial(signals, pid)
        yield f"trace {pid}", partial(traces, pid)
    for method, target, body in plan["calls"]:
        yield f"{method} {target}", partial(asks, plan["service"], method, target, body)
    yield "become root", becomes_root


def main() -> None:
    plan = json.loads(sys.argv[1])
    found = {"uid": str(os.getuid())}
    for what, attempt in attempts(plan):
        try:
            found[what] = attempt()
        except OSError as error:
            found[what] = f"{error.errno} {error.strerror}"
    if plan["service"]:
        found["whoami"] = json.dumps(call(plan["service"], "GET", "/api/v1/whoami")[1])
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
