"""Budgets in the service: jobs held and let go by time alone, ended, noticed once a window."""

from structlog.testing import capture_logs

from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.reasons import ReasonCode
from tgpu.core.model.tenant import Budget, OverBudget, Tenant, Window
from tgpu.service.recording.observer import Observer
from tgpu.store.memory import MemoryStore

HOUR, DAY = 3_600_000, 86_400_000
GPU_HOUR = 1000 * HOUR
T = TenantId("t")


def a_tenant(action: OverBudget, hours: int = 10) -> Tenant:
    return Tenant(T, budget=Budget(hours * GPU_HOUR, Window.DAY, action))


def code_of(box: Box, job_id: str) -> ReasonCode:
    entry = box.service.state.entry(JobId(job_id))
    assert entry is not None
    found = box.service.reason(entry.job.job_id)
    assert found is not None
    return found.code


async def test_a_budget_holds_jobs_and_lets_them_go_without_any_event() -> None:
    async with a_box(leases=True, tenants=[a_tenant(OverBudget.HOLD)]) as box:
        await box.submit(a_submission(tenant=T, job_id="runs", gpus=4, gpu_type="A100"))
        assert await box.tick(HOUR) == ["runs"]
        await box.tick(4 * HOUR)
        await box.submit(a_submission(tenant=T, job_id="waits"))
        assert await box.tick(4 * HOUR) == []
        assert code_of(box, "waits") is ReasonCode.BUDGET
        assert await box.state_of("runs") is JobState.RUNNING
        assert await box.tick(DAY - 1) == []
        assert await box.tick(DAY) == ["waits"]


async def test_a_reason_follows_the_clock_not_the_last_commit() -> None:
    async with a_box(leases=True, tenants=[a_tenant(OverBudget.HOLD)]) as box:
        await box.submit(a_submission(tenant=T, job_id="runs", gpus=4, gpu_type="A100"))
        await box.submit(a_submission(tenant=T, job_id="waits", gpu_type="A100"))
        await box.tick(HOUR)
        assert code_of(box, "waits") is ReasonCode.GPUS_BUSY
        await box.tick(5 * HOUR)
        assert code_of(box, "waits") is ReasonCode.BUDGET


async def test_stop_ends_leases_at_once() -> None:
    async with a_box(leases=True, tenants=[a_tenant(OverBudget.STOP)]) as box:
        await box.submit(a_submission(tenant=T, job_id="runs", gpus=4, gpu_type="A100"))
        await box.tick(0)
        await box.tick(2 * HOUR)
        assert await box.state_of("runs") is JobState.RUNNING
        await box.tick(3 * HOUR)
        stored = await box.service.job("runs")
        assert stored.progress.state is JobState.CANCELLED
        assert stored.progress.cause == "the budget of tenant t is used up"


async def test_stop_asks_commands_to_end() -> None:
    async with a_box(tenants=[a_tenant(OverBudget.STOP)]) as box:
        await box.submit(a_submission("train", tenant=T, job_id="runs", gpus=4, gpu_type="A100"))
        await box.run("runs")
        await box.tick(3 * HOUR)
        await box.until("runs", JobState.CANCELLED)
        assert (await box.service.job("runs")).progress.cause == "the budget of tenant t is used up"


async def test_warn_lets_everything_go_on() -> None:
    async with a_box(leases=True, tenants=[a_tenant(OverBudget.WARN)]) as box:
        await box.submit(a_submission(tenant=T, job_id="runs", gpus=4, gpu_type="A100"))
        await box.tick(0)
        await box.submit(a_submission(tenant=T, job_id="more"))
        assert await box.tick(9 * HOUR) == ["more"]


async def test_what_was_spent_survives_a_restart_that_running_jobs_cross() -> None:
    store, tenants = MemoryStore(), [a_tenant(OverBudget.HOLD)]
    async with a_box(leases=True, store=store, tenants=tenants) as box:
        await box.submit(a_submission(tenant=T, job_id="ends", gpus=2, gpu_type="A100"))
        await box.submit(a_submission(tenant=T, job_id="runs", gpus=2, gpu_type="A100"))
        await box.tick(0)
        await box.tick(HOUR)
        await box.service.jobs.complete(box.service.state.placed()[0].job.job_id)
        before = box.service.state.budgets.spend(T).upto(3 * HOUR)
    async with a_box(leases=True, store=store, tenants=tenants) as box:
        assert box.service.state.budgets.spend(T).upto(3 * HOUR) == before
        assert before.day == (4 + 2 * 2) * GPU_HOUR
        await box.submit(a_submission(tenant=T, job_id="waits"))
        assert await box.tick(4 * HOUR) == []
        assert code_of(box, "waits") is ReasonCode.BUDGET


async def test_a_used_up_budget_is_the_reason_also_before_the_first_cycle_after_a_restart() -> None:
    store, tenants = MemoryStore(), [a_tenant(OverBudget.HOLD)]
    async with a_box(leases=True, store=store, tenants=tenants) as box:
        await box.submit(a_submission(tenant=T, job_id="runs", gpus=4, gpu_type="A100"))
        await box.tick(0)
        await box.submit(a_submission(tenant=T, job_id="waits"))
        await box.tick(3 * HOUR)
        await box.service.jobs.complete(box.service.state.placed()[0].job.job_id)
        assert code_of(box, "waits") is ReasonCode.BUDGET
    async with a_box(leases=True, store=store, tenants=tenants) as box:
        assert code_of(box, "waits") is ReasonCode.BUDGET


class Heard(Observer):
    def __init__(self) -> None:
        self.notices: list[tuple[str, int]] = []

    def budget_reached(self, tenant_id: TenantId, percent: int) -> None:
        self.notices.append((tenant_id, percent))


async def test_notices_are_given_once_a_window_also_across_a_restart() -> None:
    store, tenants, heard = MemoryStore(), [a_tenant(OverBudget.WARN)], Heard()
    with capture_logs() as lines:
        async with a_box(leases=True, store=store, tenants=tenants, observers=[heard]) as box:
            await box.submit(a_submission(tenant=T, job_id="runs"))
            for hours in (0, 7, 8, 9):
                await box.tick(hours * HOUR)
        assert heard.notices == [(T, 80)]
        async with a_box(leases=True, store=store, tenants=tenants, observers=[heard]) as box:
            for hours in (9, 10, 11, 24, 33):
                await box.tick(hours * HOUR)
    assert heard.notices == [(T, 80), (T, 100), (T, 80)]
    said = [line["event"] for line in lines if line.get("percent")]
    assert said == [
        "a tenant has used most of its budget",
        "a tenant has used up its budget",
        "a tenant has used most of its budget",
    ]
