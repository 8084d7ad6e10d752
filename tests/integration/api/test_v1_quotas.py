"""Cohorts and budgets over REST, on a clock that is told."""

from typing import Any

from tests.integration.api.http import Api, an_api

HOUR, DAY = 3_600, 86_400  # POST /schedule takes seconds

Json = dict[str, Any]


async def make(api: Api, tenant_id: str, **fields: object) -> None:
    answer = await api.post("/api/v1/tenants", json={"id": tenant_id, "name": tenant_id, **fields})
    assert answer.status_code == 201, answer.text


async def submit(api: Api, job_id: str, **fields: object) -> int:
    answer = await api.post("/api/v1/jobs", json={"job_id": job_id, **fields})
    return answer.status_code


async def tick(api: Api, seconds: int) -> list[str]:
    return await api.box.tick(seconds * 1000)


async def why(api: Api, job_id: str) -> Json:
    found: Json = (await api.get(f"/api/v1/jobs/{job_id}/why")).json()["reason"]
    return found


def a_cluster() -> Any:
    return an_api(leases=True, gpus="sim:8xA100")


async def test_a_cohort_lends_and_says_so() -> None:
    async with a_cluster() as api:
        await make(api, "red", max_gpus=2, cohort="lab", max_borrow_gpus=3)
        await make(api, "blue", max_gpus=4, cohort="lab")
        assert await submit(api, "r1", tenant_id="red", gpu_count=5) == 201
        assert await submit(api, "too-much", tenant_id="red", gpu_count=6) == 422
        assert await tick(api, 0) == ["r1"]
        assert await submit(api, "b1", tenant_id="blue", gpu_count=2) == 201
        assert await tick(api, 0) == []
        reason = await why(api, "b1")
        assert reason["code"] == "quota_lent"
        assert reason["message"] == (
            "tenant blue has 0 of its 4 GPUs in use, and this job needs 2; "
            "other tenants of cohort lab have borrowed 3"
        )
        red = (await api.get("/api/v1/tenants/red")).json()
        blue = (await api.get("/api/v1/tenants/blue")).json()
        assert (red["borrowed_gpus"], red["lent_gpus"]) == (3, 0)
        assert (blue["borrowed_gpus"], blue["lent_gpus"]) == (0, 3)
        quota = (await api.get("/api/v1/queues/quota/red")).json()
        assert (quota["borrowed_gpu"], quota["lent_gpu"]) == (3, 0)
        await api.post("/api/v1/jobs/r1/complete")
        assert await tick(api, 1) == ["b1"]


async def test_a_borrowing_limit_is_a_reason_of_its_own() -> None:
    async with a_cluster() as api:
        await make(api, "red", max_gpus=2, cohort="lab", max_borrow_gpus=1)
        await make(api, "blue", max_gpus=4, cohort="lab")
        await submit(api, "r1", tenant_id="red", gpu_count=2)
        await submit(api, "r2", tenant_id="red", gpu_count=2)
        assert await tick(api, 0) == ["r1"]
        assert (await why(api, "r2"))["code"] == "borrow_limit"
        await api.patch("/api/v1/tenants/red", json={"max_borrow_gpus": 2})
        assert await tick(api, 1) == ["r2"]


async def test_a_budget_holds_shows_and_renews() -> None:
    async with an_api(leases=True, gpus="sim:8xA100", cost_per_gpu_hour=2.0) as api:
        budget = {"gpu_hours": 8, "window": "day", "action": "hold"}
        await make(api, "red", budget=budget)
        await make(api, "blue")
        await submit(api, "r1", tenant_id="red", gpu_count=4)
        await tick(api, HOUR)
        await tick(api, 2 * HOUR)
        (status,) = (await api.get("/api/v1/budgets")).json()["budgets"]
        assert status == {
            "tenant_id": "red",
            "window": "day",
            "action": "hold",
            "budget_gpu_hours": 8,
            "spent_gpu_hours": 4,
            "left_gpu_hours": 4,
            "percent": 50,
            "budget_cost": 16,
            "spent_cost": 8,
            "current_gpus": 4,
            "window_start": "1970-01-01T00:00:00.000Z",
            "window_end": "1970-01-02T00:00:00.000Z",
            "runs_out_at": "1970-01-01T03:00:00.000Z",
            "used_up": False,
            "holds": False,
        }
        await tick(api, 3 * HOUR)
        await submit(api, "r2", tenant_id="red")
        assert await tick(api, 3 * HOUR) == []
        (status,) = (await api.get("/api/v1/budgets", params={"tenant_id": "red"})).json()[
            "budgets"
        ]
        assert (status["used_up"], status["holds"], status["runs_out_at"]) == (True, True, None)
        reason = await why(api, "r2")
        assert reason["code"] == "budget"
        assert reason["message"] == (
            "tenant red has used 8.00 of the 8.00 GPU hours of this day; "
            "it starts jobs again at 1970-01-02T00:00:00Z"
        )
        assert reason["remedy"] == "tgpu budget red"
        await api.post("/api/v1/jobs/r1/complete")
        assert await tick(api, DAY - 1) == []
        assert await tick(api, DAY) == ["r2"]


async def test_a_tenant_without_a_budget_has_no_row_and_an_unknown_one_is_not_found() -> None:
    async with a_cluster() as api:
        await make(api, "blue")
        assert (await api.get("/api/v1/budgets?tenant_id=blue")).json() == {"budgets": []}
        assert (await api.get("/api/v1/budgets?tenant_id=nobody")).status_code == 404
