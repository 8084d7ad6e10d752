"""How many streams there may be, and how fast old events are sent."""

import asyncio

import pytest

from tgpu.api import streams as streams_module
from tgpu.api.errors import http_error
from tgpu.api.streams import Streams, TooManyStreams
from tgpu.service.identity.caller import Principal, Role

ADA, BOB = (Principal(name, Role.USER, frozenset(), kind="key") for name in ("ada", "bob"))


def test_one_caller_has_no_more_than_a_part() -> None:
    streams = Streams(2, 3)
    with streams.held(ADA), streams.held(ADA):
        with pytest.raises(TooManyStreams, match=r"2 streams are open.*limits.streams_per_caller"):
            streams.check(ADA)
        streams.check(BOB)
        with streams.held(BOB), pytest.raises(TooManyStreams, match=r"\(limits.streams\)"):
            streams.check(BOB)
    streams.check(ADA)


def test_the_refusal_is_a_429() -> None:
    found = http_error(TooManyStreams(2, "limits.streams"))
    assert (found.status, found.code, found.grpc) == (429, "RATE_LIMITED", "RESOURCE_EXHAUSTED")


async def test_readers_of_old_events_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    streams = Streams()
    for _ in range(3):
        await streams.pace(1000)
    each = 1000 * streams_module._SECONDS_FOR_AN_EVENT
    assert waits == pytest.approx([each, 2 * each], abs=0.05)
