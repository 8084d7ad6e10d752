"""A private copy of the state for projections: running jobs, and the first waiting ones.

The service's state is changed by events alone and is never copied for a cycle. Whoever looks far
ahead changes what is true as time goes on there, and needs another one. It is made in two steps: a
picture, which is quick and stays as it is, and of that a state, in pieces where time is short.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tgpu.core.accounting.budget import Spend
from tgpu.core.accounting.meter import Meter, Meters, Owner
from tgpu.core.accounting.user_days import TenantUser
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import BookingSet, NodeSet, QueueSet, TenantSet, TimePassed
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Dependency, DependencyKind, Job
from tgpu.core.model.lifecycle import PLACED, JobState, Progress
from tgpu.core.model.node import Node
from tgpu.core.model.reasons import Reason
from tgpu.core.model.request_profile import RequestProfile
from tgpu.core.model.rules import PlacementRule
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.policies.slots import ChoicePolicy, OrderPolicy, Policy
from tgpu.core.stages.queue_order import QueueOrder
from tgpu.core.state.cluster_state import Entry, State

_PIECE: Final = 200  # jobs that are put into a state at once


@dataclass(frozen=True, slots=True)
class Picture:
    """What is true at one instant; nobody changes it any more."""

    now: int
    tenants: tuple[Tenant, ...]
    queues: tuple[TenantQueue, ...]
    nodes: tuple[Node, ...]
    bookings: tuple[AdvanceReservation, ...]
    jobs: tuple[tuple[Job, Progress], ...]  # those that others wait for first
    placement: PlacementRule
    most_jobs: int | None
    mix: RequestProfile | None
    half_life_ms: int
    meters: Mapping[Owner, Meter]
    spends: Mapping[TenantId, Spend]
    over_budget: Mapping[TenantId, Reason]
    user_spends: Mapping[TenantUser, Spend]
    over_day: Mapping[TenantUser, Reason]
    is_whole: bool  # false: more wait than were taken along


def picture(
    state: State,
    now: int,
    policy: Policy,
    policies: Mapping[str, OrderPolicy],
    most: int,
) -> Picture:
    """The state as it is, with at most so many of the jobs that wait, the next ones first.

    Jobs on hold are left out, those that can never start, and those that wait for such.
    """
    ledger = state.ledger
    is_whole = state.pending_count() <= most
    chosen: Iterable[Entry] = state.entries()
    if not is_whole:
        chosen = [*state.placed(), *_next_in_line(state, now, policy, policies, most)]
    return Picture(
        state.now,
        tuple(use.tenant for use in ledger.tenants.values()),
        tuple(use.queue for use in ledger.queues.values()),
        tuple(ledger.node(node_id).node for node_id in ledger.node_ids()),
        tuple(ledger.bookings[booking_id] for booking_id in sorted(ledger.bookings)),
        tuple(_taken_along(state, chosen)),
        ledger.placement_rule,
        ledger.most_jobs,
        ledger.request_profile,
        state.meters.half_life_ms,
        dict(state.meters.by_owner),
        dict(state.budgets.spends),
        dict(ledger.over_budget),
        dict(state.user_days.spends),
        dict(ledger.over_day),
        is_whole,
    )


def fill(made: State, taken: Picture) -> Iterator[None]:
    """Put what is in a picture into an empty state, piece by piece: it is whole at the end."""
    made.ledger.placement_rule = taken.placement
    made.ledger.most_jobs = taken.most_jobs
    made.ledger.request_profile = taken.mix
    made.meters = Meters(taken.half_life_ms)
    for tenant in taken.tenants:
        made.apply(TenantSet(0, tenant))
    for queue in taken.queues:
        made.apply(QueueSet(0, queue))
    for node in taken.nodes:
        made.apply(NodeSet(0, node))
    for booking in taken.bookings:
        made.apply(BookingSet(0, booking))
    made.apply(TimePassed(taken.now))
    for first in range(0, len(taken.jobs), _PIECE):
        yield
        for job, progress in taken.jobs[first : first + _PIECE]:
            made.restore(job, progress)
    # What was used is not counted from the jobs, which would count only those that go on.
    made.meters.by_owner.update(taken.meters)
    made.budgets.spends.update(taken.spends)
    made.ledger.over_budget = dict(taken.over_budget)
    made.user_days.spends.update(taken.user_spends)
    made.ledger.over_day = dict(taken.over_day)


def state_of(taken: Picture) -> State:
    """All of it at once."""
    made = State()
    for _ in fill(made, taken):
        pass
    return made


def _taken_along(state: State, chosen: Iterable[Entry]) -> Iterator[tuple[Job, Progress]]:
    taken: set[JobId] = set()
    for entry in chosen:
        job, progress = entry.job, entry.progress
        if progress.state not in PLACED and not _may_start(state, entry, taken):
            continue
        taken.add(job.job_id)
        yield job, progress


def _may_start(state: State, entry: Entry, taken: Collection[JobId]) -> bool:
    """Whether nothing but room and time keeps a job from starting. One that waits for somebody who
    is not taken along does so in vain: in the copy that one would seem to be over."""
    progress = entry.progress
    if progress.state is not JobState.PENDING or progress.held:
        return False
    if state.unsatisfiable_cause(entry.job.job_id) is not None:
        return False
    return not entry.unmet or all(
        other.job_id in taken or state.entry(other.job_id) is None or _is_over(state, other)
        for other in entry.job.after
    )


def _is_over(state: State, other: Dependency) -> bool:
    """Whether the next cycle gives that one up, which is an end like any other to who asks for no
    more."""
    is_given_up = state.unsatisfiable_cause(other.job_id) is not None
    return is_given_up and other.kind is DependencyKind.ANY


def _next_in_line(
    state: State,
    now: int,
    policy: Policy,
    policies: Mapping[str, OrderPolicy],
    most: int,
) -> list[Entry]:
    """As the line stands now; where only somebody else's code knows the order, the oldest."""
    found: list[JobId] = [entry.job.job_id for entry in state.nominated()]
    seen = frozenset(found)
    if isinstance(policy, ChoicePolicy):
        found += _oldest(state, seen, most)
    else:
        order = policy.at(state, now)
        own = {name: each.at(state, now) for name, each in policies.items()}
        lines = QueueOrder(state.ledger, order, own, state.waiting.classes(), seen)
        while len(found) < most and (next_one := lines.next()) is not None:
            line, head = next_one
            found.append(head.key[2])
            line.advance(head)
    entries = (state.entry(job_id) for job_id in found[:most])
    return [entry for entry in entries if entry is not None]


def _oldest(state: State, seen: Collection[JobId], most: int) -> list[JobId]:
    keys = [key for queue in state.waiting.classes() for key in queue.keys[:most]]
    keys.sort()
    return [job_id for _, job_id in keys if job_id not in seen]
