"""Long pages of jobs are the same as short ones, and end where they would be too large."""

import pytest

from tests.integration.api.http import an_api
from tgpu.api.rest import job_page as module

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
