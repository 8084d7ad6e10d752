"""Receipts are shown to those whose jobs were preempted, and to those who see all."""

from dataclasses import replace
from typing import Any

import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, as_role
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.plan import PreemptionCause
from tgpu.service.accounting.receipts import Receipt


def a_receipt(job_id: str, tenant: str, to_tenant: str) -> Receipt:
    return Receipt(
        JobId(job_id),
        1,
        TenantId(tenant),
        user="ada",
        gpu_millis=2000,
        to="high",
        to_tenant_id=TenantId(to_tenant),
        cause=PreemptionCause.PRIORITY,
        reason="preempted for job high (priority 900 over 500)",
        asked_at=5,
        lost_gpu_millis_ms=3_500_000,
    )


async def seen(door: Door, role: str, query: str = "") -> list[dict[str, Any]]:
    door.box.service.receipts.keep(
        [a_receipt("a", OURS, THEIRS), a_receipt("b", THEIRS, OURS), a_receipt("c", OURS, OURS)]
    )
    answer = await door.get(f"/api/v1/preemptions{query}", headers=as_role(role))
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["preemptions"]
    return found


async def test_a_viewer_sees_what_its_own_tenant_gave_up() -> None:
    async with a_door() as door:
        found = await seen(door, "viewer")
        assert [(r["job_id"], r["to_tenant_id"]) for r in found] == [("c", OURS), ("a", None)]


async def test_another_s_tenant_is_as_one_that_is_not_there() -> None:
    async with a_door() as door:
        assert await seen(door, "viewer", f"?tenant_id={THEIRS}") == []
        assert await seen(door, "viewer", "?tenant_id=nobody") == []


async def test_an_admin_sees_all_and_can_ask_for_one_tenant_and_fewer() -> None:
    async with a_door() as door:
        assert [r["job_id"] for r in await seen(door, "admin")] == ["c", "b", "a"]
        assert [r["job_id"] for r in await seen(door, "admin", f"?tenant_id={THEIRS}")] == ["b"]
        (newest,) = await seen(door, "admin", "?limit=1")
        assert (newest["gpu_count"], newest["lost_gpu_seconds"]) == (2, 3.5)


@pytest.mark.parametrize(
    "reason",
    [
        "preempted for job high (priority 900 over 500)",
        "gives way to job high (priority 900 over 500)",  # on record since an earlier version
    ],
)
async def test_a_reason_names_no_job_of_another_tenant(reason: str) -> None:
    async with a_door() as door:
        door.box.service.receipts.keep([replace(a_receipt("a", OURS, THEIRS), reason=reason)])
        for role, shown in (("viewer", "preempted for another job"), ("admin", reason)):
            answer = await door.get("/api/v1/preemptions", headers=as_role(role))
            assert [each["reason"] for each in answer.json()["preemptions"]] == [shown]
