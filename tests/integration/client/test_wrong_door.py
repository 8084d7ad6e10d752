"""An address that leads to something else than the scheduler: the sentence says what."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import grpc
import pytest
import trustme

from tgpu.client.aio import AsyncClient
from tgpu.client.errors import NoService
from tgpu.client.http import Client
from tgpu.client.target import parse_target


@contextlib.contextmanager
def a_web_server(context: ssl.SSLContext | None = None) -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that leaves
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def a_grpc_server() -> Iterator[int]:
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    issued = trustme.CA().issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    return context


def told(url: str) -> str:
    with Client(parse_target(url)) as client, pytest.raises(NoService) as caught:
        client.health()
    return caught.value.problem


def test_https_to_a_port_of_http() -> None:
    with a_web_server() as port:
        sentence = f"it does not speak https: write http://127.0.0.1:{port}"
        assert told(f"https://127.0.0.1:{port}") == sentence


def test_http_to_a_port_of_https(certified: ssl.SSLContext) -> None:
    with a_web_server(certified) as port:
        assert (
            told(f"http://127.0.0.1:{port}") == f"it speaks https: write https://127.0.0.1:{port}"
        )


def test_a_certificate_of_an_unknown_authority(certified: ssl.SSLContext) -> None:
    with a_web_server(certified) as port:
        assert told(f"https://127.0.0.1:{port}").endswith(
            "set TGPU_CA_FILE to the file of its certificate authority"
        )


def test_the_port_of_grpc() -> None:
    with a_grpc_server() as port:
        sentence = told(f"http://127.0.0.1:{port}")
        assert sentence.startswith("the server there does not speak HTTP/1: is it the gRPC port")
        assert "(api.http_port, 8080 by default)" in sentence


async def test_the_port_of_grpc_for_the_client_that_does_not_block() -> None:
    with a_grpc_server() as port:
        async with AsyncClient(parse_target(f"http://127.0.0.1:{port}")) as client:
            with pytest.raises(NoService, match="is it the gRPC port"):
                await client.health()


def test_nobody_at_all_and_no_such_machine(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        assert told(f"http://127.0.0.1:{taken.getsockname()[1]}") == "nothing listens there"
    assert told("http://no-such-machine.invalid") == "no machine has this name"
    assert told(f"unix:{tmp_path}/none.sock") == "there is no such socket"
