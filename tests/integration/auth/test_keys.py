"""API keys over REST, from the first to the revoked one."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.auth.door import OURS, Door, a_door, as_role, bearer
from tgpu.api.auth import keys as keys_module
from tgpu.service.recording.clock import WallClock
from tgpu.store.memory import MemoryStore
from tgpu.store.sqlite import SqliteStore

ADMIN = as_role("admin")


async def a_key(door: Door, **fields: Any) -> dict[str, Any]:
    body = {"name": "ci", "role": "user", "tenants": [OURS], **fields}
    answer = await door.post("/api/v1/keys", json=body, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_key_lets_its_holder_in_as_what_it_was_made_for():
    async with a_door() as door:
        key = (await a_key(door))["key"]
        for headers in (bearer(key), {"X-API-Key": key}):
            who = (await door.get("/api/v1/whoami", headers=headers)).json()
            known = {"name": "ci", "kind": "key", "role": "user", "tenants": [OURS]}
            assert who == {
                **known,
                "tenant": OURS,
                "how": "the API key",
                "problem": "",
            }


async def test_the_secret_is_shown_once_and_stored_nowhere(tmp_path: Path):
    async with a_door(store=SqliteStore(tmp_path / "tgpu.db")) as door:
        made = await a_key(door)
        secret = made["key"].split("_", 2)[2]  # it may have underscores of its own
        listed = await door.get("/api/v1/keys", headers=ADMIN)
        assert made["id"] in listed.text
        assert secret not in listed.text
        assert "argon2" not in listed.text
        audited = await door.get("/api/v1/audit", headers=ADMIN)
        assert secret not in audited.text
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert secret.encode() not in stored
    assert b"$argon2id$" in stored


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key[:-1] + ("A" if key[-1] != "A" else "B"),
        lambda key: key + "x",
        lambda key: key[:20],
        lambda key: "tgpu_aaaaaaaaaa_" + key.rpartition("_")[2],
        lambda key: "tgpu_",
    ],
    ids=["other secret", "longer", "cut", "other id", "nothing"],
)
async def test_every_other_text_is_refused_with_the_same_words(spoil):
    async with a_door() as door:
        key = (await a_key(door))["key"]
        answer = await door.get("/api/v1/jobs", headers=bearer(spoil(key)))
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            401,
            "this API key is not valid; `tgpu keys list` shows all keys",
        )


async def test_a_revoked_key_is_shut_out_at_once_though_it_was_just_used():
    async with a_door() as door:
        made = await a_key(door)
        headers = bearer(made["key"])
        assert (await door.get("/api/v1/jobs", headers=headers)).status_code == 200
        revoked = await door.delete(f"/api/v1/keys/{made['id']}", headers=ADMIN)
        assert revoked.json()["state"] == "revoked"
        assert (await door.get("/api/v1/jobs", headers=headers)).status_code == 401


async def test_a_key_that_nobody_has_cannot_be_revoked():
    async with a_door() as door:
        answer = await door.delete("/api/v1/keys/aaaaaaaaaa", headers=ADMIN)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_an_expired_key_is_refused(monkeypatch):
    async with a_door() as door:
        made = await a_key(door, expires_in_days=1)
        headers = bearer(made["key"])
        assert (await door.get("/api/v1/jobs", headers=headers)).status_code == 200
        later = WallClock().now() + 25 * 3_600_000
        monkeypatch.setattr(WallClock, "now", lambda self: later)
        assert (await door.get("/api/v1/jobs", headers=headers)).status_code == 401


async def test_keys_survive_a_restart_and_so_does_their_revocation(tmp_path: Path):
    file = tmp_path / "tgpu.db"
    async with a_door(store=SqliteStore(file)) as door:
        good, bad = await a_key(door), await a_key(door)
        await door.delete(f"/api/v1/keys/{bad['id']}", headers=ADMIN)
    async with a_door(store=SqliteStore(file)) as door:
        assert (await door.get("/api/v1/jobs", headers=bearer(good["key"]))).status_code == 200
        assert (await door.get("/api/v1/jobs", headers=bearer(bad["key"]))).status_code == 401


async def test_a_key_is_hashed_once_and_then_remembered(monkeypatch):
    checked = []
    real = keys_module._matches

    def counting(stored: str, secret: str) -> bool:
        checked.append(secret)
        return real(stored, secret)

    monkeypatch.setattr(keys_module, "_matches", counting)
    async with a_door() as door:
        key = (await a_key(door))["key"]
        for _ in range(5):
            assert (await door.get("/api/v1/jobs", headers=bearer(key))).status_code == 200
    assert len(checked) == 1


async def test_the_last_use_is_known_and_costs_one_write_an_hour():
    class Counting(MemoryStore):
        commits = 0

        async def commit(self, record):
            self.commits += bool(record.documents)
            return await super().commit(record)

    store = Counting()
    async with a_door(store=store) as door:
        made = await a_key(door)
        before = store.commits
        for _ in range(5):
            await door.get("/api/v1/jobs", headers=bearer(made["key"]))
        deadline = time.monotonic() + 10
        while True:
            (listed,) = (await door.get("/api/v1/keys", headers=ADMIN)).json()["keys"]
            if listed["last_used_at"] is not None or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.01)
        assert listed["last_used_at"] is not None
        assert store.commits == before + 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tenants": None}, "tenants"),
        ({"tenants": []}, "tenants"),
        ({"role": "root"}, "role"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"expires_in_days": 0}, "expires_in_days"),
        ({"uid": 0}, "uid"),
    ],
)
async def test_a_key_that_makes_no_sense_is_not_made(fields, field):
    async with a_door() as door:
        body = {"name": "ci", "role": "user", "tenants": [OURS], **fields}
        answer = await door.post("/api/v1/keys", json=body, headers=ADMIN)
        assert answer.status_code == 422
        assert answer.json()["error"]["details"][0]["field"] == field
