"""POST /api/v1/jobs/select: many jobs, one command, one commit."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.integration.auth.door import OURS, THEIRS, a_door, a_token, as_role, bearer
from tests.unit.service.world import FailingStore
from tgpu.core.model.lifecycle import JobState
from tgpu.service.recording.clock import WallClock
from tgpu.store.memory import MemoryStore

JOBS = "/api/v1/jobs"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as made:
        yield made


async def submit(api: Api, **fields: Any) -> str:
    answer = await api.post(JOBS, json={"command": ["t"], **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


async def select(api: Api, action: str, *jobs: str, **fields: Any) -> dict[str, Any]:
    answer = await api.post(f"{JOBS}/select", json={"action": action, "jobs": jobs, **fields})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def jobs_of(api: Api, **query: Any) -> list[dict[str, Any]]:
    answer = await api.get(JOBS, params={"limit": 1000, **query})
    found: list[dict[str, Any]] = answer.json()["jobs"]
    return found


async def an_array(api: Api, indexes: str = "1-20", most: int = 2, **fields: Any) -> str:
    """Two of its elements run."""
    array = {"indexes": indexes, "max_running": most}
    array_id = await submit(api, array=array, **fields)
    await api.box.tick()
    for number in range(1, most + 1):
        width = len(indexes.split("-")[1])
        await api.box.until(f"{array_id}.{number:0{width}}", JobState.RUNNING)
    return array_id


async def test_cancelling_an_array_starts_none_of_its_waiting_elements() -> None:
    """On the wall's clock, where a cycle follows each commit."""
    store = FailingStore()
    async with an_api(clock=WallClock(), store=store) as api:
        array_id = await submit(api, array={"indexes": "1-200", "max_running": 5})
        for number in range(1, 6):
            await api.box.until(f"{array_id}.{number:03}", JobState.RUNNING)
        answer = await select(api, "cancel", array_id)
        assert answer["message"] == (
            f"cancelled 200 jobs of array {array_id}: 5 running are being stopped, 195 waiting"
        )
        assert answer["counts"] == {"running": 5, "waiting": 195}
        for number in range(1, 201):
            await api.box.until(f"{array_id}.{number:03}", JobState.CANCELLED)
        started = [job for job in await jobs_of(api, array_id=array_id) if job["started_at"]]
        assert len(started) == 5
        of_the_selection = [
            record
            for record in store.commits
            if len(record.events) > 100 and not hasattr(record.events[0], "jobs")
        ]
        assert len(of_the_selection) == 1


async def test_several_ids_are_one_commit_and_no_cycle_comes_in_between() -> None:
    async with an_api(clock=WallClock(), gpus="sim:1xA100") as api:
        ids = [await submit(api) for _ in range(13)]
        await api.box.until(ids[0], JobState.RUNNING)
        answer = await select(api, "cancel", *ids)
        assert answer["message"] == "cancelled 13 jobs: 1 running is being stopped, 12 waiting"
        for job_id in ids:
            await api.box.until(job_id, JobState.CANCELLED)
        assert [job["job_id"] for job in await jobs_of(api) if job["started_at"]] == [ids[0]]


async def test_what_is_left_alone_is_counted_with_its_reason(api: Api) -> None:
    array_id = await an_array(api, "1-4")
    await select(api, "cancel", f"{array_id}.3")
    held = await select(api, "hold", array_id)
    assert held["message"] == (
        f"put 1 job of array {array_id} on hold; left alone: 1 over already (1 cancelled), "
        "2 running: only waiting jobs can be changed like this"
    )
    assert [(part["reason"], part["count"]) for part in held["left_alone"]] == [
        ("over", 1),
        ("runs", 2),
    ]
    other = await submit(api)
    assert (await select(api, "release", array_id, other))["left_alone"][-1]["job_ids"] == [other]
    ranked = await select(api, "priority", array_id, other, priority=900)
    assert ranked["message"].startswith("gave 2 jobs priority 900; left alone: ")
    assert {job["job_id"] for job in await jobs_of(api) if job["priority"] == 900} == {
        f"{array_id}.4",
        other,
    }


