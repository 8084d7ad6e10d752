"""Tokens (JWT): HS256 with a shared secret, RS256 with the issuer's public keys.

Each algorithm has keys of its own and only those, so a token that names the other one cannot be
checked with the wrong kind of key; `none` has no keys at all.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt
import structlog

from tgpu.core.errors import Unauthenticated, Unavailable
from tgpu.service.identity.caller import Principal, Role, scope_of
from tgpu.settings.model import AuthSettings, is_loopback
from tgpu.text.system_words import system_words

_log = structlog.get_logger("gpu_scheduler.auth")

_LEEWAY_SECONDS: Final = 10  # clocks differ
_MOST_JWKS_BYTES: Final = 1_000_000
_FETCH_SECONDS: Final = 5.0
_KEPT_SECONDS: Final = 3600.0
_LEAST_SECRET_BYTES: Final = 32
_NOT_VALID: Final = "this token is not valid"


class BadAuthSettings(Exception):
    """Why tokens cannot be checked with these settings, in a sentence."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must have, and where its role and tenants are."""

    audience: str = ""
    issuer: str = ""
    role_claim: str = "role"
    tenants_claim: str = "tenants"


class Jwks:
    """The issuer's public keys, from a file or an address."""

    def __init__(
        self,
        *,
        file: Path | None = None,
        url: str = "",
        least_seconds: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._file = file
        self._url = url
        self._least_seconds = least_seconds  # between two looks for a key that is not there
        self._transport = transport
        self._keys: dict[str, jwt.PyJWK] = {}
        self._loaded_at: float | None = None
        self._looked_at: float | None = None
        self._loading = asyncio.Lock()

    async def key(self, kid: str) -> jwt.PyJWK | None:
        """The key of that id; the only one there is where the token names none."""
        if self._is_old():
            await self._load()
        found = self._find(kid)
        if found is None and self._may_look():
            await self._load()
            found = self._find(kid)
        return found

    def _find(self, kid: str) -> jwt.PyJWK | None:
        if kid:
            return self._keys.get(kid)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    def _is_old(self) -> bool:
        old = self._loaded_at is None or time.monotonic() - self._loaded_at > _KEPT_SECONDS
        return old and self._may_look()

    def _may_look(self) -> bool:
        return self._looked_at is None or time.monotonic() - self._looked_at >= self._least_seconds

    async def _load(self) -> None:
        async with self._loading:
            if not self._may_look():
                return  # somebody did while we waited
            self._looked_at = time.monotonic()
            try:
                self._keys = parse_jwks(await self._read())
                self._loaded_at = time.monotonic()
            except (OSError, httpx.HTTPError, ValueError) as error:
                # Keys that were good go on being good; without any, nobody can be checked.
                _log.warning("cannot read the public keys of tokens", problem=str(error))
        if self._loaded_at is None:
            raise Unavailable("the public keys of tokens cannot be read now; try again later")

    async def _read(self) -> bytes:
        if self._file is not None:
            return await asyncio.to_thread(self._file.read_bytes)
        local = is_loopback(urlsplit(self._url).hostname or "")
        async with (
            httpx.AsyncClient(
                timeout=_FETCH_SECONDS, trust_env=not local, transport=self._transport
            ) as client,
            client.stream("GET", self._url) as answer,
        ):
            answer.raise_for_status()
            body = b""
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > _MOST_JWKS_BYTES:
                    raise ValueError("the answer is too long for a set of keys")
            return body


def parse_jwks(text: bytes) -> dict[str, jwt.PyJWK]:
    """The RSA keys for signatures, by id. ValueError where there are none."""
    found: dict[str, jwt.PyJWK] = {}
    content = json.loads(text)
    entries = content.get("keys") if isinstance(content, dict) else None
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(entry, dict) or entry.get("kty") != "RSA":
            continue
        if entry.get("use", "sig") != "sig" or entry.get("alg", "RS256") != "RS256":
            continue
        try:
            found[str(entry.get("kid") or f"#{number}")] = jwt.PyJWK(entry, "RS256")
        except jwt.PyJWTError as error:
            raise ValueError(f"key {number} cannot be read: {error}") from None
    if not found:
        raise ValueError("there is no RSA key in it")
    return found


class Tokens:
    """Checks tokens. Without a secret and without keys every token is refused."""

    def __init__(
        self, rules: TokenRules, *, secret: bytes | None = None, jwks: Jwks | None = None
    ) -> None:
        self._rules = rules
        self._secret = secret
        self._jwks = jwks

    async def check(self, token: str) -> Principal:
        """Whose token it is. Raises Unauthenticated."""
        try:
            header = jwt.get_unverified_header(token)
            key, algorithm = await self._key(header)
            claims = self._decode(token, key, algorithm)
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("this token has expired; get a new one") from None
        except jwt.PyJWTError as error:
            _log.info("a token was refused", problem=str(error))
            raise Unauthenticated(_NOT_VALID) from None
        return principal_of(claims, self._rules)

    @staticmethod
    def expires_at(token: str) -> float:
        """When a token that was checked lets nobody in any more, in ms since the epoch."""
        claims = jwt.decode(token, options={"verify_signature": False, "verify_exp": False})
        return (float(claims["exp"]) + _LEEWAY_SECONDS) * 1000

    async def _key(self, header: Mapping[str, Any]) -> tuple[bytes | jwt.PyJWK, str]:
        algorithm = header.get("alg")
        if algorithm == "HS256" and self._secret is not None:
            return self._secret, "HS256"
        if algorithm == "RS256" and self._jwks is not None:
            kid = header.get("kid", "")
            key = await self._jwks.key(kid) if isinstance(kid, str) else None
            if key is not None:
                return key, "RS256"
            raise jwt.InvalidKeyError("no key of that id")
        raise jwt.InvalidAlgorithmError(f"algorithm {algorithm!r} is not accepted")

    def _decode(self, token: str, key: bytes | jwt.PyJWK, algorithm: str) -> dict[str, Any]:
        rules = self._rules
        required = ["exp", *(["aud"] if rules.audience else []), *(["iss"] if rules.issuer else [])]
        return jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=rules.audience or None,
            issuer=rules.issuer or None,
            leeway=_LEEWAY_SECONDS,
            options={"require": required, "verify_aud": bool(rules.audience)},
        )


