"""Events over lost connections, with connections that break where the test says."""

import json
from collections.abc import AsyncIterator, Iterator
from itertools import islice

import httpx
import pytest

from tgpu.client import watch as watch_module
from tgpu.client.aio import AsyncClient
from tgpu.client.errors import BadAnswer, ClientError, Conflict, Lost, NoService
from tgpu.client.http import Client
from tgpu.client.watch import Watch
from tgpu.pauses import Pauses

HERE = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(watch_module, "LOOKS", Pauses(0.0, 1.0))


def a_watch(after: int | None = None) -> Watch:
    return Watch(after=after, job_id=None, tenant_id=None, readings=False, patience_seconds=5)


def sse(seq: int, **fields: object) -> bytes:
    event = {"seq": seq, "at": "2026-01-01T00:00:00.000Z", "kind": "job_started", **fields}
    text = json.dumps(event, ensure_ascii=False)
    return f"id: {seq}\nevent: {event['kind']}\ndata: {text}\n\n".encode()


class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Some bytes, then the end of the connection."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        raise httpx.RemoteProtocolError("peer closed connection")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        raise httpx.RemoteProtocolError("peer closed connection")


class FakeService:
    """One script a connection; remembers where each of them wanted to begin."""

    def __init__(self, *connections: Broken | httpx.Response | httpx.HTTPError) -> None:
        self._connections = list(connections)
        self.begun: list[str | None] = []
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.begun.append(request.url.params.get("after"))
        script = self._connections.pop(0)
        if isinstance(script, httpx.HTTPError):
            raise script
        if isinstance(script, httpx.Response):
            return script
        return httpx.Response(200, stream=script)

    def first(self, count: int, **options) -> list[int]:
        with Client(HERE, transport=self.transport) as client:
            return [event.seq for event in islice(client.events(**options), count)]

    async def first_async(self, count: int, **options) -> list[int]:
        found: list[int] = []
        async with AsyncClient(HERE, transport=self.transport) as client:
            async for event in client.events(**options):
                found.append(event.seq)
                if len(found) == count:
                    break
        return found


def a_refusal(status: int, code: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": "no"}})


def breaking() -> FakeService:
    """Breaks in the middle of event 3, is gone, comes up slowly, and goes on."""
    return FakeService(
        Broken(sse(1) + sse(2), sse(3)[:20]),
        httpx.ConnectError("refused"),
        a_refusal(503, "SERVICE_NOT_READY"),
        Broken(sse(3) + sse(4)),
        Broken(sse(5)),
    )


def test_a_lost_connection_leaves_no_gap_and_no_repetition():
    service = breaking()
    assert service.first(5, after=0) == [1, 2, 3, 4, 5]
    assert service.begun == ["0", "2", "2", "2", "4"]


async def test_the_same_holds_on_an_event_loop():
    service = breaking()
    assert await service.first_async(5, after=0) == [1, 2, 3, 4, 5]
    assert service.begun == ["0", "2", "2", "2", "4"]


def test_a_connection_lost_before_the_first_event_goes_on_from_where_it_began():
    service = FakeService(Broken(b": connected\nid: 41\n\n"), Broken(sse(42)))
    assert service.first(1) == [42]
    assert service.begun == [None, "41"]


def test_a_stream_that_ends_in_order_is_taken_up_again():
    service = FakeService(httpx.Response(200, content=sse(1)), Broken(sse(2)))
    assert service.first(2) == [1, 2]


def test_a_slow_reader_goes_on_from_where_it_was():
    slow = {"error": {"code": "SLOW_READER", "message": "too slow", "details": []}}
    dropped = f"event: error\ndata: {json.dumps(slow)}\n\n".encode()
    service = FakeService(Broken(sse(1) + dropped), Broken(sse(2)))
    assert service.first(2) == [1, 2]
    assert service.begun == [None, "1"]


def test_events_that_are_gone_are_said_to_be_gone():
    with pytest.raises(Conflict) as caught:
        FakeService(a_refusal(410, "EVENTS_GONE")).first(1, after=99)
    assert caught.value.code == "EVENTS_GONE"


def test_an_error_within_the_stream_is_raised():
    gone = {"error": {"code": "EVENTS_GONE", "message": "gone", "details": [1]}}
    with pytest.raises(ClientError) as caught:
        list(a_watch().take(f"event: error\ndata: {json.dumps(gone)}\n\n".encode()))
    assert (caught.value.code, caught.value.details) == ("EVENTS_GONE", [1])


def test_a_service_that_stays_away_is_given_up_after_the_patience():
    service = FakeService(*[httpx.ConnectError("refused")] * 3)
    with pytest.raises(NoService):
        service.first(1, patience_seconds=0)


def test_bytes_may_come_one_at_a_time():
    watch = a_watch()
    stream = b": alive\r\n\r\n" + sse(1) + sse(2)
    found = [e.seq for n in range(len(stream)) for e in watch.take(stream[n : n + 1])]
    assert (found, watch.position) == ([1, 2], 2)


def test_characters_that_end_lines_elsewhere_do_not_end_them_here():
    (event,) = a_watch().take(sse(1, job_id="a\u2028b\x85c"))
    assert event.job_id == "a\u2028b\x85c"


def test_readings_have_no_number_and_move_nothing():
    watch = a_watch(7)
    text = '{"seq": 9, "at": "x", "kind": "gpu_reading"}'
    (event,) = watch.take(f"event: gpu_reading\ndata: {text}\n\n".encode())
    assert (event.kind, watch.position) == ("gpu_reading", 7)


def test_what_is_no_event_is_a_bad_answer():
    with pytest.raises(BadAnswer):
        list(a_watch().take(b"id: 1\ndata: <html>\n\n"))


def test_a_loss_is_passed_over_while_there_is_patience():
    a_watch().lost(Lost("here", "gone"))
