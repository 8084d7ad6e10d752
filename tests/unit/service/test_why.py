"""Why jobs wait, as the service tells it: cheap in lists, at length for one."""

import pytest

from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.cycle import CycleObserver
from tgpu.core.explain.changes import ChangeKind
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Options
from tgpu.core.model.plan import Plan
from tgpu.core.model.reasons import ReasonCode
from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.model.tenant import Tenant
from tgpu.core.policies.slots import ChoicePolicy, Policy
from tgpu.service.identity.ownership import Sight
from tgpu.service.why import Told

EASY = Rules(backfill=BackfillMode.EASY)
RED, BLUE = Tenant(TenantId("red")), Tenant(TenantId("blue"))


async def told(box: Box, job_id: str, *tenants: str) -> Told:
    service = box.service
    sight = Sight(frozenset(TenantId(name) for name in tenants)) if tenants else None
    found = await service.reasons.why(JobId(job_id), service.clock.now(), sight)
    assert found is not None
    return found


async def a_line(box: Box, tenant: str = "red") -> None:
    """On two GPUs `a` has one until 60 000, `big` of blue is promised both, `j` comes after it."""
    limit = Options(time_limit_ms=60_000)
    await box.submit(a_submission(job_id="a", tenant="blue", gpu_type="H100", options=limit))
    assert await box.tick(0) == ["a"]
    await box.submit(a_submission(job_id="big", tenant="blue", gpus=2, gpu_type="H100"))
    await box.tick(1)
    await box.submit(a_submission(job_id="j", tenant=tenant, gpu_type="H100"))
    assert await box.tick(2) == []


async def test_what_the_last_cycle_kept_for_others_is_the_reason_in_lists() -> None:
    async with a_box(leases=True, tenants=[RED, BLUE], rules=EASY) as box:
        await a_line(box, "blue")
        found = box.service.reason(JobId("j"))
        assert found is not None
        assert (found.code, found.fact("job")) == (ReasonCode.BEHIND_RESERVATION, "big")


async def test_in_lists_a_job_of_another_tenant_has_no_name() -> None:
    async with a_box(leases=True, tenants=[RED, BLUE], rules=EASY) as box:
        await a_line(box)
        found = box.service.reason(JobId("j"))
        assert found is not None
        assert (found.code, found.fact("job")) == (ReasonCode.BEHIND_RESERVATION, "")


async def test_who_may_see_the_other_tenant_is_told_the_name() -> None:
    async with a_box(leases=True, tenants=[RED, BLUE], rules=EASY) as box:
        await a_line(box)
        assert (await told(box, "j", "red")).reason.fact("job") == ""
        assert (await told(box, "j", "red", "blue")).reason.fact("job") == "big"


async def test_at_length_there_are_blockers_those_ahead_and_a_change() -> None:
    async with a_box(leases=True, tenants=[RED, BLUE], rules=EASY) as box:
        await a_line(box)
        found = await told(box, "j", "red", "blue")
        assert [blocker.job_id for blocker in found.blockers] == ["big"]
        assert found.ahead == (1, ("big",))
        assert found.change is not None
        assert found.change.kind is ChangeKind.TIME_LIMIT
        big = await told(box, "big", "blue")
        assert big.starts_by == 60_000
        assert [blocker.job_id for blocker in big.blockers] == ["a"]


async def test_the_offered_change_starts_the_job_when_it_is_submitted() -> None:
    async with a_box(leases=True, tenants=[RED, BLUE], rules=EASY) as box:
        await a_line(box)
        change = (await told(box, "j")).change
        assert change is not None
        job = change.job
        again = a_submission(
            job_id="k", tenant="red", request=job.request, options=job.options, queue=job.queue
        )
        await box.submit(again)
        await box.service.jobs.cancel(JobId("j"))
        assert "k" in await box.tick(3)


async def test_between_two_commits_a_cycle_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_box(leases=True, tenants=[RED, BLUE], rules=EASY) as box:
        await a_line(box)
        await box.submit(a_submission(job_id="k", tenant="red", gpu_type="H100"))
        asked: list[int] = []
        dry_run = box.service.reasons._dry_run

        def counted(now: int, policy: Policy, witness: CycleObserver | None) -> Plan:
            asked.append(now)
            return dry_run(now, policy, witness)

        monkeypatch.setattr(box.service.reasons, "_dry_run", counted)
        box.service.reasons.look([JobId("j"), JobId("k")], box.service.clock.now())
        for job_id in ("j", "k", "j", "k"):
            assert box.service.reason(JobId(job_id)) is not None
        assert len(asked) == 1
        await box.tick(3)
        box.service.reason(JobId("j"))
        assert len(asked) == 2


async def test_a_cycle_that_costs_much_is_not_made_for_every_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it came to is told for ten times as long; who asks about one job is told of now."""
    clock = [100.0]
    monkeypatch.setattr("tgpu.service.why.monotonic", lambda: clock[0])
    monkeypatch.setattr("tgpu.service.why.thread_time", lambda: clock[0])
    async with a_box(leases=True, tenants=[RED, BLUE], rules=EASY) as box:
        await a_line(box)
        asked: list[int] = []
        reasons = box.service.reasons
        dry_run = reasons._dry_run

        def slow(now: int, policy: Policy, witness: CycleObserver | None) -> Plan:
            asked.append(now)
            clock[0] += 1.0
            return dry_run(now, policy, witness)

        monkeypatch.setattr(reasons, "_dry_run", slow)
        for seconds, expected in ((0.0, 1), (5.0, 1), (6.0, 2)):
            clock[0] += seconds
            reasons.forget()
            assert box.service.reason(JobId("j")) is not None
            assert len(asked) == expected
        await told(box, "j")
        asked.clear()
        reasons.forget()
        assert box.service.reason(JobId("j")) is not None
        assert len(asked) == 1


async def test_an_installed_policy_that_chose_others_is_the_reason_in_lists_too() -> None:
    policy = ChoicePolicy("mine", lambda queue, jobs: None)
    async with a_box(leases=True, policy=policy) as box:
        await box.submit(a_submission(job_id="j"))
        assert await box.tick(1) == []
        found = box.service.reason(JobId("j"))
        assert found is not None
        assert found.code is ReasonCode.NOT_CHOSEN


async def test_a_job_behind_one_that_starts_is_not_listed_for_the_next_cycle() -> None:
    async with a_box(leases=True) as box:
        await box.submit(a_submission(job_id="first", gpus=4))
        await box.submit(a_submission(job_id="second", gpus=4))
        found = [box.service.reason(JobId(job_id)) for job_id in ("first", "second")]
        codes = [one.code for one in found if one is not None]
        assert codes == [ReasonCode.NEXT_CYCLE, ReasonCode.GPUS_BUSY]


async def test_an_installed_policy_is_not_asked_for_a_question() -> None:
    calls = []
    policy = ChoicePolicy("mine", lambda queue, jobs: calls.append(queue))
    async with a_box(leases=True, policy=policy) as box:
        await box.submit(a_submission(job_id="j"))
        assert await box.tick(1) == []
        calls.clear()
        found = await told(box, "j")
        assert found.reason.code is ReasonCode.NOT_CHOSEN
        assert (found.ahead, found.change, calls) == (None, None, [])


async def test_a_job_that_does_not_wait_has_no_reason_to() -> None:
    async with a_box(leases=True) as box:
        await box.submit(a_submission(job_id="j"))
        await box.tick(1)
        assert await box.service.reasons.why(JobId("j"), 1) is None
        assert box.service.reason(JobId("j")) is None
