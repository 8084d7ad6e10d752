"""Long pages of jobs are the same as short ones, and end where they would be too large."""

import pytest

from tests.integration.api.http import an_api
from tgpu.api.operations import job_page as module

JOBS = "/api/v1/jobs"


async def test_a_page_read_in_parts_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ", 3)
    monkeypatch.setattr(module, "_WRITTEN", 2)
    async with an_api(leases=True) as api:
        made = [(await api.post(JOBS, json={"name": f"n{n}"})).json()["job_id"] for n in range(10)]
        whole = (await api.get(f"{JOBS}?limit=20")).json()
        assert [job["job_id"] for job in whole["jobs"]] == made[::-1]
        assert whole["next_cursor"] is None
        some = (await api.get(f"{JOBS}?limit=7")).json()
        rest = (await api.get(f"{JOBS}?limit=7&cursor={some['next_cursor']}")).json()
        assert [job["job_id"] for job in some["jobs"] + rest["jobs"]] == made[::-1]
        assert rest["next_cursor"] is None


async def test_a_page_of_large_jobs_ends_early_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LARGEST", 1)
    async with an_api(leases=True) as api:
        made = [(await api.post(JOBS, json={})).json()["job_id"] for _ in range(3)]
        found, cursor = [], ""
        for _ in made:
            page = (await api.get(f"{JOBS}?limit=10{cursor}")).json()
            assert len(page["jobs"]) == 1
            found.append(page["jobs"][0]["job_id"])
            cursor = f"&cursor={page['next_cursor']}"
        assert found == made[::-1]
        assert (await api.get(f"{JOBS}?limit=10{cursor}")).json()["jobs"] == []


async def test_a_folded_page_has_one_job_for_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ", 2)
    async with an_api(leases=True) as api:
        first = (await api.post(JOBS, json={"name": "one"})).json()["job_id"]
        array = {"name": "many", "hold": True, "array": {"indexes": "5-14"}}
        array_id = (await api.post(JOBS, json=array)).json()["job_id"]
        sweep = {"hold": True, "params": {"lr": ["1", "2", "3"]}}
        sweep_id = (await api.post(JOBS, json=sweep)).json()["job_id"]
        await api.delete(f"{JOBS}/{array_id}.05")
        page = (await api.get(f"{JOBS}?fold=true")).json()
        assert page["next_cursor"] is None
        found = page["jobs"]
        assert [job["job_id"] for job in found] == [f"{sweep_id}.1", f"{array_id}.06", first]
        told = found[1]["array"]["progress"]
        assert told["states"] == {"pending": 9, "cancelled": 1}
        assert (told["total"], told["first_index"], told["last_index"]) == (10, 5, 14)
        assert found[0]["array"]["progress"]["total"] == 3
        assert found[2]["array"] is None
        pages, cursor = [], ""
        for _ in found:
            page = (await api.get(f"{JOBS}?fold=true&limit=1{cursor}")).json()
            pages += page["jobs"]
            cursor = f"&cursor={page['next_cursor']}"
        assert pages == found


async def test_an_unfolded_page_tells_of_no_array() -> None:
    async with an_api(leases=True) as api:
        await api.post(JOBS, json={"hold": True, "array": {"indexes": "1-3"}})
        found = (await api.get(JOBS)).json()["jobs"]
        assert [job["array"]["progress"] for job in found] == [None, None, None]
