"""The wall clock is set while jobs run: nobody is charged, nothing ends, and it is said."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.check import check_invariants
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Options
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.tenant import Budget, OverBudget, Tenant, Window
from tgpu.engines.api import AttemptKey
from tgpu.engines.fake import FakeEngine
from tgpu.service.feed.feed_event import feed_event
from tgpu.service.reads.tenants import usage_total
from tgpu.service.recording.clock import SteadyClock
from tgpu.store.event_codec import decode_event
from tgpu.store.memory import MemoryStore
from tgpu.telemetry.counts import Counts

HOUR = 3_600_000
NOON = 20_000 * 24 * HOUR + 12 * HOUR
STEPS = pytest.mark.parametrize("step", [5 * HOUR, -5 * HOUR, 4_000, -4_000])


class Machine:
    """Its clocks: one that can be set, one that cannot."""

    def __init__(self) -> None:
        self.up_ms = 77_000
        self.offset_ms = NOON
        self.anchor_ms = NOON  # of the engine, from its start on

    def boottime(self) -> int:
        return self.up_ms

    def wall(self) -> int:
        return self.up_ms + self.offset_ms

    def engine_now(self) -> int:
        return self.up_ms + self.anchor_ms

    def pass_time(self, ms: int) -> None:
        self.up_ms += ms

    def set_clock(self, by: int) -> None:
        self.offset_ms += by


@asynccontextmanager
async def a_service(
    machine: Machine, *, engine: FakeEngine | None = None, boot: str = "boot", **options: Any
) -> AsyncIterator[Box]:
    clock = SteadyClock(machine.wall, machine.boottime)
    engine = engine or FakeEngine(clock=machine.engine_now)
    options = {"interval_seconds": 0.02, "boot": lambda: boot, **options}
    async with a_box(clock=clock, engine=engine, **options) as box:
        yield box


async def runs(box: Box, job_id: str) -> AttemptKey:
    await box.submit(a_submission("true", job_id=job_id))
    await box.until(job_id, JobState.RUNNING)
    return await box.key(job_id)


def charged_ms(box: Box) -> float:
    return usage_total(box.service.state, TenantId("default")).gpu_millis_ms / 1000


@STEPS
async def test_a_step_charges_nothing_though_the_job_ends_before_it_is_noticed(step: int) -> None:
    machine = Machine()
    async with a_service(machine) as box:
        key = await runs(box, "j")
        machine.pass_time(60_000)
        machine.set_clock(step)
        box.engine.finish(key)
        await box.until("j", JobState.COMPLETED)
        assert charged_ms(box) == 60_000


@STEPS
async def test_a_step_charges_nothing_once_it_is_noticed(step: int) -> None:
    machine = Machine()
    async with a_service(machine) as box:
        key = await runs(box, "j")
        machine.pass_time(60_000)
        machine.set_clock(step)
        await box.service.clock_watch.look()
        assert box.service.clock.now() == machine.wall()
        check_invariants(box.service.state)
        machine.pass_time(30_000)
        box.engine.finish(key)
        await box.until("j", JobState.COMPLETED)
        assert charged_ms(box) == 90_000
        progress = (await box.service.job("j")).progress
        assert progress.ended_at == machine.wall()


@STEPS
async def test_a_lease_lasts_as_long_as_it_was_to_last(step: int) -> None:
    machine = Machine()
    async with a_service(machine) as box:
        lease = Options(lease=True, time_limit_ms=HOUR)
        await box.submit(a_submission(job_id="l", options=lease))
        await box.until("l", JobState.RUNNING)
        machine.pass_time(HOUR // 2)
        machine.set_clock(step)
        await box.service.clock_watch.look()
        await box.service.trigger()
        machine.pass_time(HOUR // 2 - 1)
        await box.service.trigger()
        assert await box.state_of("l") is JobState.RUNNING
        machine.pass_time(1)
        await box.service.trigger()
        await box.until("l", JobState.COMPLETED)
        assert charged_ms(box) == HOUR


@STEPS
async def test_a_step_while_the_service_was_away_charges_nothing(step: int) -> None:
    machine, store = Machine(), MemoryStore()
    engine = FakeEngine(clock=machine.engine_now)
    async with a_service(machine, store=store, engine=engine) as box:
        key = await runs(box, "j")
        await box.service.clock_watch.look()
    machine.pass_time(60_000)
    machine.set_clock(step)
    async with a_service(machine, store=store, engine=engine) as box:
        assert box.service.clock.now() == machine.wall()
        machine.pass_time(5_000)
        box.engine.finish(key)
        await box.until("j", JobState.COMPLETED)
        assert charged_ms(box) == 65_000


async def test_a_machine_that_comes_up_with_a_clock_that_is_behind_ends_no_lease_later() -> None:
    machine, store = Machine(), MemoryStore()
    async with a_service(machine, store=store) as box:
        lease = Options(lease=True, time_limit_ms=HOUR)
        await box.submit(a_submission(job_id="l", options=lease))
        await box.until("l", JobState.RUNNING)
        machine.pass_time(HOUR // 2)
        await box.service.clock_watch.save()
    machine.up_ms, machine.offset_ms = 1_000, 0  # in 1970, until somebody sets it
    async with a_service(machine, store=store, boot="another") as box:
        assert box.service.clock.now() == machine.wall()
        machine.set_clock(NOON + 3 * HOUR)
        await box.service.clock_watch.look()
        machine.pass_time(HOUR // 2 - 1)
        await box.service.trigger()
        assert await box.state_of("l") is JobState.RUNNING
        machine.pass_time(1)
        await box.service.trigger()
        await box.until("l", JobState.COMPLETED)


async def test_a_budget_is_spent_by_what_ran_and_its_window_turns_by_the_calendar() -> None:
    machine = Machine()
    budget = Budget(2 * HOUR * 1000, Window.DAY, OverBudget.STOP)
    tenant = Tenant(TenantId("default"), budget=budget)
    async with a_service(machine, tenants=[tenant]) as box:
        await runs(box, "j")
        machine.pass_time(HOUR)
        machine.set_clock(5 * HOUR)  # 18 o'clock, the same day
        await box.service.clock_watch.look()
        await box.service.trigger()
        assert await box.state_of("j") is JobState.RUNNING
        spend = box.service.state.budgets.spend(TenantId("default"))
        assert spend.upto(machine.wall()).day == HOUR * 1000
        machine.set_clock(24 * HOUR)
        await box.service.clock_watch.look()
        spend = box.service.state.budgets.spend(TenantId("default"))
        assert (spend.day, spend.total) == (0, HOUR * 1000)


async def test_it_is_said_to_operators_watchers_and_in_figures() -> None:
    machine, counts = Machine(), Counts()
    async with a_service(machine, observers=[counts]) as box:
        await runs(box, "j")
        machine.set_clock(5 * HOUR)
        await box.service.clock_watch.look()
        (problem,) = box.service.problems()
        assert problem.startswith("the clock of this machine was set 5:00:00 ahead, at 2024-10-04T")
        assert counts.clock_steps == 1
        rows = [r for r in await box.service.store.journal(0, 100) if r.kind == "clock_stepped"]
        told = feed_event(rows[0].seq, decode_event(rows[0].kind, rows[0].payload))
        assert told is not None
        assert (told.kind, told.data) == ("clock_stepped", {"seconds": 5 * 3600.0})


async def test_small_corrections_are_followed_without_a_word() -> None:
    machine = Machine()
    async with a_service(machine) as box:
        for by in (300, -300, 20, 900):
            machine.set_clock(by)
            await box.service.clock_watch.look()
            assert box.service.clock.now() == machine.wall()
        assert box.service.problems() == []
        assert not [r for r in await box.service.store.journal(0, 100) if "clock" in r.kind]


@STEPS
async def test_a_back_off_is_waited_out(step: int) -> None:
    machine = Machine()
    async with a_service(machine) as box:
        options = Options(max_retries=1, backoff_ms=HOUR)
        await box.submit(a_submission("true", job_id="j", options=options))
        await box.until("j", JobState.RUNNING)
        box.engine.finish(await box.key("j"), 1)
        await box.until("j", JobState.PENDING)
        machine.pass_time(HOUR - 10_000)
        machine.set_clock(step)
        await box.service.clock_watch.look()
        await box.service.trigger()
        check_invariants(box.service.state)
        assert await box.state_of("j") is JobState.PENDING
        machine.pass_time(10_000)
        await box.service.trigger()
        await box.until("j", JobState.RUNNING)
        assert box.service.state.entry(JobId("j")) is not None
