"""Cohorts, budgets and the aims of queues over HTTP, and what is refused of them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.unit.service.world import DEFAULT
from tgpu.store.sqlite import SqliteStore

TENANT = "/api/v1/tenants/default"
QUEUES = "/api/v1/queues"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    store = SqliteStore(tmp_path / "tgpu.db")
    async with an_api(store=store, leases=True, tenants=(DEFAULT,), cost_per_gpu_hour=2.5) as made:
        yield made


async def changed(api: Api, **fields: Any) -> dict[str, Any]:
    answer = await api.patch(TENANT, json=fields)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = (await api.get(TENANT)).json()
    return found


async def test_a_cohort_with_its_limits_is_kept_and_left(api: Api) -> None:
    tenant = await changed(api, cohort="science", max_borrow_gpus=1.5, max_lend_gpus=0)
    assert tenant["cohort"] == "science"
    assert (tenant["max_borrow_gpus"], tenant["max_lend_gpus"]) == (1.5, 0)
    left = await changed(api, cohort="", max_borrow_gpus=None)
    assert (left["cohort"], left["max_borrow_gpus"], left["max_lend_gpus"]) == ("", None, 0)


@pytest.mark.parametrize("given", [{"gpu_hours": 100}, {"cost": 250}], ids=["hours", "money"])
async def test_a_budget_is_gpu_time_or_money(api: Api, given: dict[str, float]) -> None:
    tenant = await changed(api, budget={**given, "window": "week", "action": "stop"})
    assert tenant["budget"] == {
        "gpu_hours": 100,
        "cost": 250,
        "window": "week",
        "action": "stop",
    }
    assert (await changed(api, budget=None))["budget"] is None


async def test_a_tenant_is_created_with_a_budget_of_defaults(api: Api) -> None:
    body = {"id": "t", "name": "T", "cohort": "c", "budget": {"gpu_hours": 0.5}}
    made = (await api.post("/api/v1/tenants", json=body)).json()
    assert (made["cohort"], made["budget"]["cost"]) == ("c", 1.25)
    assert (made["budget"]["window"], made["budget"]["action"]) == ("month", "warn")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cohort": "a b"}, "cohort: "),
        ({"cohort": 5}, "cohort: must be text (got 5)"),
        ({"max_borrow_gpus": -1}, "max_borrow_gpus: must be at least 0 (got -1)"),
        ({"max_lend_gpus": 0.001}, "max_lend_gpus: GPUs come in steps of 0.01 (got 0.001)"),
        ({"budget": 5}, 'budget: must be an object with named fields, like {"gpu_hours": 500'),
        ({"budget": {}}, "budget: needs one of gpu_hours and cost, like"),
        ({"budget": {"gpu_hours": 1, "cost": 1}}, "budget: needs one of gpu_hours and cost"),
        ({"budget": {"gpu_hours": 0}}, "budget.gpu_hours: must be above 0 (got 0)"),
        ({"budget": {"gpu_hours": 1, "window": "year"}}, "budget.window: must be 'day', 'week'"),
        ({"budget": {"gpu_hours": 1, "action": "x"}}, "budget.action: must be 'warn', 'hold'"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value),
)
async def test_what_cannot_be_of_a_tenant(api: Api, fields: dict[str, Any], message: str) -> None:
    error = error_of(await api.patch(TENANT, json=fields), 422, "VALIDATION_ERROR")
    assert error["message"].startswith(message)


async def test_money_needs_a_price() -> None:
    async with an_api(leases=True, tenants=(DEFAULT,)) as api:
        answer = await api.patch(TENANT, json={"budget": {"cost": 100}})
        message = error_of(answer, 422, "VALIDATION_ERROR")["message"]
        assert message.startswith("budget.cost: GPU time has no price here: set billing.cost_per")


async def test_a_queue_has_aims_of_its_own(api: Api) -> None:
    aims = {"policy": "fifo", "wait_target_seconds": 90.5, "idle_action": "hold"}
    made = (await api.post(QUEUES, json={"name": "night", **aims})).json()
    assert {name: made[name] for name in aims} == aims
    lifted = {"policy": "", "wait_target_seconds": None, "idle_action": "warn"}
    changed = (await api.patch(f"{QUEUES}/default:night", json=lifted)).json()
    assert {name: changed[name] for name in lifted} == lifted


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"policy": "best"}, "policy: no such policy for a queue; there are: "),
        ({"policy": "quickest"}, "policy: no such policy for a queue; there are: prio"),
        ({"wait_target_seconds": 0}, "wait_target_seconds: must be above 0 (got 0)"),
        ({"wait_target_seconds": "5m"}, "wait_target_seconds: must be a number (got '5m')"),
        ({"idle_action": "kill"}, "idle_action: must be 'warn', 'hold' or 'end' (got 'kill')"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value),
)
async def test_what_cannot_be_of_a_queue(api: Api, fields: dict[str, Any], message: str) -> None:
    answer = await api.post(QUEUES, json={"name": "night", **fields})
    assert error_of(answer, 422, "VALIDATION_ERROR")["message"].startswith(message)
    changing = await api.patch(f"{QUEUES}/default:default", json=fields)
    assert error_of(changing, 422, "VALIDATION_ERROR")["message"].startswith(message)
