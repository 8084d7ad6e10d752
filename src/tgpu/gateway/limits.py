"""Rate limits per caller over all gateways; while Redis is down, in this one."""

import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tgpu.gateway.answer import Answer
from tgpu.gateway.breaker import Away
from tgpu.gateway.headers import Caller
from tgpu.gateway.shared import Shared
from tgpu.token_buckets import TokenBuckets

_REMEMBERED: Final = 10_000
# How long it is known whose credentials these are, without asking again.
_KNOWN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the service takes somebody for."""

    name: str  # "key:ci-pipeline"; "" where it asks nobody who they are
    sees_all: bool  # operators and admins of all tenants


Who = Callable[[Caller], Awaitable[Identity | None]]


def identity_in(whoami: Answer) -> Identity | None:
    """From the service's answer; None where it knows no such caller."""
    if whoami.status != 200:
        return None
    try:
        found = json.loads(whoami.body)
        is_local = found["kind"] == "local"
        sees_all = found["role"] in ("admin", "operator") and found["tenants"] is None
        return Identity("" if is_local else f"{found['kind']}:{found['name']}", sees_all)
    except (ValueError, KeyError, TypeError):
        return None


class RequestLimits:
    """`per_second` 0 is no limit. `who` asks the service."""

    def __init__(self, per_second: float, burst: int, shared: Shared | None, who: Who) -> None:
        self._per_second = per_second
        self._burst = burst
        self._shared = shared
        self._who = who
        self._own = TokenBuckets(per_second, burst)
        self._known: OrderedDict[str, tuple[float, str]] = OrderedDict()

    async def wait_seconds(self, caller: Caller) -> float:
        """Counts one request; 0 where it is within the limit."""
        if not self._per_second:
            return 0.0
        name = self._name(caller)
        if name is not None:
            return await self._take(name)
        # Credentials that nobody checked yet count for the address, or inventing new ones all the
        # time would go around every limit.
        wait = await self._take(f"from {caller.address}")
        if not wait and caller.digest:
            await self._learn(caller)
        return wait

    def _name(self, caller: Caller) -> str | None:
        known = self._known.get(caller.digest) if caller.digest else None
        return known[1] if known is not None and time.monotonic() < known[0] else None

    async def _learn(self, caller: Caller) -> None:
        found = await self._who(caller)
        self._known.pop(caller.digest, None)
        if found is not None and found.name:
            self._known[caller.digest] = time.monotonic() + _KNOWN_SECONDS, found.name
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    async def _take(self, name: str) -> float:
        if self._shared is not None:
            try:
                return await self._shared.take(name, self._per_second, self._burst)
            except Away:
                pass
        return self._own.take(name)
