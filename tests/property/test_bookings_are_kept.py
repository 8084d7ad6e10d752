"""Booked GPUs are kept for those who booked them, whatever else is asked of the scheduler."""

from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import a_job, a_node, a_state, entry_of, submit
from tgpu.core.check import check_invariants
from tgpu.core.cycle import schedule
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import BookingSet, TimePassed
from tgpu.core.model.ids import TenantId
from tgpu.core.model.node import Placement
from tgpu.core.model.plan import Plan
from tgpu.core.model.rules import BackfillMode, PreemptionRules, Rules
from tgpu.core.plan_events import plan_events
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.reservations.advance_reservations import AdvanceReservationRequest, choose
from tgpu.core.state.cluster_state import State


class Wish(NamedTuple):
    """A job, or a booking, that somebody asks for."""

    is_booking: bool
    gpus: int
    length: int | None  # of a job: its time limit
    ahead: int  # of a booking
    which: int | None  # of a job: the booking it names, counted from the first
    preemptible: bool
    alone: bool = False  # on its nodes


wish = st.builds(
    Wish,
    st.booleans(),
    st.integers(1, 2),
    st.sampled_from([None, 1, 3, 6]),
    st.integers(0, 6),
    st.sampled_from([None, None, 0, 1, 2]),
    st.booleans(),
    st.sampled_from([False, False, True]),
)
steps = st.lists(st.tuples(st.integers(0, 3), st.lists(wish, max_size=4)), max_size=12)
rules = st.builds(
    Rules,
    backfill=st.sampled_from(list(BackfillMode)),
    preemption=st.sampled_from([None, PreemptionRules()]),
)


def ask(state: State, now: int, number: int, asked: Wish) -> None:
    if asked.is_booking:
        ends_at = now + asked.ahead + (asked.length or 4)
        request = AdvanceReservationRequest(
            f"r-{number}", TenantId("default"), asked.gpus, now + asked.ahead, ends_at, unused_ms=2
        )
        found = choose(state, request, now)
        if isinstance(found, AdvanceReservation):
            state.apply(BookingSet(now, found))
        return
    names = sorted(state.ledger.bookings)
    booking = names[asked.which] if asked.which is not None and asked.which < len(names) else None
    job = a_job(
        f"j{number}",
        gpus=asked.gpus,
        submitted_at=now,
        time_limit_ms=asked.length,
        booking=booking,
        preemptible=asked.preemptible,
        lease=True,
        exclusive=asked.alone and booking is None,
    )
    submit(state, job)


def meets(placement: Placement, booking: AdvanceReservation, *, alone: bool) -> bool:
    """Whether it takes booked GPUs; who is `alone` on a node takes all that there are."""
    return any(
        part.node_id == booking.node_id
        and (alone or any(share.gpu_index in booking.gpus for share in part.shares))
        for part in placement.parts()
    )


def check_starts(state: State, plan: Plan, now: int) -> None:
    for decided in plan.starts:
        job = entry_of(state, decided.job_id).job
        limit = job.options.time_limit_ms
        for booking in state.ledger.bookings.values():
            alone = job.request.where.exclusive
            if not meets(decided.placement, booking, alone=alone) or booking.ends_at <= now:
                continue
            if job.options.booking == booking.booking_id:
                assert booking.starts_at <= now, "it started before its booking"
            elif job.options.booking is None:
                assert limit is not None, "it may never leave the booked GPUs"
                assert now + limit <= booking.starts_at, "it may be there when the booking starts"
        own = state.ledger.bookings.get(job.options.booking or "")
        if job.options.booking is not None:
            assert own is not None, "it started without its booking"
            mine = {share.gpu_index for share in decided.placement.shares}
            assert decided.placement.node_id == own.node_id
            assert mine <= set(own.gpus), "it started beside its booking"


def check_cleared(state: State, now: int) -> None:
    """Where preemption is on, no preemptible job is left in an open booking of others."""
    for booking in state.ledger.bookings.values():
        if not booking.starts_at <= now < booking.ends_at:
            continue
        for entry in state.placed():
            placement, options = entry.progress.placement, entry.job.options
            assert placement is not None
            if options.preemptible and options.booking != booking.booking_id:
                alone = entry.job.request.where.exclusive
                assert not meets(placement, booking, alone=alone), f"{entry.job.job_id} stays"


LASTS = Wish(False, 2, None, 0, None, True)
BOOKS = Wish(True, 2, None, 3, None, True)
BOOKS_ONE = Wish(True, 1, None, 3, None, True)
ALONE = Wish(False, 1, None, 0, None, True, alone=True)


@settings(deadline=None)
@given(steps, rules)
@example([(0, [LASTS]), (1, [BOOKS]), (3, [])], Rules(preemption=PreemptionRules()))
@example([(0, [BOOKS_ONE, BOOKS_ONE]), (1, [ALONE])], Rules())
@example([(0, [LASTS, ALONE]), (1, [BOOKS_ONE]), (3, [])], Rules(preemption=PreemptionRules()))
def test_booked_gpus_are_for_those_who_booked_them(steps, rules):
    state = a_state(nodes=[a_node("n0", 2), a_node("n1", 1)])
    now = number = 0
    for pause, wishes in steps:
        now += pause
        state.apply(TimePassed(now))
        for asked in wishes:
            ask(state, now, number, asked)
            number += 1
        for _ in range(2):  # what a cycle lets go of is there for the next
            plan = schedule(state, now, PriorityWithAging(), rules=rules)
            check_starts(state, plan, now)
            for event in plan_events(state, plan, now):
                state.apply(event)
            check_invariants(state)
        if rules.preemption is not None:
            check_cleared(state, now)
        assert all(booking.ends_at > now for booking in state.ledger.bookings.values())
