"""Policies that rank those who run, in the live service."""

from typing import Any

from tests.unit.service.world import a_box, a_submission
from tgpu.core.accounting.attained import level_of
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.service.recording.clock import ManualClock
from tgpu.store.memory import MemoryStore

HOUR = 3_600_000
PREEMPTIVE = Rules(preemption=PreemptionRules())


async def test_under_las_a_newcomer_gets_the_gpu_of_who_had_it_for_long():
    async with a_box(
        gpus="sim:1xA100", leases=True, policy=order_policy("las"), rules=PREEMPTIVE
    ) as box:
        long = await box.submit(a_submission())
        await box.tick(0)
        await box.service.tick(HOUR)
        new = await box.submit(a_submission())
        await box.tick(HOUR)
        await box.tick(HOUR)
        assert await box.state_of(new) is JobState.RUNNING
        progress = (await box.service.job(long)).progress
        assert (progress.state, progress.ran_ms) == (JobState.PENDING, HOUR)
        # It comes back when the other has had twice as much, and not before.
        await box.tick(2 * HOUR)
        assert await box.state_of(new) is JobState.RUNNING
        await box.tick(3 * HOUR)
        await box.tick(3 * HOUR)
        assert await box.state_of(long) is JobState.RUNNING


async def test_without_preemption_the_policy_is_an_order_alone():
    async with a_box(gpus="sim:1xA100", leases=True, policy=order_policy("las")) as box:
        long = await box.submit(a_submission())
        await box.tick(0)
        await box.submit(a_submission())
        await box.tick(HOUR)
        await box.tick(HOUR)
        assert await box.state_of(long) is JobState.RUNNING


async def test_what_a_job_had_is_known_after_a_restart_of_the_service():
    store = MemoryStore()
    setting: dict[str, Any] = {
        "gpus": "sim:1xA100",
        "policy": order_policy("las"),
        "rules": PREEMPTIVE,
    }
    async with a_box(store=store, leases=True, **setting) as box:
        long = await box.submit(a_submission())
        await box.tick(0)
        await box.service.tick(HOUR)
        await box.submit(a_submission())
        await box.tick(HOUR)
    clock = ManualClock()
    clock.set(HOUR)
    async with a_box(store=store, leases=True, clock=clock, **setting) as box:
        entry = box.service.state.entry(JobId(long))
        assert entry is not None
        assert entry.progress.ran_ms == HOUR
        assert entry.queue.job_class.level == level_of(1000, HOUR)
