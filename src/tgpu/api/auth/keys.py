"""Creates, checks and revokes API keys. The store has their hashes; the secret is shown once."""

import asyncio
import contextvars
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from tgpu.core.errors import InvalidRequest, NotFound, Unauthenticated, Unavailable
from tgpu.core.model.ids import TenantId
from tgpu.service.identity.caller import Principal, Role, scope_of
from tgpu.service.recording.audit import concerns
from tgpu.service.recording.clock import WallClock
from tgpu.service.recording.recorder import Recorder
from tgpu.store.api import Store

PREFIX: Final = "tgpu"
_KIND: Final = "api_key"  # of the store's documents
_KEY: Final = re.compile(rf"{PREFIX}_([a-z0-9]{{10}})_([A-Za-z0-9_-]{{43}})")
_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_REFUSED: Final = "this API key is not valid; `tgpu keys list` shows all keys"
_LAST_USED_MS: Final = 3_600_000  # how exactly the last use is known: more would cost a write each
_CACHED: Final = 10_000
# A secret has 256 random bits, so no guessing is slowed down by a costlier hash; it protects
# those who read a stolen database, who cannot guess it either.
_HASHER: Final = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key: everything but its secret."""

    key_id: str
    name: str
    role: Role
    tenants: tuple[TenantId, ...] | None  # None: all
    hash: str
    created_at: int
    created_by: str
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None

    @property
    def principal(self) -> Principal:
        tenants = None if self.tenants is None else frozenset(self.tenants)
        return Principal(self.name, self.role, tenants, kind="key", key_id=self.key_id)

    def is_valid(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


_decoder: Final = msgspec.json.Decoder(ApiKey)


class KeyRing:
    """The keys of one service. There is one writer, so what is in memory is what is stored."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self._store = store
        self._recorder = recorder
        self._keys: dict[str, ApiKey] | None = None
        self._verified: dict[bytes, str] = {}  # digests of keys that were checked, and their ids
        self._changing = asyncio.Lock()
        self._checking = asyncio.Semaphore(2)  # wrong keys must not take all processors
        self._tasks: set[asyncio.Task[None]] = set()

    async def all(self) -> list[ApiKey]:
        """Newest first."""
        keys = (await self._loaded()).values()
        return sorted(keys, key=lambda key: (-key.created_at, key.key_id))

    async def create(
        self,
        name: str,
        role: Role,
        tenants: Sequence[str] | None,
        *,
        created_by: str,
        expires_at: int | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key and its text, which nobody can find out later."""
        scope = scope_of(role, tenants)
        if scope is not None and not scope:
            raise InvalidRequest(
                "tenants", list(tenants or ()), f"name the tenants of a {role}, or * for all"
            )
        now = WallClock().now()
        if expires_at is not None and expires_at <= now:
            raise InvalidRequest("expires_at", expires_at, "must be in the future")
        key_id = "".join(secrets.choice(_ALPHABET) for _ in range(10))
        secret = secrets.token_urlsafe(32)
        text = f"{PREFIX}_{key_id}_{secret}"
        key = ApiKey(
            key_id=key_id,
            name=name,
            role=role,
            tenants=None if scope is None else tuple(sorted(scope)),
            hash=await asyncio.to_thread(_HASHER.hash, secret),
            created_at=now,
            created_by=created_by,
            expires_at=expires_at,
        )
        concerns(f"{key_id} ({name})")
        async with self._changing:
            await self._put(key)
        return key, text

    async def revoke(self, key_id: str) -> ApiKey:
        """From the moment this returns nobody gets in with it."""
        concerns(key_id)
        async with self._changing:
            key = (await self._loaded()).get(key_id)
            if key is None:
                raise NotFound("API key", key_id, "`tgpu keys list` shows all keys")
            if key.revoked_at is not None:
                return key
            revoked = replace(key, revoked_at=WallClock().now())
            await self._put(revoked)
        return revoked

    async def check(self, text: str) -> Principal:
        """Whose key it is. Raises Unauthenticated, the same for every way of being wrong."""
        found = _KEY.fullmatch(text)
        key = (await self._loaded()).get(found[1]) if found is not None else None
        if found is None or key is None or not await self._is_secret(key, text, found[2]):
            raise Unauthenticated(_REFUSED)
        now = WallClock().now()
        key = (await self._loaded())[key.key_id]  # it may have been revoked meanwhile
        if not key.is_valid(now):
            raise Unauthenticated(_REFUSED)
        if key.last_used_at is None or now - key.last_used_at >= _LAST_USED_MS:
            # In a context of its own: that we note it is not the caller's doing.
            note = self._note_use(key.key_id, now)
            task = asyncio.create_task(note, context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return key.principal

    def lapse(self, text: str) -> str | None:
        """Why a key that was good lets nobody in any more; None where it still does."""
        found = _KEY.fullmatch(text)
        key = (self._keys or {}).get(found[1]) if found is not None else None
        if key is None or key.revoked_at is not None:
            return "this API key has been revoked"
        if not key.is_valid(WallClock().now()):
            return "this API key has expired; ask for another"
        return None

    async def _is_secret(self, key: ApiKey, text: str, secret: str) -> bool:
        digest = hashlib.sha256(text.encode()).digest()
        if self._verified.get(digest) == key.key_id:
            return True
        async with self._checking:
            matches = await asyncio.to_thread(_matches, key.hash, secret)
        if matches:
            if len(self._verified) >= _CACHED:
                self._verified.clear()
            self._verified[digest] = key.key_id
        return matches

    async def _note_use(self, key_id: str, now: int) -> None:
        async with self._changing:
            key = (await self._loaded())[key_id]
            if key.last_used_at is not None and now - key.last_used_at < _LAST_USED_MS:
                return
            try:
                await self._put(replace(key, last_used_at=now))
            except Unavailable:  # a full disk, or the end of the service: another time will do
                return

    async def _put(self, key: ApiKey) -> None:
        keys = await self._loaded()

        def applied() -> None:
            keys[key.key_id] = key
            if key.revoked_at is not None:
                verified = self._verified.items()
                self._verified = {d: owner for d, owner in verified if owner != key.key_id}

        await self._recorder.put_documents(
            {(_KIND, key.key_id): msgspec.json.encode(key)},
            touches=[f"{_KIND}:{key.key_id}"],
            applied=applied,
        )

    async def _loaded(self) -> dict[str, ApiKey]:
        if self._keys is None:
            loaded = decoded(await self._store.documents(_KIND))
            if self._keys is None:  # nobody else has loaded them while we did
                self._keys = loaded
        return self._keys


def decoded(documents: Mapping[str, bytes]) -> dict[str, ApiKey]:
    return {key_id: _decoder.decode(document) for key_id, document in documents.items()}


def _matches(stored: str, secret: str) -> bool:
    try:
        return _HASHER.verify(stored, secret)  # compares in constant time
    except (Argon2Error, InvalidHashError):
        return False
