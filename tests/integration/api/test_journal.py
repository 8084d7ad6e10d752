"""/api/v1/journal: the whole record as lines, for admins alone."""

import json

import httpx
import pytest

from tests.integration.auth.door import OURS, a_door, as_role
from tgpu.client.aio import AsyncClient
from tgpu.journal.lines import Journal
from tgpu.journal.rebuild import rebuild

ADMIN = as_role("admin")


def lines(answer: httpx.Response) -> list[dict[str, object]]:
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_an_admin_gets_every_event_with_its_number():
    async with a_door() as door:
        await door.submit("j1", OURS)
        await door.box.tick()
        answer = await door.get("/api/v1/journal", headers=ADMIN)
        assert answer.headers["content-type"] == "application/x-ndjson"
        header, *events, end = lines(answer)
        assert header["kind"] == "tgpu journal"
        assert header["last_seq"] == door.box.service.feed.last_seq
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert [event["kind"] for event in events][-3:] == ["jobs_submitted", *["job_moved"] * 2]
        assert end == {"end": True, "rows": len(events), "last_seq": len(events)}


async def test_who_has_a_part_already_gets_the_rest():
    async with a_door() as door:
        await door.submit("j1", OURS)
        last = door.box.service.feed.last_seq
        await door.submit("j2", OURS)
        answer = await door.get(f"/api/v1/journal?after={last}", headers=ADMIN)
        header, event, end = lines(answer)
        assert (header["after"], event["seq"], end["rows"]) == (last, last + 1, 1)


@pytest.mark.parametrize("role", ["operator", "user", "viewer"])
async def test_nobody_else_gets_anything(role):
    async with a_door() as door:
        answer = await door.get("/api/v1/journal", headers=as_role(role))
        assert answer.status_code == 403
        assert "may not export the journal" in answer.json()["error"]["message"]


async def test_an_admin_who_is_bound_to_tenants_gets_nothing():
    async with a_door() as door:
        answer = await door.get("/api/v1/journal", headers=as_role("admin", OURS))
        assert answer.status_code == 403


async def test_commands_come_only_where_asked_for_and_environments_never():
    async with a_door(leases=False) as door:
        body = {
            "job_id": "j",
            "tenant_id": OURS,
            "command": ["python", "secret-script.py"],
            "environment": {"TOKEN": "hush"},
        }
        sent = await door.post("/api/v1/jobs", json=body, headers=ADMIN)
        assert sent.status_code == 201, sent.text
        plain = await door.get("/api/v1/journal", headers=ADMIN)
        asked = await door.get("/api/v1/journal?commands=true", headers=ADMIN)
        assert "secret-script" not in plain.text
        assert "secret-script" in asked.text
        assert "hush" not in plain.text + asked.text


async def test_the_client_gives_it_in_pieces_that_make_a_journal():
    async with a_door(enabled=False) as door:
        for number in range(600):  # more than a page of the store
            await door.submit(f"j{number}", OURS)
        async with AsyncClient(
            "http://127.0.0.1:8080", transport=httpx.ASGITransport(door.app)
        ) as client:
            pieces = [piece async for piece in client.journal()]
        journal = Journal("x", b"".join(pieces).splitlines())
        state = rebuild(journal).state
        assert journal.is_whole
        assert state.pending_count() == 600
