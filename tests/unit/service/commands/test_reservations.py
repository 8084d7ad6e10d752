"""Reservations in the service: made, refused, given back, kept over a restart, mended."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.service.world import DEFAULT, Box, FailingStore, a_box, a_submission
from tgpu.core.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    Unavailable,
)
from tgpu.core.model.ids import NodeId, TenantId
from tgpu.core.model.job import Options
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.model.tenant import Tenant
from tgpu.service.commands.reservations import BookingLimits, ReservationWish
from tgpu.service.reads.reservations import bookings_of
from tgpu.store.memory import MemoryStore

MINUTE = 60_000
HOUR = 60 * MINUTE


def a_wish(
    gpus: int = 1, at: int | None = HOUR, length_ms: int = HOUR, **fields: Any
) -> ReservationWish:
    tenant = TenantId(fields.pop("tenant", "default"))
    return ReservationWish(tenant, gpus, length_ms, starts_at=at, **fields)


def ids(box: Box) -> list[str]:
    return [booking.booking_id for booking in bookings_of(box.service.state)]


def in_booking(booking: str, **fields: Any) -> Options:
    return Options(booking=booking, **fields)


async def test_a_reservation_gets_the_next_number_as_its_id():
    async with a_box() as box:
        made = [await box.service.bookings.reserve(a_wish()) for _ in range(2)]
    assert [booking.booking_id for booking in made] == ["r-1", "r-2"]
    assert (made[0].starts_at, made[0].ends_at) == (HOUR, 2 * HOUR)
    assert made[0].unused_ms == 15 * MINUTE


async def test_a_number_is_not_given_twice():
    store = MemoryStore()
    async with a_box(store=store) as box:
        await box.service.bookings.reserve(a_wish())
        await box.service.bookings.cancel("r-1")
    async with a_box(store=store) as box:
        assert (await box.service.bookings.reserve(a_wish())).booking_id == "r-2"


async def test_the_caller_may_name_it():
    async with a_box() as box:
        await box.service.bookings.reserve(a_wish(booking_id="r-1"))
        assert (await box.service.bookings.reserve(a_wish())).booking_id == "r-2"
        with pytest.raises(Conflict, match="reservation r-1 already exists"):
            await box.service.bookings.reserve(a_wish(booking_id="r-1"))
        with pytest.raises(InvalidRequest, match="an id is"):
            await box.service.bookings.reserve(a_wish(booking_id="no id"))


async def test_without_a_time_it_begins_now():
    async with a_box() as box:
        await box.tick(5000)
        assert (await box.service.bookings.reserve(a_wish(at=None))).starts_at == 5000


async def test_a_moment_ago_is_now_and_longer_ago_is_refused():
    async with a_box() as box:
        await box.tick(HOUR)
        assert (await box.service.bookings.reserve(a_wish(at=HOUR - 1000))).starts_at == HOUR
        with pytest.raises(InvalidRequest, match="starts_at: has passed"):
            await box.service.bookings.reserve(a_wish(at=HOUR - 2 * MINUTE))


@pytest.mark.parametrize(
    ("wish", "error", "sentence"),
    [
        (a_wish(5), InvalidRequest, "gpus: no machine has more than 4 equal GPUs"),
        (a_wish(3, gpu_type="H100"), InvalidRequest, "no machine has more than 2 H100 GPUs"),
        (a_wish(gpu_type="V100"), InvalidRequest, "there are: A100, H100"),
        (a_wish(node_id=NodeId("x")), InvalidRequest, "node: no such node; there are: local"),
        (a_wish(tenant="nobody"), InvalidRequest, "no such tenant; there are: asleep, default"),
        (a_wish(tenant="asleep"), Conflict, "tenant asleep is inactive"),
        (a_wish(0), InvalidRequest, "gpus: at least 1"),
        (a_wish(length_ms=0), InvalidRequest, "at least a second"),
        (a_wish(length_ms=25 * HOUR), InvalidRequest, "at most 24 hours"),
        (a_wish(at=49 * HOUR), InvalidRequest, "at most 2 days ahead"),
        (a_wish(3, tenant="small"), QuotaExceeded, "requested=3, quota=2, current=0"),
    ],
)
async def test_what_cannot_be_is_refused_with_what_could(wish, error, sentence):
    tenants = [DEFAULT, Tenant(TenantId("asleep"), active=False), Tenant(TenantId("small"), 2000)]
    limits = BookingLimits(longest_ms=24 * HOUR, ahead_ms=48 * HOUR)
    async with a_box(tenants=tenants, bookings=limits) as box:
        with pytest.raises(error) as refused:
            await box.service.bookings.reserve(wish)
        assert sentence in refused.value.message
        assert ids(box) == []


async def test_what_is_taken_is_refused_with_the_time_when_it_is_free():
    async with a_box(gpus="sim:4xA100") as box:
        await box.service.bookings.reserve(a_wish(3))
        with pytest.raises(Conflict) as refused:
            await box.service.bookings.reserve(a_wish(2))
    assert refused.value.message == (
        "only 1 GPU of one machine is left to reserve from 1970-01-01T01:00:00Z to "
        "1970-01-01T02:00:00Z; 2 are free for as long from 1970-01-01T02:00:00Z"
    )
    assert refused.value.details[0]["free_at"] == "1970-01-01T02:00:00Z"


async def test_gpus_that_are_paused_are_not_reserved():
    async with a_box(gpus="sim:1xA100") as box:
        await box.service.pause_gpu(0, "loud")
        with pytest.raises(Unavailable, match="only 0 of these GPUs"):
            await box.service.bookings.reserve(a_wish())


async def test_reservations_survive_a_restart_with_their_jobs():
    store = MemoryStore()
    async with a_box(store=store) as box:
        made = await box.service.bookings.reserve(a_wish(2, user="ann"))
        job_id = await box.submit(a_submission("true", options=in_booking("r-1")))
    async with a_box(store=store) as box:
        assert bookings_of(box.service.state) == [made]
        assert await box.tick(0) == []
        assert await box.tick(HOUR) == [job_id]


async def test_a_reservation_that_cannot_be_recorded_is_not_there():
    store = FailingStore()
    async with a_box(store=store) as box:
        store.broken = "the disk is full"
        with pytest.raises(Exception, match="the disk is full"):
            await box.service.bookings.reserve(a_wish())
        assert ids(box) == []
        store.broken = None


async def test_a_reservation_is_over_at_its_end_and_gone_for_good():
    store = MemoryStore()
    async with a_box(store=store, bookings=BookingLimits(unused_ms=None)) as box:
        await box.service.bookings.reserve(a_wish())
        await box.tick(2 * HOUR - 1)
        assert ids(box) == ["r-1"]
        await box.tick(2 * HOUR)
        assert ids(box) == []
    async with a_box(store=store) as box:
        assert ids(box) == []


async def test_an_unused_reservation_is_given_back():
    async with a_box() as box:
        await box.service.bookings.reserve(a_wish())
        await box.service.bookings.reserve(a_wish(keep=True))
        await box.service.bookings.reserve(a_wish(unused_ms=30 * MINUTE))
        await box.tick(HOUR + 15 * MINUTE)
        assert ids(box) == ["r-2", "r-3"]
        await box.tick(HOUR + 30 * MINUTE)
        assert ids(box) == ["r-2"]


async def test_a_reservation_that_was_used_is_kept_also_over_a_restart():
    store = MemoryStore()
    async with a_box(store=store, leases=True) as box:
        await box.service.bookings.reserve(a_wish())
        job_id = await box.submit(a_submission(options=in_booking("r-1")))
        assert await box.tick(HOUR) == [job_id]
        await box.service.jobs.complete((await box.service.job(job_id)).job.job_id)
    async with a_box(store=store, leases=True) as box:
        await box.tick(HOUR + 50 * MINUTE)
        assert ids(box) == ["r-1"]


async def test_a_job_of_a_reservation_runs_on_its_gpus_and_others_do_not():
    async with a_box(gpus="sim:2xA100", leases=True) as box:
        made = await box.service.bookings.reserve(a_wish(at=None))
        mine = await box.submit(a_submission(options=in_booking("r-1")))
        others = [await box.submit(a_submission()) for _ in range(2)]
        assert sorted(await box.tick(0)) == [mine, others[0]]
        placement = (await box.service.job(mine)).progress.placement
    assert placement is not None
    assert tuple(share.gpu_index for share in placement.shares) == made.gpus


async def test_until_it_begins_jobs_that_are_over_by_then_use_its_gpus():
    async with a_box(gpus="sim:1xA100", leases=True) as box:
        await box.service.bookings.reserve(a_wish())
        long = await box.submit(a_submission(options=Options(time_limit_ms=2 * HOUR)))
        short = await box.submit(a_submission(options=Options(time_limit_ms=HOUR)))
        assert await box.tick(0) == [short]
        assert await box.state_of(long) is JobState.PENDING


async def test_jobs_left_when_it_begins_are_preempted():
    rules = Rules(preemption=PreemptionRules())
    async with a_box(gpus="sim:1xA100", leases=True, rules=rules) as box:
        before = await box.submit(a_submission())
        await box.tick(0)
        await box.service.bookings.reserve(a_wish())
        mine = await box.submit(a_submission(options=in_booking("r-1")))
        await box.tick(HOUR)
        await box.tick(HOUR)
        assert await box.state_of(mine) is JobState.RUNNING
        assert await box.state_of(before) is JobState.PENDING


async def test_a_cancelled_reservation_takes_its_waiting_jobs_with_it():
    async with a_box() as box:
        await box.service.bookings.reserve(a_wish())
        job_id = await box.submit(a_submission("true", options=in_booking("r-1")))
        await box.service.bookings.cancel("r-1")
        await box.tick(1)
        progress = (await box.service.job(job_id)).progress
    assert progress.state is JobState.CANCELLED
    assert progress.cause == "reservation r-1 it runs in is over"


async def test_what_is_not_there_cannot_be_cancelled():
    async with a_box() as box:
        with pytest.raises(NotFound, match="no reservation named 'r-9'"):
            await box.service.bookings.cancel("r-9")


@pytest.mark.parametrize("booking", ["r-9", "theirs"])
async def test_a_job_for_a_reservation_that_is_not_its_tenants_is_refused(booking):
    async with a_box(tenants=[DEFAULT, Tenant(TenantId("others"))]) as box:
        await box.service.bookings.reserve(a_wish(tenant="others", booking_id="theirs"))
        with pytest.raises(InvalidRequest, match="tenant default has no such reservation"):
            await box.submit(a_submission("true", options=in_booking(booking)))


async def test_a_job_that_is_too_large_for_its_reservation_is_refused():
    async with a_box() as box:
        await box.service.bookings.reserve(a_wish(2, gpu_type="A100"))
        with pytest.raises(InvalidRequest, match="reservation r-1 has 2 A100 GPUs"):
            await box.submit(a_submission("true", gpus=3, options=in_booking("r-1")))
        with pytest.raises(InvalidRequest, match="reservation r-1 has 2 A100 GPUs"):
            await box.submit(a_submission("true", gpu_type="H100", options=in_booking("r-1")))
        await box.submit(a_submission("true", gpus=2, options=in_booking("r-1")))


async def test_a_reservation_moves_off_a_gpu_that_is_paused():
    async with a_box(gpus="sim:2xA100") as box:
        (index,) = (await box.service.bookings.reserve(a_wish())).gpus
        await box.service.pause_gpu(index, "loud")
        await box.tick(1)
        (moved,) = bookings_of(box.service.state)
        assert moved.gpus == (1 - index,)
        assert box.service.problems() == []


async def test_a_reservation_that_finds_no_other_gpu_is_a_problem():
    async with a_box(gpus="sim:1xA100") as box:
        await box.service.bookings.reserve(a_wish())
        await box.service.pause_gpu(0, "loud")
        await box.tick(1)
        assert _about(box.service.problems()) == [
            "reservation r-1: GPU 0 of node local: paused: loud; no other GPUs are free for it"
        ]
        await box.service.pause_gpu(0, None)
        assert _about(box.service.problems()) == []


def _about(problems: Sequence[str]) -> list[str]:
    return [problem for problem in problems if problem.startswith("reservation")]
