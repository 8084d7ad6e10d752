"""Reads that may be answered from the cache, keyed by path, query and credentials."""

import asyncio
import contextlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tgpu.gateway.answer import Answer, Headers, pack, unpack, with_etag
from tgpu.gateway.breaker import Away
from tgpu.gateway.headers import Caller, digest_of, has_body, header, standing
from tgpu.gateway.shared import Shared
from tgpu.gateway.upstream import Upstream

# What changes only with the generation, within a second. Not in it, on purpose: logs, events,
# `why` and `wait`, which people use to see this moment; keys and the audit log. Names with
# escapes are passed through: two spellings of one path need no two copies.
_NAME: Final = rb"[A-Za-z0-9_][A-Za-z0-9._@:-]*"
_CACHED: Final = re.compile(
    rb"/stats|/jobs/NAME"
    rb"|/api/v1/(cluster/status|gpus|whoami|jobs/scheduler/info"
    rb"|(jobs|tenants|queues|nodes)(/NAME)?|tenants/NAME/usage|queues/quota/NAME)".replace(
        b"NAME", _NAME
    )
)
_LARGEST: Final = 4 << 20  # bytes of one answer: a page of a thousand jobs has less than half
_LOCAL_BYTES: Final = 64 << 20


class Read(NamedTuple):
    answer: Answer
    is_hit: bool  # the service was not asked for this caller


class Reads:
    """The cache of one process, over the one in Redis where there is Redis."""

    def __init__(self, upstream: Upstream, shared: Shared | None, seconds: float) -> None:
        self._upstream = upstream
        self._shared = shared
        self._seconds = seconds
        self._kept = KeptAnswers(_LOCAL_BYTES)
        self._flights: dict[tuple[str, int], asyncio.Task[Read]] = {}
        self._own_generation = 0  # where there is no Redis

    async def get(self, target: bytes, headers: Headers, key: str) -> Read:
        """Raises UpstreamAway."""
        try:
            generation = await self._generation()
        except Away:
            # Without Redis nobody tells us of changes made through other gateways, so that
            # nothing may be kept and no answer shared.
            return Read(with_etag(await self._upstream.fetch(target, headers)), False)
        kept = self._kept.get(key, generation)
        if kept is not None:
            return Read(kept, True)
        flight = self._flights.get((key, generation))
        if flight is not None:
            return Read((await asyncio.shield(flight)).answer, True)
        flight = asyncio.create_task(self._fetch(target, headers, key, generation))
        self._flights[key, generation] = flight
        flight.add_done_callback(lambda done: self._land((key, generation), done))
        return await asyncio.shield(flight)

    async def changed(self) -> None:
        """Something changed, or may have: no answer from before is used for later questions."""
        self._own_generation += 1
        if self._shared is not None:
            with contextlib.suppress(Away):
                await self._shared.bump()

    async def _generation(self) -> int:
        return self._own_generation if self._shared is None else await self._shared.generation()

    def _land(self, flight: tuple[str, int], done: asyncio.Task[Read]) -> None:
        del self._flights[flight]
        if not done.cancelled():
            done.exception()  # all who waited for it may have left

    async def _fetch(self, target: bytes, headers: Headers, key: str, generation: int) -> Read:
        name = f"cache:{generation}:{key}"
        if self._shared is not None:
            with contextlib.suppress(Away):
                found = await self._shared.get(name)
                answer = None if found is None else unpack(found[0])
                if found is not None and answer is not None:
                    self._kept.put(key, generation, answer, found[1])
                    return Read(answer, True)
        began = time.monotonic()
        answer = with_etag(await self._upstream.fetch(target, headers))
        seconds = self._seconds - (time.monotonic() - began)
        if answer.status == 200 and len(answer.body) <= _LARGEST and seconds > 0:
            self._kept.put(key, generation, answer, seconds)
            if self._shared is not None:
                with contextlib.suppress(Away):
                    await self._shared.put(name, pack(answer), seconds)
        return Read(answer, False)


def is_cached(scope: dict[str, Any]) -> bool:
    """Whether a request may be answered from the cache."""
    return (
        scope["method"] == "GET"
        and _CACHED.fullmatch(scope["raw_path"]) is not None
        and not has_body(scope)
        and b"no-cache" not in header(scope, b"cache-control")
    )


def target_of(scope: dict[str, Any]) -> bytes:
    query: bytes = scope["query_string"]
    path: bytes = scope["raw_path"]
    return path + b"?" + query if query else path


def key_of(target: bytes, scope: dict[str, Any], caller: Caller) -> str:
    """One name for each question of each caller: nobody is given another's answer."""
    accept = header(scope, b"accept")
    parts = ((b"", target), (b"accept", accept), *standing(caller))
    return digest_of(parts)


class KeptAnswers:
    """Answers in this process, those used longest ago dropped first."""

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._bytes = 0
        self._answers: OrderedDict[str, tuple[int, float, Answer]] = OrderedDict()

    def get(self, key: str, generation: int) -> Answer | None:
        found = self._answers.get(key)
        if found is None:
            return None
        made, until, answer = found
        if made != generation or self._clock() >= until:
            return None
        self._answers.move_to_end(key)
        return answer

    def put(self, key: str, generation: int, answer: Answer, seconds: float) -> None:
        old = self._answers.get(key)
        if old is not None:
            if old[0] > generation:
                return  # one that was asked for later has come earlier
            self._bytes -= _size(old[2])
            del self._answers[key]
        self._answers[key] = generation, self._clock() + seconds, answer
        self._bytes += _size(answer)
        while self._bytes > self._max_bytes:
            _, (_, _, dropped) = self._answers.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(answer: Answer) -> int:
    return len(answer.body) + 1000  # the rest, roughly