async def test_a_state_chooses_among_named_jobs_and_is_looked_at_in_the_decision(api: Api) -> None:
    array_id = await an_array(api, "1-4")
    answer = await select(api, "cancel", array_id, states=["pending"])
    assert answer["counts"] == {"waiting": 2}
    assert answer["left_alone"][0]["reason"] == "state"
    assert {job["state"] for job in await jobs_of(api, array_id=array_id)} == {
        "running",
        "cancelled",
    }


async def test_conditions_hold_together(api: Api) -> None:
    for name, user in (("sweep-a", "ada"), ("sweep-b", "bob"), ("other", "ada")):
        await submit(api, job_id=name, name=name, user=user)
    answer = await select(api, "hold", name="sweep", user="ada")
    assert answer["job_ids"] == ["sweep-a"]
    assert answer["message"] == "put job sweep-a on hold"
    everything = await select(api, "cancel", all=True)
    assert everything["job_ids"] == ["sweep-a", "sweep-b", "other"]
    assert (await select(api, "cancel", all=True))["message"] == "no job matches"


async def test_last_and_one_job_alone_answer_as_its_own_path_does(api: Api) -> None:
    job_id = await submit(api)
    assert (await select(api, "hold", "last"))["message"] == f"job {job_id} is on hold"
    assert (await select(api, "cancel", job_id))["message"] == f"job {job_id} cancelled"
    answer = await api.post(f"{JOBS}/select", json={"action": "cancel", "jobs": [job_id]})
    assert "was cancelled" in error_of(answer, 409, "CONFLICT")["message"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"action": "cancel"}, 422, "VALIDATION_ERROR"),
        ({"action": "cancel", "jobs": []}, 422, "VALIDATION_ERROR"),
        ({"action": "sing", "jobs": ["a"]}, 422, "VALIDATION_ERROR"),
        ({"action": "priority", "jobs": ["a"]}, 422, "VALIDATION_ERROR"),
        ({"action": "cancel", "jobs": ["a"], "priority": 1}, 422, "VALIDATION_ERROR"),
        ({"action": "cancel", "states": ["failed"]}, 422, "VALIDATION_ERROR"),
        ({"action": "cancel", "jobs": ["a", "nobody"]}, 404, "JOB_NOT_FOUND"),
    ],
)
async def test_a_selection_that_is_refused_changes_nothing(
    api: Api, body: dict[str, Any], status: int, code: str
) -> None:
    await submit(api, job_id="a")
    error_of(await api.post(f"{JOBS}/select", json=body), status, code)
    assert [job["state"] for job in await jobs_of(api)] == ["pending"]


async def test_an_array_that_is_over_is_told_with_its_counts(api: Api) -> None:
    array_id = await an_array(api, "1-3")
    await select(api, "cancel", array_id)
    await api.box.until(f"{array_id}.1", JobState.CANCELLED)
    await api.box.until(f"{array_id}.2", JobState.CANCELLED)
    answer = await api.post(f"{JOBS}/select", json={"action": "cancel", "jobs": [array_id]})
    assert error_of(answer, 409, "CONFLICT")["message"] == (
        "no job was changed; left alone: 3 over already (3 cancelled)"
    )


async def test_one_row_of_the_audit_says_the_selection_and_how_many() -> None:
    async with a_door() as door:
        for number in range(3):
            await door.submit(f"a{number}", OURS)
        body = {"action": "cancel", "jobs": ["a0", "a1", "a2"]}
        await door.post(f"{JOBS}/select", json=body, headers=as_role("admin"))
        row, *before = await door.audited()
        assert (row["target"], row["detail"]) == ("a0, a1, a2", "cancel: 3 jobs")
        assert (row["tenant_id"], row["outcome"]) == (OURS, "ok")
        assert all(row["action"] == f"POST {JOBS}" for row in before)


