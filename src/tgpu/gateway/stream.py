"""The events in Redis for all gateways: one of them, the leader, writes them.

An entry's id is its event's sequence number, so that Redis itself refuses to have one twice.
"""

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tgpu.gateway.breaker import RedisBreaker
from tgpu.gateway.ring import Event
from tgpu.gateway.shared import RAISE_GENERATION

if TYPE_CHECKING:
    from redis.asyncio import Redis

# A leader that dies is replaced after this long; until then events wait, and none is lost.
LEASE_SECONDS: Final = 5.0
BLOCK_SECONDS: Final = 2.0
_PAGE: Final = 500

_RENEW: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_RESIGN: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
# The first entry has no event: it says behind which number the row of events begins.
_BEGIN: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[3], ARGV[2])
redis.call('XADD', KEYS[2], ARGV[3] .. '-1', 'kind', '')
return 1
"""
# Together with the generation: who was told of a change must not be shown what was before.
_PUBLISH: Final = (
    RAISE_GENERATION
    + """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
for i = 4, #ARGV, 3 do
  local done = redis.pcall('XADD', KEYS[2], ARGV[i] .. '-1',
                           'kind', ARGV[i + 1], 'data', ARGV[i + 2])
  if type(done) == 'table' and done.err and not string.find(done.err, 'equal or smaller') then
    return done
  end
end
if ARGV[2] ~= '' then redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2]) end
if ARGV[3] ~= '' then
  redis.call('XADD', KEYS[3], 'MAXLEN', 16, '*', 'data', ARGV[3])
end
if #ARGV > 3 then raise(KEYS[4]) end
return 1
"""
)


class Bounds(NamedTuple):
    epoch: str  # of a row of events without a hole
    first: int  # everything behind this number is here
    last: int


class Entries(NamedTuple):
    floor: int | None  # where the row begins, if that is among them
    events: list[Event]
    readings: list[bytes]
    readings_at: str  # id to read further from


class RedisEventStream:
    """Every call raises Away while Redis cannot be asked. `waiting` has time to wait for it."""

    def __init__(
        self,
        redis: "Redis",
        waiting: "Redis",
        breaker: RedisBreaker,
        *,
        generation_key: str,
        prefix: str = "tgpu:",
    ) -> None:
        self._redis = redis
        self._waiting = waiting
        self._breaker = breaker
        self._lock = f"{prefix}leader"
        self._events = f"{prefix}events"
        self._epoch = f"{prefix}events:epoch"
        self._readings = f"{prefix}readings"
        self._generation = generation_key
        self._scripts = {
            text: redis.register_script(text) for text in (_RENEW, _RESIGN, _BEGIN, _PUBLISH)
        }

    # -- leading -------------------------------------------------------------------------------

    async def lead(self, token: str) -> bool:
        """Whether this gateway is the leader from now on, until it stops to renew it."""
        lease = round(LEASE_SECONDS * 1000)
        done = await self._breaker.call(
            lambda: self._redis.set(self._lock, token, nx=True, px=lease)
        )
        return bool(done)

    async def renew(self, token: str) -> bool:
        return await self._script(_RENEW, [self._lock], [token, round(LEASE_SECONDS * 1000)])

    async def resign(self, token: str) -> None:
        await self._script(_RESIGN, [self._lock], [token])

    async def begin(self, token: str, epoch: str, floor: int) -> bool:
        """A new row of events, all those behind `floor`. False where another one leads."""
        keys = [self._lock, self._events, self._epoch]
        return await self._script(_BEGIN, keys, [token, epoch, floor])

    async def publish(
        self, token: str, events: Sequence[Event], reading: bytes, keep_from: int | None
    ) -> bool:
        """False where another one leads. Events before `keep_from` are dropped."""
        words: list[Any] = [token, "" if keep_from is None else keep_from, reading]
        for event in events:
            words += event
        keys = [self._lock, self._events, self._readings, self._generation]
        return await self._script(_PUBLISH, keys, words)

    async def _script(self, text: str, keys: list[str], words: list[Any]) -> bool:
        script = self._scripts[text]
        done = await self._breaker.call(
            lambda: cast(Awaitable[object], script(keys=keys, args=words))
        )
        return bool(done)

    # -- reading -------------------------------------------------------------------------------

    async def bounds(self) -> Bounds | None:
        """None where there is no row of events yet."""

        async def ask() -> list[Any]:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.get(self._epoch)
                pipe.xrange(self._events, count=1)
                pipe.xrevrange(self._events, count=1)
                return await pipe.execute()

        epoch, first, last = await self._breaker.call(ask)
        if epoch is None or not first:
            return None
        (identity, fields), (newest, _) = first[0], last[0]
        begins = _seq(identity) - (0 if fields.get(b"kind") == b"" else 1)
        return Bounds(epoch.decode(), begins, _seq(newest))

    async def read(self, after: int | None, readings_at: str) -> Entries:
        """What comes next, or nothing after a while. `after` None: from the beginning."""
        events_at = "0-0" if after is None else f"{after}-1"
        found = await self._breaker.call(
            lambda: self._waiting.xread(
                {self._events: events_at, self._readings: readings_at},
                count=_PAGE,
                block=round(BLOCK_SECONDS * 1000),
            )
        )
        entries = Entries(None, [], [], readings_at)
        for name, rows in _streams(found):
            for identity, fields in rows:
                if name == self._readings:
                    entries.readings.append(fields[b"data"])
                    entries = entries._replace(readings_at=identity.decode())
                elif fields[b"kind"] == b"":
                    entries = entries._replace(floor=_seq(identity))
                else:
                    kind = fields[b"kind"].decode()
                    entries.events.append(Event(_seq(identity), kind, fields[b"data"]))
        return entries

    async def close(self) -> None:
        await self._waiting.aclose()


def _seq(identity: bytes) -> int:
    return int(identity.partition(b"-")[0])


def _streams(found: Any) -> list[tuple[str, list[tuple[bytes, dict[bytes, bytes]]]]]:
    """The answer to XREAD in one shape: newer protocols answer with a map."""
    if not found:
        return []
    pairs = found.items() if isinstance(found, dict) else found
    shaped = []
    for name, rows in pairs:
        # The map has its rows in a list of pages.
        flat = rows[0] if isinstance(found, dict) and rows and isinstance(rows[0], list) else rows
        shaped.append((name.decode(), flat))
    return shaped
