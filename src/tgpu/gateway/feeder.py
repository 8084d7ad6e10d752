"""Keeps the ring filled: from Redis, and from the service itself while there is no Redis.

The leader is the one gateway that writes to Redis what the service tells, so that any number of
gateways costs the service one subscription.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from tgpu.gateway.breaker import Away
from tgpu.gateway.first import first_of
from tgpu.gateway.ring import Ring
from tgpu.gateway.source import Batch, EventSource, Gone, NotForUs
from tgpu.gateway.stream import LEASE_SECONDS, Bounds, RedisEventStream
from tgpu.gateway.upstream import UpstreamAway

_log = structlog.get_logger("gpu_scheduler.gateway")

_LOOK_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.5
# The key of a gateway, or its rights, may be changed while it runs.
_REFUSED_SECONDS: Final = 10.0


class Feeder:
    """`changed` is told whenever the service tells us that something changed."""

    def __init__(
        self,
        ring: Ring,
        source: EventSource,
        stream: RedisEventStream | None,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._ring = ring
        self._source = source
        self._stream = stream
        self._changed = changed
        # Of the row in Redis that the ring is a piece of; None: of one that we read ourselves.
        self._epoch: str | None = None

    async def run(self) -> None:
        while True:
            stream = self._stream
            if stream is None:
                await self._from_service()
                continue
            try:
                await self._from_redis(stream)
            except Away:
                self._epoch = None
            await first_of(self._from_service(), self._until_covered(stream))

    # -- from Redis ----------------------------------------------------------------------------

    async def _from_redis(self, stream: RedisEventStream) -> None:
        """Until Redis goes (Away), or has begun a row of events that ours is not a piece of."""
        readings_at = "$"
        bounds = await stream.bounds()
        if self._ring.is_open and self._epoch is None:
            if bounds is None or not self._ring.covers_from(bounds.first):
                return
            self._epoch = bounds.epoch
        while True:
            ring = self._ring
            position = ring.last if ring.is_open else None
            entries = await stream.read(position, readings_at)
            readings_at = entries.readings_at
            # Looked at after the reading: only what was there then is known to be without a hole.
            bounds = await stream.bounds()
            if ring.is_open and not self._continues(bounds, position):
                ring.shut()
                continue
            if not ring.is_open:
                if bounds is None or (entries.floor is None and not entries.events):
                    continue
                floor = entries.floor
                ring.open(entries.events[0].seq - 1 if floor is None else floor)
                self._epoch = bounds.epoch
            ring.add(entries.events)
            for reading in entries.readings:
                ring.add_reading(reading)

    def _continues(self, bounds: Bounds | None, position: int | None) -> bool:
        if bounds is None or bounds.epoch != self._epoch:
            return False
        return position is None or bounds.first <= position

    async def _until_covered(self, stream: RedisEventStream) -> None:
        """Returns when Redis is there, and has all that comes after the ring's last event."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            with contextlib.suppress(Away):
                bounds = await stream.bounds()
                if not self._ring.is_open:
                    return
                if bounds is not None and self._ring.covers_from(bounds.first):
                    return

    # -- from the service ----------------------------------------------------------------------

    async def _from_service(self) -> None:
        ring = self._ring
        refused = False
        while True:
            try:
                async for batch in self._source.follow(ring.last if ring.is_open else None):
                    refused = False
                    await self._take(batch)
            except Gone:
                ring.shut()
            except NotForUs:
                ring.shut()
                if not refused:
                    _log.info(_NO_FAN_OUT)
                refused = True
                await asyncio.sleep(_REFUSED_SECONDS)
            except UpstreamAway:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _take(self, batch: Batch) -> None:
        if batch.position is not None and not self._ring.is_open:
            self._ring.open(batch.position)
        if batch.events:
            # First: who is told of a change must not be shown what was before.
            await self._changed()
            self._ring.add(batch.events)
        for reading in batch.readings:
            self._ring.add_reading(reading)


_NO_FAN_OUT: Final = (
    "events are passed through one by one: this gateway may not see all tenants' events; "
    "give it an operator's key in TGPU_API_KEY"
)


class Leader:
    """Takes the lead when nobody has it, and writes to Redis what the service tells."""

    def __init__(self, ring: Ring, source: EventSource, stream: RedisEventStream) -> None:
        self._ring = ring
        self._source = source
        self._stream = stream
        self._token = secrets.token_hex(16)
        self.leads = False

    async def run(self) -> None:
        while True:
            pause = _LOOK_SECONDS
            try:
                if await self._stream.lead(self._token):
                    self.leads = True
                    await first_of(self._renew(), self._feed())
            except NotForUs:
                pause = _REFUSED_SECONDS
            except (Away, UpstreamAway, Gone):
                pass
            finally:
                if self.leads:
                    self.leads = False
                    with contextlib.suppress(Away):
                        await self._stream.resign(self._token)
            await asyncio.sleep(pause)

    async def _renew(self) -> None:
        leads = True
        while leads:
            await asyncio.sleep(LEASE_SECONDS / 4)
            leads = await self._stream.renew(self._token)

    async def _feed(self) -> None:
        bounds = await self._stream.bounds()
        # Where our own row ends, so that gateways that have it can go on with this one.
        own = self._ring.last if self._ring.is_open else None
        after = own if bounds is None else bounds.last
        try:
            await self._write(after, has_begun=bounds is not None)
        except Gone:
            await self._write(None, has_begun=False)

    async def _write(self, after: int | None, *, has_begun: bool) -> None:
        async for batch in self._source.follow(after):
            if batch.position is not None and not has_begun:
                has_begun = True
                epoch = secrets.token_hex(8)
                if not await self._stream.begin(self._token, epoch, batch.position):
                    return
            if not (batch.events or batch.readings):
                continue
            newest = batch.readings[-1] if batch.readings else b""
            # With the entry at the floor itself, which may be the one that says where it begins.
            keep_from = self._ring.floor
            if not await self._stream.publish(self._token, batch.events, newest, keep_from):
                return
