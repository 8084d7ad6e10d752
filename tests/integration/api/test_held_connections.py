"""Somebody holds connections or streams: everybody else is served all the same."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.real_service import RealService, eventually

pytestmark = pytest.mark.external

MOST, OF_A_CALLER = 40, 20
HALVES = [
    b"",
    b"GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ",
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
    b'Content-Type: application/json\r\n\r\n{"name": "',
    b"POST /ingest?fmt=ndjson HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    directory = tmp_path_factory.mktemp("held")
    limits: dict[str, object] = {
        "connections": MOST,
        "connections_per_caller": OF_A_CALLER,
        "streams_per_caller": 2,
        "head_seconds": 2,
    }
    settings: dict[str, dict[str, object]] = {
        "limits": limits | {"body_seconds": 3},
        "api": {"socket": str(directory / "s")},
        "engine": {"kind": "none"},
    }
    with RealService(directory, settings=settings) as running:
        yield running.start()


@contextlib.contextmanager
def held(service: RealService, count: int, half: bytes) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", service.port), timeout=20)
            )
            connection.sendall(half)
            connections.append(connection)
        yield connections


def over_unix(service: RealService) -> httpx.Response:
    path = service.data_dir.parent / "s"
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=20) as client:
        return client.post("http://tgpu/api/v1/jobs", json={"name": "over unix"})


def rest_of(connection: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65_536):
            found += piece
    return found


def is_served(service: RealService) -> bool:
    with contextlib.suppress(httpx.HTTPError), service.client() as client:
        return client.get("/api/v1/jobs").status_code == 200
    return False


@pytest.mark.parametrize("half", HALVES, ids=["nothing", "a head", "a body", "a stream"])
def test_half_a_request_keeps_nobody_out(service: RealService, half: bytes) -> None:
    service.http.close()
    service._http = None
    with held(service, OF_A_CALLER + 5, half) as connections:
        told = [connection for connection in connections[OF_A_CALLER:] if rest_of(connection)]
        assert told, "those beyond the caller's limit are answered"
        assert over_unix(service).status_code == 201
        eventually(lambda: is_served(service), "a place over TCP")
        first = rest_of(connections[0])
        assert b" 408 " in first.partition(b"\r\n")[0]
        assert b"TIMED_OUT" in first


def test_all_places_come_back(service: RealService, tmp_path: Path) -> None:
    """Under uvloop, with every way for a connection to end."""
    for _ in range(3):
        with held(
            service, OF_A_CALLER - 2, b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        ):
            pass
    eventually(lambda: is_served(service), "a place over TCP")
    clients = [service.client() for _ in range(OF_A_CALLER - 4)]
    try:
        assert all(client.get("/api/v1/health").status_code == 200 for client in clients)
    finally:
        for client in clients:
            client.close()


def test_streams_are_bounded_and_the_refusal_says_what_to_do(service: RealService) -> None:
    eventually(lambda: is_served(service), "a place over TCP")
    with service.client() as http, contextlib.ExitStack() as streams:
        read: list[Iterator[bytes]] = []  # kept: a stream ends with its iterator
        for _ in range(2):
            stream = streams.enter_context(http.stream("GET", "/api/v1/events?after=0"))
            assert stream.status_code == 200
            read.append(stream.iter_bytes())
            next(read[-1])
        refused = http.get("/api/v1/events")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "5"
        assert "close one" in refused.json()["error"]["message"]
        url = f"ws://127.0.0.1:{service.port}/api/v1/events"
        with connect(url, proxy=None) as socket, pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=20)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.reason.startswith("RATE_LIMITED: 2 streams are open")

    def has_place() -> bool:
        with service.client() as http, http.stream("GET", "/api/v1/events") as stream:
            return stream.status_code == 200

    eventually(has_place, "a place for a stream")
