"""The gateway as an ASGI application: who may ask, and where the answer comes from."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple

import structlog
from starlette.types import Receive, Scope, Send

from tgpu import __version__
from tgpu.gateway.answer import (
    Answer,
    Headers,
    as_json,
    is_known,
    not_there,
    send_unchanged,
    send_whole,
    too_many,
)
from tgpu.gateway.fanout import Lapsed, reader_for, serve_sse, serve_websocket
from tgpu.gateway.feeder import Feeder, Leader
from tgpu.gateway.headers import (
    Caller,
    caller_of,
    digest_of,
    header,
    of_a_read,
    passed_on,
    standing,
)
from tgpu.gateway.limits import Identity, RequestLimits, identity_in
from tgpu.gateway.options import GatewayOptions
from tgpu.gateway.reads import Reads, is_cached, key_of, target_of
from tgpu.gateway.relay import Relay
from tgpu.gateway.ring import Ring, RingReader
from tgpu.gateway.shared import Shared, connect, make_breaker
from tgpu.gateway.source import EventSource
from tgpu.gateway.stream import BLOCK_SECONDS, RedisEventStream
from tgpu.gateway.upstream import Upstream, UpstreamAway

_log = structlog.get_logger("gpu_scheduler.gateway")

_AFTER_A_BUG_SECONDS: Final = 1.0
# How soon a watcher whose key was revoked is let go. Many watchers with one key ask once.
_LOOK_SECONDS: Final = 1.0
HEALTH_PATH: Final = "/gateway/health"
_EVENTS_PATH: Final = b"/api/v1/events"
_WHOAMI: Final = b"/api/v1/whoami"
_HIT: Final[Headers] = [(b"x-cache", b"hit")]
_MISS: Final[Headers] = [(b"x-cache", b"miss")]


class _Redis(NamedTuple):
    shared: Shared
    stream: RedisEventStream


def _connect(url: str) -> _Redis:
    redis = connect(url)
    breaker = make_breaker(redis)
    waiting = connect(url, answer_seconds=BLOCK_SECONDS + 3)
    shared = Shared(redis, breaker)
    key = shared.generation_key
    return _Redis(shared, RedisEventStream(redis, waiting, breaker, generation_key=key))


class Gateway:
    """ASGI. To be entered with `async with` for as long as it serves."""

    def __init__(self, options: GatewayOptions) -> None:
        self._upstream = Upstream(options.upstream)
        self._redis = None if options.redis_url is None else _connect(options.redis_url)
        self._shared = None if self._redis is None else self._redis.shared
        stream = None if self._redis is None else self._redis.stream
        self._reads = Reads(self._upstream, self._shared, options.cache_seconds)
        self._limits = RequestLimits(
            options.requests_per_second, options.burst, self._shared, self._identify
        )
        self._relay = Relay(self._upstream, self._reads.changed)
        self._ring = Ring()
        source = EventSource(self._upstream, options.api_key)
        self._feeder = Feeder(self._ring, source, stream, self._reads.changed)
        self._leader = None if stream is None else Leader(self._ring, source, stream)
        self._insists = options.insecure_listen
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Gateway":
        self._tasks.append(asyncio.create_task(_without_end(self._feeder.run)))
        if self._leader is not None:
            self._tasks.append(asyncio.create_task(_without_end(self._leader.run)))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end_streams()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._upstream.close()
        if self._redis is not None:
            await self._redis.stream.close()
            await self._redis.shared.close()

    def end_streams(self) -> None:
        """Watchers are told that the gateway ends; they come back elsewhere."""
        self._ending.set()

    async def asks_who_calls(self) -> bool:
        """Whether the service lets nobody in whom it does not know. UpstreamAway."""
        # For somebody else: we ourselves may well be served without being asked.
        stranger = passed_on(Caller("192.0.2.1"))
        return (await self._upstream.fetch(_WHOAMI, stranger)).status == 401

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fields: dict[str, Any] = dict(scope)
        if fields["type"] == "http":
            await self._http(fields, receive, send)
        elif fields["type"] == "websocket":
            fields.setdefault("raw_path", fields["path"].encode())
            await self._websocket(fields, receive, send)

    async def _http(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["path"] == HEALTH_PATH:
            await send_whole(send, as_json(200, self._health()))
            return
        caller = caller_of(scope, insists=self._insists)
        try:
            wait = await self._limits.wait_seconds(caller)
            if wait:
                await send_whole(send, too_many(wait))
            elif is_cached(scope):
                await self._read(scope, send, caller)
            elif reader := await self._reader(scope, caller, "GET"):
                lapse = partial(self._until_lapsed, caller)
                await self._watch(serve_sse(reader, receive, send, self._ending, lapse))
            else:
                await self._relay.http(scope, receive, send, caller)
        except UpstreamAway:
            await send_whole(send, not_there(self._upstream.url))

    async def _read(self, scope: dict[str, Any], send: Send, caller: Caller) -> None:
        target = target_of(scope)
        key = key_of(target, scope, caller)
        answer, is_hit = await self._reads.get(target, of_a_read(scope, caller), key)
        extra = _HIT if is_hit else _MISS
        if answer.status == 200 and is_known(answer, header(scope, b"if-none-match")):
            await send_unchanged(send, answer, extra)
        else:
            await send_whole(send, answer, extra)

    async def _websocket(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        caller = caller_of(scope, insists=self._insists)
        try:
            wait = await self._limits.wait_seconds(caller)
            reader = None if wait else await self._reader(scope, caller)
        except UpstreamAway:
            reader, wait = None, 0.0  # the relay says so
        if wait:
            # Before it is accepted this becomes an answer with status 403.
            await send({"type": "websocket.close", "code": 1013, "reason": "too many requests"})
        elif reader is not None:
            lapse = partial(self._until_lapsed, caller)
            await self._watch(serve_websocket(reader, receive, send, self._ending, lapse))
        else:
            await self._relay.websocket(scope, receive, send, caller)

    async def _reader(
        self, scope: dict[str, Any], caller: Caller, method: str | None = None
    ) -> RingReader | None:
        """For a watcher whom the fan-out can serve: one who may see everything."""
        if scope["raw_path"] != _EVENTS_PATH or scope.get("method") != method:
            return None
        identity = await self._identify(caller)
        if identity is None or not identity.sees_all:
            return None
        return reader_for(scope, self._ring)

    async def _watch(self, serving: Any) -> None:
        self._ring.watchers += 1
        try:
            await serving
        finally:
            self._ring.watchers -= 1

    async def _until_lapsed(self, caller: Caller) -> None:
        """Raises Lapsed when the service would no longer show this watcher everything.

        A service that is away tells nothing about that, and watchers are kept meanwhile.
        """
        if not caller.digest:  # the owner, known by the connection: nothing that could lapse
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            with contextlib.suppress(UpstreamAway):
                answer = await self._whoami(caller)
                identity = identity_in(answer)
                if answer.status < 500 and (identity is None or not identity.sees_all):
                    raise Lapsed

    async def _identify(self, caller: Caller) -> Identity | None:
        """Whom the service takes them for: cached like any other read, and as short."""
        return identity_in(await self._whoami(caller))

    async def _whoami(self, caller: Caller) -> Answer:
        key = digest_of(standing(caller))
        headers = [*caller.credentials, *caller.page, *passed_on(caller)]
        answer, _ = await self._reads.get(_WHOAMI, headers, f"whoami:{key}")
        return answer

    def _health(self) -> dict[str, object]:
        redis = "off" if self._shared is None else "away" if self._shared.is_away else "up"
        return {
            "status": "degraded" if redis == "away" else "healthy",
            "version": __version__,
            "upstream": self._upstream.url,
            "redis": redis,
            "leads": self._leader is not None and self._leader.leads,
            "events": "shared" if self._ring.is_open else "passed through",
            "watchers": self._ring.watchers,
        }


async def _without_end(run: Callable[[], Awaitable[None]]) -> None:
    """A bug in it must not end the fan-out for as long as the gateway lives."""
    while True:
        try:
            await run()
        except Exception:
            _log.exception("the fan-out of events met a bug; trying again")
        await asyncio.sleep(_AFTER_A_BUG_SECONDS)