def principal_of(claims: Mapping[str, Any], rules: TokenRules) -> Principal:
    role = _role(_claim(claims, rules.role_claim))
    if role is None:
        raise Unauthenticated(f"this token names no role in its claim {rules.role_claim}")
    tenants = _words(_claim(claims, rules.tenants_claim))
    name = claims.get("sub") or claims.get("email") or "unnamed"
    return Principal(str(name), role, scope_of(role, tenants), kind="user")


def tokens_of(settings: AuthSettings) -> Tokens:
    """Raises BadAuthSettings."""
    rules = TokenRules(
        settings.jwt_audience,
        settings.jwt_issuer,
        settings.jwt_role_claim,
        settings.jwt_tenants_claim,
    )
    return Tokens(rules, secret=_secret(settings.jwt_secret_file), jwks=_jwks(settings))


def _secret(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        raise BadAuthSettings(f"auth.jwt_secret_file {file}: {system_words(error)}") from None
    if len(secret) < _LEAST_SECRET_BYTES:
        raise BadAuthSettings(
            f"auth.jwt_secret_file {file}: must have {_LEAST_SECRET_BYTES} bytes or more; "
            "make one with: openssl rand -hex 32"
        )
    return secret


def _jwks(settings: AuthSettings) -> Jwks | None:
    file, url = settings.jwt_jwks_file, settings.jwt_jwks_url
    if file is not None and url:
        raise BadAuthSettings("set auth.jwt_jwks_file or auth.jwt_jwks_url, not both")
    if file is not None:
        try:
            parse_jwks(file.read_bytes())
        except OSError as error:
            raise BadAuthSettings(f"auth.jwt_jwks_file {file}: {system_words(error)}") from None
        except ValueError as error:
            raise BadAuthSettings(f"auth.jwt_jwks_file {file}: {error}") from None
        return Jwks(file=file)
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme != "https" and not (
        parts.scheme == "http" and is_loopback(parts.hostname or "")
    ):
        raise BadAuthSettings(f"auth.jwt_jwks_url {url}: must begin with https://")
    return Jwks(url=url)


def _claim(claims: Mapping[str, Any], path: str) -> object:
    if path in claims:  # names such as https://example.org/role have dots of their own
        return claims[path]
    found: object = claims
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _words(value: object) -> Sequence[str] | None:
    if isinstance(value, str):
        return value.replace(",", " ").split()
    if isinstance(value, list):
        return [word for word in value if isinstance(word, str)]
    return None


def _role(value: object) -> Role | None:
    """The highest of those named: an issuer may give a list with much else in it."""
    named = _words(value) or ()
    return next((role for role in Role if role in named), None)