async def test_named_jobs_of_others_refuse_all_and_a_filter_passes_them_over() -> None:
    async with a_door() as door:
        for tenant in (OURS, THEIRS):
            await door.submit(f"{tenant}-1", tenant)
        body = {"action": "hold", "jobs": [f"{OURS}-1", f"{THEIRS}-1", "nobodys"]}
        answer = await door.post(f"{JOBS}/select", json=body, headers=as_role("user"))
        message = error_of(answer, 404, "JOB_NOT_FOUND")["message"]
        assert "nobodys" in message or THEIRS in message
        everything = {"action": "hold", "all": True}
        answer = await door.post(
            f"{JOBS}/select", json=everything, headers=as_role("operator", OURS)
        )
        assert answer.json()["job_ids"] == [f"{OURS}-1"]


@pytest.mark.parametrize("action", ["cancel", "hold", "release", "rerun"])
async def test_a_member_acts_on_none_but_their_own_jobs(action: str) -> None:
    async with a_door() as door:
        body = {"tenant_id": OURS, "command": ["t"]}
        for name in ("ada", "bob"):
            made = body | {"job_id": f"of-{name}", "hold": True}
            headers = bearer(a_token("user", [OURS], sub=name))
            assert (await door.post(JOBS, json=made, headers=headers)).status_code == 201
        ada = bearer(a_token("user", [OURS], sub="ada"))
        before = (await door.get(JOBS, headers=ada)).json()
        both = {"action": action, "jobs": ["of-ada", "of-bob"]}
        answer = await door.post(f"{JOBS}/select", json=both, headers=ada)
        message = error_of(answer, 403, "FORBIDDEN")["message"]
        assert message.startswith("job of-bob is bob's: only bob, administrators of tenant ours")
        assert (await door.get(JOBS, headers=ada)).json() == before
        everything = {"action": action, "all": True, "states": ["pending"]}
        answer = await door.post(f"{JOBS}/select", json=everything, headers=ada)
        assert answer.json()["changed"] == (0 if action == "hold" else 1), answer.text
        mine = (await door.get(f"{JOBS}/of-bob", headers=ada)).json()
        assert (mine["state"], mine["held"]) == ("pending", True)


async def test_a_store_that_fails_leaves_the_selection_whole() -> None:
    store = FailingStore()
    async with an_api(store=store) as api:
        array_id = await an_array(api, "1-4")
        store.broken = "disk full"
        answer = await api.post(f"{JOBS}/select", json={"action": "hold", "jobs": [array_id]})
        error_of(answer, 503, "UNAVAILABLE")
        assert not any(entry.progress.held for entry in api.box.service.state.entries())
        answer = await api.post(f"{JOBS}/select", json={"action": "cancel", "jobs": [array_id]})
        assert answer.status_code == 202
        assert answer.json()["recorded"] is False
        assert answer.json()["counts"] == {"running": 2}
        store.broken = None


class SlowStore(MemoryStore):
    """Is in the middle of a commit until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def commit(self, record: Any) -> int:
        await self.go_on.wait()
        return await super().commit(record)


async def test_reads_go_on_and_no_cycle_is_decided_while_a_selection_is_recorded() -> None:
    store = SlowStore()
    async with an_api(store=store, clock=WallClock(), gpus="sim:1xA100") as api:
        ids = [await submit(api) for _ in range(3)]
        await api.box.until(ids[0], JobState.RUNNING)
        store.go_on.clear()
        asked = asyncio.create_task(select(api, "cancel", *ids))
        await asyncio.sleep(0)
        assert len(await jobs_of(api)) == 3
        store.go_on.set()
        assert (await asked)["changed"] == 3
        await api.box.until(ids[0], JobState.CANCELLED)
        assert [job["started_at"] is None for job in await jobs_of(api)] == [True, True, False]
