"""One scheduling cycle: the whole state in, a plan out, nothing changed.

Each step is a module of `core/stages`, and all of them work on one draft; that a job can never
start, or that a reservation is over, the state says by itself.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tgpu.core.capacity.ledger import Trial
from tgpu.core.model.job import JobClass
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.rules import PLAIN, Rules
from tgpu.core.policies.slots import ChoicePolicy, OrderPolicy, Policy
from tgpu.core.stages.backfill import Backfill
from tgpu.core.stages.choose import serve_by_choice
from tgpu.core.stages.draft import CycleObserver, Draft
from tgpu.core.stages.evict import Evictions
from tgpu.core.stages.expire import expire_leases
from tgpu.core.stages.nominated import serve_nominated
from tgpu.core.stages.preempt_for_reservations import preempt_for_reservations
from tgpu.core.stages.serve import serve_in_order
from tgpu.core.state.cluster_state import State

__all__ = ["CycleObserver", "schedule"]

_NONE: Final[Mapping[str, OrderPolicy]] = {}
_NO_PLAN: Final = Plan()


def schedule(
    state: State,
    now: int,
    policy: Policy,
    refused_classes: Collection[JobClass] = frozenset(),
    *,
    rules: Rules = PLAIN,
    policies: Mapping[str, OrderPolicy] = _NONE,
    promises: Sequence[BackfillReservation] = (),
    observer: CycleObserver | None = None,
) -> Plan:
    """Decide what starts now. Apply `TimePassed(now)` first, so that back-offs have ended.

    Nothing of the `refused_classes` starts: somebody else has refused them. `policies` are the
    orders that queues may name for themselves. `promises` are the reservations of the cycle
    before: under `conservative` each is kept, or bettered.
    """
    if state.is_quiet():
        return _NO_PLAN
    trial = Trial(state.ledger)
    try:
        draft = Draft(state, now, trial, rules, refused_classes=refused_classes, observer=observer)
        evictions, backfill = Evictions(draft), Backfill(draft)
        # 1. What is over makes room: leases, and whoever is on GPUs that are reserved from now on.
        expire_leases(draft)
        preempt_for_reservations(draft)
        # 2. What was promised is kept: to jobs that others are preempted for, and reservations.
        serve_nominated(draft)
        backfill.keep(promises)
        # 3. Everybody else, in order. For whom there is no room, others are preempted where the
        #    rules allow it; or it gets a reservation that nobody behind it may break.
        if isinstance(policy, ChoicePolicy):
            serve_by_choice(draft, policy, evictions)
        else:
            serve_in_order(draft, policy, policies, backfill, evictions)
    finally:
        trial.undo()
    return draft.plan()
