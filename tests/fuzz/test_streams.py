"""Streams: parameters of the event feed, and anything at all over a WebSocket."""

from typing import Any, Final
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.fuzz.target import BOUND, CALLERS, CANARY, STRANGERS, Target

pytestmark = pytest.mark.external

PATH: Final = "/api/v1/events"
READ_SECONDS: Final = 0.2  # a feed without news says nothing for longer than this
INTERNAL_ERROR: Final = 1011
EVERYBODY: Final = st.sampled_from([*CALLERS, *STRANGERS])
TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NUMBERS: Final = st.integers(-(2**70), 2**70).map(str)
QUERIES: Final = st.dictionaries(
    st.sampled_from(["after", "since", "job", "job_id", "kinds", "types", "tenant_id", "x"]),
    st.one_of(NUMBERS, TEXTS, st.sampled_from(["0", "-1", "1e9", "NaN", "true", CANARY])),
    max_size=4,
)
SENT: Final = st.lists(st.one_of(TEXTS, st.binary(max_size=200)), max_size=4)


@given(caller=EVERYBODY, query=QUERIES, last=st.none() | NUMBERS | st.just("x" * 300))
@settings(database=None)
def test_a_feed_of_events_survives_any_request_for_it(
    target: Target, caller: str, query: dict[str, str], last: str | None
) -> None:
    headers = target.headers(caller) | {"Accept": "text/event-stream"}
    if last is not None:
        headers["Last-Event-ID"] = last
    received = b""
    with (
        httpx.Client(base_url=target.url, trust_env=False, timeout=10) as http,
        http.stream("GET", PATH, params=query, headers=headers) as answer,
    ):
        assert answer.status_code < 500
        assert answer.status_code >= 400 or caller not in STRANGERS
        received = _first_bytes(answer)
    _check(caller, received)


@given(caller=EVERYBODY, query=QUERIES, sent=SENT)
@settings(database=None)
def test_a_websocket_survives_whatever_is_sent(
    target: Target, caller: str, query: dict[str, str], sent: list[str | bytes]
) -> None:
    status = 101
    url = f"ws://127.0.0.1:{target.port}{PATH}?{urlencode(query)}"
    try:
        with connect(url, additional_headers=target.headers(caller), proxy=None) as socket:
            assert caller not in STRANGERS
            received = _exchange(socket, sent)
    except InvalidStatus as refused:
        status = refused.response.status_code
        received = b""
    except InvalidHandshake:
        status, received = 400, b""
    assert status < 500
    _check(caller, received)


def _exchange(socket: ClientConnection, sent: list[str | bytes]) -> bytes:
    received = b""
    try:
        for message in sent:
            socket.send(message)
        while len(received) < 10_000:
            said: Any = socket.recv(timeout=READ_SECONDS)
            received += said if isinstance(said, bytes) else said.encode()
    except TimeoutError:
        return received
    except ConnectionClosed as closed:
        if closed.rcvd is not None and closed.rcvd.code == INTERNAL_ERROR:
            raise AssertionError(f"it failed inside: {closed.rcvd.reason}") from closed
    return received


def _first_bytes(answer: httpx.Response) -> bytes:
    answer.request.extensions["timeout"] = {"read": READ_SECONDS}
    received = b""
    try:
        for piece in answer.iter_raw():
            received += piece
            if len(received) >= 10_000:
                break
    except httpx.ReadTimeout:
        pass
    return received


def _check(caller: str, received: bytes) -> None:
    assert b"Traceback" not in received
    if caller in (*BOUND, *STRANGERS):
        assert CANARY.encode() not in received
