"""With the true run times, a projection gives exactly the starts of the live service."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import a_job, a_node, a_state, a_tenant
from tests.property.live_service import LiveService
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import BookingSet
from tgpu.core.model.ids import TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.rules import BackfillMode, PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.core.projection import queue_projection
from tgpu.core.projection.queue_projection import RunLength, project
from tgpu.core.projection.snapshot import picture, state_of
from tgpu.core.reservations.advance_reservations import AdvanceReservationRequest, choose
from tgpu.core.scheduling_config import CycleContext, SchedulingConfig

NODES = (a_node("n0", 4), a_node("n1", 2))
SHAPES = ((0.5, 1), (1.0, 1), (1.0, 1), (2.0, 1), (4.0, 1), (2.0, 2), (6.0, 3))
LAST = 400  # by then whoever can start has
MOST_STEPS = 5_000


@dataclass(frozen=True)
class JobWish:
    """What somebody submits; `after` and `booking` count from the newest before it."""

    at: int
    runs: int
    shape: tuple[float, int] = (1.0, 1)
    tenant: str = "red"
    priority: int = 500
    limit: int | None = None
    lease: bool = False
    preemptible: bool = True
    after: tuple[int, str] | None = None
    booking: int | None = None


@dataclass(frozen=True)
class BookingWish:
    at: int
    starts_in: int
    lasts: int
    gpus: int = 1
    unused_ms: int | None = None


@dataclass(frozen=True)
class World:
    wishes: tuple[JobWish | BookingWish, ...]
    rules: Rules = field(default_factory=Rules)
    policy: str = "priority"
    quota: float | None = None  # of each tenant; both lend to each other


job_wishes = st.builds(
    JobWish,
    at=st.integers(0, 12),
    runs=st.integers(1, 9),
    shape=st.sampled_from(SHAPES),
    tenant=st.sampled_from(("red", "blue")),
    priority=st.sampled_from((100, 500, 900)),
    limit=st.sampled_from((None, None, 3, 6, 12)),
    lease=st.sampled_from((False, False, False, True)),
    preemptible=st.sampled_from((True, True, False)),
    after=st.none() | st.tuples(st.integers(1, 4), st.sampled_from(("ok", "any"))),
    booking=st.sampled_from((None, None, None, 1, 2)),
)
booking_wishes = st.builds(
    BookingWish,
    at=st.integers(0, 12),
    starts_in=st.integers(0, 8),
    lasts=st.integers(1, 15),
    gpus=st.integers(1, 2),
    unused_ms=st.sampled_from((None, 2, 5)),
)
rules = st.builds(
    Rules,
    backfill=st.sampled_from(BackfillMode),
    hold_after_ms=st.sampled_from((None, None, 5)),
    preemption=st.none() | st.builds(PreemptionRules, min_run_ms=st.sampled_from((0, 0, 3))),
)
worlds = st.builds(
    World,
    st.lists(job_wishes | job_wishes | job_wishes | booking_wishes, min_size=1, max_size=16).map(
        lambda wishes: tuple(sorted(wishes, key=lambda wish: wish.at))
    ),
    rules,
    st.sampled_from(("fifo", "priority", "fairshare", "shortest")),
    st.sampled_from((None, None, 3.0)),
)


def a_service(world: World) -> LiveService:
    cohort = "" if world.quota is None else "lab"
    tenants = [a_tenant(name, world.quota, cohort=cohort) for name in ("blue", "red")]
    config = SchedulingConfig(order_policy(world.policy), world.rules)
    return LiveService(a_state(nodes=NODES, tenants=tenants), config)


def ask(live: LiveService, number: int, wish: JobWish | BookingWish) -> None:
    if isinstance(wish, BookingWish):
        starts_at = live.now + wish.starts_in
        request = AdvanceReservationRequest(
            f"r-{number:02}",
            TenantId("red"),
            wish.gpus,
            starts_at,
            starts_at + wish.lasts,
            unused_ms=wish.unused_ms,
        )
        found = choose(live.state, request, live.now)
        if isinstance(found, AdvanceReservation):
            live.state.apply(BookingSet(live.now, found))
    else:
        live.submit(a_wished_job(live, number, wish), wish.runs)


def a_wished_job(live: LiveService, number: int, wish: JobWish) -> Job:
    gpus, workers = wish.shape
    jobs = sorted(live.run_ms, reverse=True)
    bookings = sorted(live.state.ledger.bookings, reverse=True)
    after: tuple[str, ...] = ()
    if wish.after is not None and wish.after[0] <= len(jobs):
        other = jobs[wish.after[0] - 1]
        # The state has forgotten how those ended that are over; the service refuses such.
        after = (f"{other}:{wish.after[1]}",) if live.state.entry(other) is not None else ()
    booking = None
    if wish.booking is not None and workers == 1 and wish.booking <= len(bookings):
        booking = bookings[wish.booking - 1]
    return a_job(
        f"j{number:02}",
        wish.tenant if booking is None else "red",
        gpus=gpus,
        workers=workers,
        priority=wish.priority,
        submitted_at=live.now,
        time_limit_ms=wish.limit,
        lease=wish.lease,
        preemptible=wish.preemptible,
        after=after,
        booking=booking,
    )


PREEMPTING = Rules(preemption=PreemptionRules())
ALL = (6.0, 3)  # every GPU there is
UNUSED = World((BookingWish(0, 0, 60, 2, unused_ms=10), JobWish(0, 3, ALL)))
USED = World((BookingWish(0, 0, 30, 2, unused_ms=5), JobWish(0, 2, booking=1), JobWish(0, 3, ALL)))
CLEARED = World(
    (JobWish(0, 30, ALL), BookingWish(1, 4, 9, 2), JobWish(2, 5, (2.0, 1), booking=1)), PREEMPTING
)
CLAIMED = World(
    (JobWish(0, 9, ALL, priority=100), JobWish(0, 3, ALL, priority=900)), PREEMPTING, "fifo"
)
SPARED = World(
    (JobWish(0, 40, ALL, priority=100), JobWish(1, 2, priority=900)),
    Rules(preemption=PreemptionRules(min_run_ms=9)),
)
GIVEN_UP = World(
    (JobWish(0, 9, limit=3), JobWish(0, 2, after=(1, "ok")), JobWish(0, 2, after=(1, "any")))
)
LEASED = World((JobWish(0, 9, ALL, limit=4, lease=True), JobWish(0, 2, after=(1, "ok"))))


CONSERVATIVE = Rules(backfill=BackfillMode.CONSERVATIVE)
# What is kept for the first job is all that is in the second one's way, until its time is up.
KEPT = World(
    (
        JobWish(4, 3, ALL, limit=6),
        JobWish(4, 4, limit=3, priority=900),
        JobWish(5, 1, limit=12),
        BookingWish(6, 4, 11, 1),
    ),
    CONSERVATIVE,
)
KEPT_TWICE = World(
    (
        BookingWish(5, 8, 6, 1, unused_ms=5),
        JobWish(6, 8, ALL, limit=12),
        BookingWish(11, 6, 11, 2, unused_ms=5),
        JobWish(12, 9, ALL, limit=3, priority=900),
    ),
    CONSERVATIVE,
    "fairshare",
)
# Who has just started is preempted by who comes behind it in line.
SWAPPED = World(
    (JobWish(8, 2, ALL, priority=100), JobWish(9, 2, ALL), JobWish(10, 9, priority=900)),
    PREEMPTING,
    "fifo",
)
HOLDING = Rules(backfill=BackfillMode.CONSERVATIVE, hold_after_ms=5)
# The second waits long enough at 8: from then on the last may not pass it.
OVERDUE = World(
    (JobWish(0, 6), JobWish(3, 1, ALL, limit=12), JobWish(4, 8), JobWish(8, 1)), HOLDING, "fifo"
)
# One of the first in line becomes overdue and has the one reservation from then on.
OVERDUE_FIRST = World(
    (
        JobWish(0, 3, (2.0, 1)),
        JobWish(1, 2),
        JobWish(1, 2, (2.0, 2), priority=100),
        JobWish(2, 1, (2.0, 2)),
        BookingWish(4, 4, 15),
        JobWish(7, 1, ALL),
        JobWish(10, 1, (4.0, 1), priority=900),
        JobWish(12, 1),
    ),
    Rules(hold_after_ms=5, preemption=PreemptionRules()),
)
# Nobody knows when the second begins, so the last is not told when it will have ended.
ENDLESS = World(
    (JobWish(0, 8), JobWish(1, 1, ALL, limit=12), JobWish(5, 8), JobWish(9, 1)), HOLDING, "fifo"
)
# Whoever starts sooner than it was told makes the first of those who wait better off.
BETTERED = World(
    (
        JobWish(0, 3),
        JobWish(1, 1, ALL, limit=12),
        JobWish(2, 4),
        JobWish(3, 1),
        JobWish(3, 1, (4.0, 1), after=(3, "any")),
        JobWish(5, 8),
        BookingWish(7, 8, 14, 2, unused_ms=5),
        JobWish(7, 7, (4.0, 1), limit=6),
        JobWish(8, 8, priority=100, limit=12),
        JobWish(9, 6, (2.0, 1)),
    ),
    replace(HOLDING, preemption=PreemptionRules(min_run_ms=3)),
    "fifo",
)
# Which of two jobs loses more changes at 18, and nothing else does.
LENT = World(
    (
        JobWish(0, 2, ALL, tenant="blue"),
        JobWish(1, 2),
        JobWish(4, 2),
        JobWish(5, 4, (4.0, 1), priority=100),
        JobWish(5, 7, (2.0, 1), after=(2, "any")),
        JobWish(6, 6),
        JobWish(6, 6, (2.0, 1), priority=100, after=(2, "any")),
        JobWish(7, 3, after=(2, "any")),
    ),
    replace(CONSERVATIVE, preemption=PreemptionRules()),
    "fifo",
    3.0,
)
# A lease as long as its limit.
LEASED_TO_THE_END = World(
    (
        JobWish(0, 6),
        JobWish(2, 1),
        JobWish(2, 6, limit=6, lease=True, after=(2, "ok")),
        JobWish(3, 3, (2.0, 2), after=(3, "ok")),
        JobWish(3, 1, ALL, after=(1, "any")),
        JobWish(4, 1, after=(3, "ok")),
        JobWish(4, 8, (2.0, 1)),
        JobWish(8, 3, after=(4, "any")),
        JobWish(8, 1, (2.0, 1)),
    ),
    HOLDING,
    "fifo",
)


@settings(deadline=None)
@given(worlds, st.integers(0, 20))
@example(UNUSED, 0)
@example(UNUSED, 3)
@example(USED, 0)
@example(CLEARED, 2)
@example(CLAIMED, 0)
@example(SPARED, 2)
@example(GIVEN_UP, 0)
@example(LEASED, 0)
@example(KEPT, 6)
@example(KEPT_TWICE, 18)
@example(OVERDUE, 8)
@example(OVERDUE_FIRST, 13)
@example(ENDLESS, 9)
@example(BETTERED, 9)
@example(LENT, 17)
@example(LEASED_TO_THE_END, 8)
def test_a_projection_with_the_true_run_times_is_what_the_service_does(
    world: World, asked_at: int
) -> None:
    is_as_projected(world, asked_at)


@settings(deadline=None)
@given(worlds, st.integers(0, 20))
@example(CLAIMED, 0)
@example(SWAPPED, 10)
@example(SWAPPED, 19)
@example(OVERDUE, 8)
@example(OVERDUE_FIRST, 13)
@example(ENDLESS, 9)
@example(BETTERED, 9)
@example(LENT, 17)
@example(LEASED_TO_THE_END, 8)
def test_that_of_a_long_queue_is_too_where_no_ends_are_taken_together(
    world: World, asked_at: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_projection, "_LONG", -1)
        patch.setattr(queue_projection, "_NEARLY", LAST)
        is_as_projected(world, asked_at)


def is_as_projected(world: World, asked_at: int) -> None:
    live = a_service(world)
    wishes = [wish for wish in world.wishes if wish.at <= asked_at]
    for number, wish in enumerate(wishes):
        live.live_until(wish.at)
        ask(live, number, wish)
    live.live_until(asked_at)
    context = CycleContext(live.config, live.promises)
    taken = picture(live.state, live.now, context.config.policy, {}, 1_000)
    projected = project(
        state_of(taken),
        live.now,
        context,
        lambda job, _: RunLength(live.run_ms[job.job_id]),
        MOST_STEPS,
    )
    waiting = {job.job_id for job, progress in taken.jobs if progress.state is JobState.PENDING}
    live.starts.clear()
    live.live_until(LAST)
    assert projected.starts.items() <= live.starts.items()
    # It ends when nobody waits, though a booking may yet make somebody wait again who runs.
    assert projected.starts.keys() & waiting == live.starts.keys() & waiting
