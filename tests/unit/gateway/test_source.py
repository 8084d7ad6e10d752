"""Server-sent events of the service, put together from pieces."""

import pytest

from tgpu.gateway.ring import Event
from tgpu.gateway.source import Gone, SseReader
from tgpu.gateway.upstream import UpstreamAway

TEXT = (
    b": connected\nid: 4\n\n"
    b'id: 5\nevent: job_started\ndata: {"seq":5}\n\n'
    b": alive\n\n"
    b'event: gpu_reading\ndata: {"seq":5,"kind":"gpu_reading"}\n\n'
)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_pieces_of_any_size_give_the_same_events(size: int) -> None:
    reader = SseReader()
    batches = [reader.take(TEXT[at : at + size]) for at in range(0, len(TEXT), size)]
    assert [b.position for b in batches if b.position is not None] == [4]
    assert [e for b in batches for e in b.events] == [Event(5, "job_started", b'{"seq":5}')]
    assert [r for b in batches for r in b.readings] == [b'{"seq":5,"kind":"gpu_reading"}']


@pytest.mark.parametrize(("code", "kind"), [("EVENTS_GONE", Gone), ("SLOW_READER", UpstreamAway)])
def test_errors_in_the_stream_are_raised(code: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        SseReader().take(b'event: error\ndata: {"error":{"code":"%b"}}\n\n' % code.encode())


def test_an_event_reads_the_same_behind_the_gateway() -> None:
    event = SseReader().take(TEXT).events[0]
    assert event.as_sse() in TEXT
