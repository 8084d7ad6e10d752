"""Borrowing limits that the service moves at intervals, on record and in the audit log."""

from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.accounting.borrowing_limits import AdjustRules
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant
from tgpu.service.upkeep.borrowing_limits import ACTOR, AdjustSettings
from tgpu.store.api import AuditRow
from tgpu.store.memory import MemoryStore

RED, BLUE = TenantId("red"), TenantId("blue")
HOUR = 3_600_000
SETTINGS = AdjustSettings(AdjustRules(min_borrow=0, max_borrow=3000, step=1000), HOUR)
LAB = (
    Tenant(RED, 2000, cohort="lab", borrow_millis=1000),
    Tenant(BLUE, 2000, cohort="lab", borrow_millis=1000),
)


def borrow_of(box: Box, tenant_id: TenantId) -> int | None:
    return box.service.state.ledger.tenant(tenant_id).tenant.borrow_millis


async def audits(box: Box) -> list[AuditRow]:
    found = await box.service.store.audit()
    return [row for row in found if row.actor == ACTOR]


async def a_busy_hour(box: Box) -> None:
    """Red uses all it may and has more waiting; blue does nothing."""
    for number in range(6):
        await box.submit(a_submission(tenant=RED, job_id=f"r{number}"))
    await box.tick(0)


async def test_the_busy_may_borrow_more_and_the_idle_less() -> None:
    async with a_box(leases=True, tenants=LAB, adjust=SETTINGS) as box:
        await a_busy_hour(box)
        await box.tick(HOUR)
        assert (borrow_of(box, RED), borrow_of(box, BLUE)) == (2000, 0)
        rows = {row.target: row for row in await audits(box)}
        assert rows[RED].detail == (
            "max_borrow_gpus 1 -> 2: it used its quota and has jobs waiting"
        )
        assert rows[BLUE].detail.startswith("max_borrow_gpus 1 -> 0: ")


async def test_nothing_is_adjusted_before_the_interval_is_over() -> None:
    async with a_box(leases=True, tenants=LAB, adjust=SETTINGS) as box:
        await a_busy_hour(box)
        await box.tick(HOUR - 1)
        assert (borrow_of(box, RED), borrow_of(box, BLUE)) == (1000, 1000)
        assert await audits(box) == []


async def test_a_limit_stops_at_the_bounds() -> None:
    async with a_box(leases=True, tenants=LAB, adjust=SETTINGS) as box:
        await a_busy_hour(box)
        for hours in range(1, 6):
            await box.tick(hours * HOUR)
        assert (borrow_of(box, RED), borrow_of(box, BLUE)) == (3000, 0)


async def test_a_restart_in_the_middle_of_an_interval_forgets_nothing() -> None:
    store = MemoryStore()
    async with a_box(leases=True, store=store, tenants=LAB, adjust=SETTINGS) as box:
        await a_busy_hour(box)
    async with a_box(leases=True, store=store, tenants=LAB, adjust=SETTINGS) as box:
        await box.tick(HOUR)
        assert (borrow_of(box, RED), borrow_of(box, BLUE)) == (2000, 0)


async def test_without_the_setting_limits_stay() -> None:
    async with a_box(leases=True, tenants=LAB) as box:
        await a_busy_hour(box)
        await box.tick(HOUR)
        assert (borrow_of(box, RED), borrow_of(box, BLUE)) == (1000, 1000)
