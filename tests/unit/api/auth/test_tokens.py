"""Tokens: who is let in, and the ways that people have tried to be."""

import base64
import json
import time
from pathlib import Path

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tgpu.api.auth.tokens import (
    BadAuthSettings,
    Jwks,
    TokenRules,
    Tokens,
    parse_jwks,
    tokens_of,
)
from tgpu.core.errors import Unauthenticated, Unavailable
from tgpu.service.identity.caller import Role
from tgpu.settings import AuthSettings

SECRET = b"a secret of more than thirty-two bytes"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwks(**keys: rsa.RSAPrivateKey) -> bytes:
    entries = [
        json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"kid": kid}
        for kid, key in keys.items()
    ]
    return json.dumps({"keys": entries}).encode()


@pytest.fixture
def jwks_file(tmp_path: Path) -> Path:
    file = tmp_path / "jwks.json"
    file.write_bytes(jwks(first=KEY))
    return file


def claims(**more: object) -> dict[str, object]:
    return {"sub": "ada", "exp": time.time() + 60, "role": "user", "tenants": ["a"], **more}


def hs256(**more: object) -> str:
    return jwt.encode(claims(**more), SECRET, "HS256")


def rs256(key: rsa.RSAPrivateKey = KEY, kid: str | None = "first", **more: object) -> str:
    return jwt.encode(claims(**more), key, "RS256", headers={"kid": kid} if kid else None)


def shared(**rules: str) -> Tokens:
    return Tokens(TokenRules(**rules), secret=SECRET)


async def test_a_token_names_its_holder_with_role_and_tenants():
    found = await shared().check(hs256())
    assert (found.name, found.role, found.scope, found.kind) == ("ada", Role.USER, ("a",), "user")


async def test_a_token_signed_with_a_published_key_is_good(jwks_file):
    tokens = Tokens(TokenRules(), jwks=Jwks(file=jwks_file))
    assert (await tokens.check(rs256())).name == "ada"


async def test_a_token_that_names_no_key_is_checked_with_the_only_one(jwks_file):
    tokens = Tokens(TokenRules(), jwks=Jwks(file=jwks_file))
    assert (await tokens.check(rs256(kid=None))).name == "ada"


async def test_an_expired_token_is_told_so():
    with pytest.raises(Unauthenticated, match="has expired"):
        await shared().check(hs256(exp=time.time() - 60))


def without_expiry() -> str:
    content = claims()
    del content["exp"]
    return jwt.encode(content, SECRET, "HS256")


def unsigned() -> str:
    head, body = ({"alg": "none", "typ": "JWT"}, claims())
    parts = [base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=") for p in (head, body)]
    return b".".join([*parts, b""]).decode()


@pytest.mark.parametrize(
    "token",
    [
        without_expiry(),
        unsigned(),
        hs256()[:-2],
        jwt.encode(claims(), b"x" * 40, "HS256"),
        jwt.encode(claims(), SECRET + b"y" * 40, "HS512"),
        rs256(),
        "no.token.at-all",
        "",
    ],
    ids=["no expiry", "alg none", "cut", "other secret", "HS512", "RS256", "rubbish", "empty"],
)
async def test_no_other_token_is_good_where_there_is_a_shared_secret(token):
    with pytest.raises(Unauthenticated):
        await shared().check(token)


async def test_the_public_key_is_no_shared_secret(jwks_file):
    """Algorithm confusion: what everybody can read must not sign anything."""
    public = KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head = {"alg": "HS256", "typ": "JWT", "kid": "first"}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (head, claims())
    ]
    signed = b".".join(parts)
    mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = base64.urlsafe_b64encode(mac.sign(signed, public)).rstrip(b"=")
    forged = b".".join([signed, signature]).decode()
    for tokens in (
        Tokens(TokenRules(), jwks=Jwks(file=jwks_file)),
        Tokens(TokenRules(), jwks=Jwks(file=jwks_file), secret=SECRET),
    ):
        with pytest.raises(Unauthenticated):
            await tokens.check(forged)


async def test_a_token_of_another_key_with_a_known_name_is_refused(jwks_file):
    with pytest.raises(Unauthenticated):
        await Tokens(TokenRules(), jwks=Jwks(file=jwks_file)).check(rs256(OTHER_KEY))


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        ({"audience": "tgpu"}, {"aud": "tgpu"}, {"aud": "mail"}),
        ({"audience": "tgpu"}, {"aud": ["mail", "tgpu"]}, {}),
        ({"issuer": "https://id"}, {"iss": "https://id"}, {"iss": "https://else"}),
        ({"issuer": "https://id"}, {"iss": "https://id"}, {}),
    ],
)
async def test_audience_and_issuer_are_checked_where_they_are_set(rules, good, bad):
    assert (await shared(**rules).check(hs256(**good))).name == "ada"
    with pytest.raises(Unauthenticated):
        await shared(**rules).check(hs256(**bad))


async def test_an_audience_is_not_asked_for_where_none_is_set():
    assert (await shared().check(hs256(aud="whoever"))).name == "ada"


async def test_role_and_tenants_are_where_the_settings_say():
    tokens = shared(role_claim="realm.roles", tenants_claim="https://example.org/teams")
    token = hs256(
        realm={"roles": ["offline_access", "viewer", "operator"]},
        **{"https://example.org/teams": "a,b"},
    )
    found = await tokens.check(token)
    assert (found.role, found.scope) == (Role.OPERATOR, ("a", "b"))


@pytest.mark.parametrize("role", [None, "root", 7, ["x"], {"admin": True}])
async def test_a_token_without_a_role_of_ours_is_refused(role):
    with pytest.raises(Unauthenticated, match="names no role"):
        await shared().check(hs256(role=role))


async def test_a_user_without_tenants_sees_nothing():
    assert (await shared().check(hs256(tenants=None))).tenants == frozenset()


# -- the issuer's keys ---------------------------------------------------------------------------


class Issuer(httpx.AsyncBaseTransport):
    def __init__(self, *answers: bytes | int) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, int):
            return httpx.Response(answer)
        return httpx.Response(200, content=answer)


def from_issuer(issuer: Issuer, least_seconds: float = 0.0) -> Tokens:
    keys = Jwks(url="https://id.example/keys", transport=issuer, least_seconds=least_seconds)
    return Tokens(TokenRules(), jwks=keys)


async def test_the_issuer_is_asked_once_for_many_tokens():
    issuer = Issuer(jwks(first=KEY))
    tokens = from_issuer(issuer)
    for _ in range(3):
        await tokens.check(rs256())
    assert issuer.asked == 1


async def test_a_new_key_of_the_issuer_is_found():
    issuer = Issuer(jwks(first=KEY), jwks(first=KEY, second=OTHER_KEY))
    tokens = from_issuer(issuer)
    await tokens.check(rs256())
    assert (await tokens.check(rs256(OTHER_KEY, "second"))).name == "ada"
    assert issuer.asked == 2


async def test_unknown_keys_do_not_make_us_ask_again_and_again():
    issuer = Issuer(jwks(first=KEY))
    tokens = from_issuer(issuer, least_seconds=60)
    for number in range(5):
        with pytest.raises(Unauthenticated):
            await tokens.check(rs256(OTHER_KEY, f"key-{number}"))
    assert issuer.asked == 1


async def test_an_issuer_that_fails_leaves_the_keys_that_were_good():
    issuer = Issuer(jwks(first=KEY), 500)
    tokens = from_issuer(issuer)
    await tokens.check(rs256())
    with pytest.raises(Unauthenticated):
        await tokens.check(rs256(OTHER_KEY, "second"))
    assert (await tokens.check(rs256())).name == "ada"


async def test_an_issuer_that_never_answered_is_no_reason_to_refuse_a_caller_for_good():
    with pytest.raises(Unavailable, match="public keys"):
        await from_issuer(Issuer(500)).check(rs256())


@pytest.mark.parametrize("text", [b"[]", b"{}", b'{"keys": [{"kty": "oct", "k": "eA"}]}', b"no"])
def test_a_set_without_an_rsa_key_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_jwks(text)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"jwt_secret_file": "short"}, "must have 32 bytes or more"),
        ({"jwt_secret_file": "missing"}, "there is no such file"),
        ({"jwt_jwks_file": "short"}, "jwt_jwks_file"),
        ({"jwt_jwks_url": "http://id.example/keys"}, "must begin with https://"),
        ({"jwt_jwks_url": "https://id.example/", "jwt_jwks_file": "short"}, "not both"),
    ],
)
def test_settings_that_cannot_work_are_told_before_anybody_calls(tmp_path, settings, problem):
    (tmp_path / "short").write_text("short")
    given = {
        name: str(tmp_path / value) if name.endswith("_file") else value
        for name, value in settings.items()
    }
    with pytest.raises(BadAuthSettings, match=problem):
        tokens_of(AuthSettings.model_validate(given))
