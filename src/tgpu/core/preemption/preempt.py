"""Which jobs to preempt so that a more important one can start: the set that loses the least.

Lost is GPU time since the last checkpoint. Every set is tried on the ledger first: no job is
preempted unless the other really starts by it. Importance is a job's own priority, without ageing,
and the lender of a quota comes before its borrower: both only ever lead upwards, so two jobs cannot
preempt each other in turn.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from tgpu.core.admission.admit import refuse
from tgpu.core.admission.cohort import borrowed, may_reclaim, would_borrow
from tgpu.core.capacity.ledger import Ledger, NodeUse, Trial
from tgpu.core.errors import InvariantBroken
from tgpu.core.model import lifecycle
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.node import Placement
from tgpu.core.model.plan import Preemption, PreemptionCause
from tgpu.core.model.rules import PreemptionRules
from tgpu.core.placement.place import eligible, place, workers_that_fit
from tgpu.core.reservations.reserved_capacity import ReservedCapacity, View
from tgpu.core.state.cluster_state import Entry, State

# Sets tried on one node before the search settles for a good one: small boxes are searched whole.
_MOST_SETS: Final = 2_000


Choose = Callable[[Sequence[Job], Job], Job | None]


class Victim(NamedTuple):
    """A running job that may be preempted, and what that would cost."""

    lost: int  # GPU thousandths times ms
    job_id: JobId
    entry: Entry


class Eviction(NamedTuple):
    """Which jobs are preempted, and where the other job goes then."""

    victims: tuple[Preemption, ...]
    placement: Placement


class _Solution(NamedTuple):
    lost: int
    victims: tuple[Victim, ...]


class Candidates:
    """The running jobs that may be asked at all, found once in a cycle."""

    def __init__(
        self,
        state: State,
        rules: PreemptionRules,
        now: int,
        borrowers: Collection[TenantId] = (),
    ) -> None:
        """`borrowers` were over their own quota before the cycle: who borrows only now is not
        asked for it in the same breath."""
        self._rules = rules
        self._ledger = state.ledger
        self._by_node: dict[NodeId, list[Victim]] = {}
        self._taken: set[JobId] = set()
        self.all: list[Victim] = []
        self.borrowers = borrowers
        for entry in state.placed():
            if may_be_preempted(state.ledger, entry, rules, now):
                self._add(Victim(lost_by(entry, now), entry.job.job_id, entry))
        self.all.sort(key=lambda victim: (victim.lost, victim.job_id))
        for victims in self._by_node.values():
            victims.sort(key=lambda victim: (victim.lost, victim.job_id))

    def _add(self, victim: Victim) -> None:
        self.all.append(victim)
        placement = victim.entry.progress.placement
        assert placement is not None  # it is placed
        for node_id in sorted({part.node_id for part in placement.parts()}):
            self._by_node.setdefault(node_id, []).append(victim)

    def leave_out(self, job_ids: Iterable[JobId]) -> None:
        """They are being preempted already."""
        self._taken.update(job_ids)

    def on(self, node_id: NodeId) -> list[Victim]:
        return self._free(self._by_node.get(node_id, []))

    def everywhere(self) -> list[Victim]:
        return self._free(self.all)

    def nodes(self) -> list[NodeId]:
        return sorted(self._by_node)

    def _free(self, victims: list[Victim]) -> list[Victim]:
        return [v for v in victims if v.job_id not in self._taken] if self._taken else victims


def borrowers(ledger: Ledger) -> frozenset[TenantId]:
    """Tenants that have more than their own quota."""
    return frozenset(
        tenant_id
        for members in ledger.cohorts.values()
        for tenant_id in members
        if borrowed(ledger, tenant_id)
    )


def lost_by(entry: Entry, now: int) -> int:
    """GPU time that a running job would lose if it were ended now."""
    return lifecycle.lost_ms(entry.progress, now) * entry.job.request.gpu_millis


def may_be_preempted(
    ledger: Ledger,
    entry: Entry,
    rules: PreemptionRules,
    now: int,
    *,
    however_often: bool = False,
) -> bool:
    """Whether a running job may be preempted at all, for whatever job."""
    progress, options = entry.progress, entry.job.options
    if progress.state is not JobState.RUNNING or progress.stopping or not options.preemptible:
        return False
    too_often = not however_often and progress.preemptions >= rules.most_times
    if options.booking is not None or too_often:
        return False
    if not ledger.tenant(entry.job.tenant_id).tenant.allow_preemption:
        return False
    started_at = now if progress.started_at is None else progress.started_at
    limit = options.time_limit_ms
    if now - started_at < rules.min_run_ms:
        return False
    if limit is not None and started_at + limit - now <= rules.spare_ms:
        return False
    ran_ms = now - started_at - progress.paused_ms
    stands_still = progress.paused_at is not None  # and will not end by itself
    return not rules.spare_ms or stands_still or not _ends_soon(entry.job, ran_ms, rules, now)


def _ends_soon(job: Job, elapsed_ms: int, rules: PreemptionRules, now: int) -> bool:
    left = None if rules.left is None else rules.left(job, elapsed_ms, now)
    return left is not None and left <= rules.spare_ms


class Search:
    """The search for the jobs that could be preempted for one job."""

    def __init__(
        self,
        trial: Trial,
        holds: ReservedCapacity,
        candidates: Candidates,
        job_class: JobClass,
        rules: PreemptionRules,
    ) -> None:
        self._trial = trial
        self._ledger = trial.ledger
        self._candidates = candidates
        self._class = job_class
        self._rules = rules
        self._view: View | None = holds.view(job_class)
        self._limits = holds.limits
        with self._limits.counted():
            self._reclaims = rules.reclaim and may_reclaim(trial.ledger, job_class)
            self._borrows = would_borrow(trial.ledger, job_class)

    def find(self, job_id: JobId) -> Eviction | None:
        """The cheapest set, or None where nobody's end would help."""
        with self._limits.counted():
            quota = self._for_quota()
            found = None if quota is None else self._for_room(quota)
            if found is None:
                return None
            causes = [self._cause(victim) for victim in found.victims]
            placement = self._placement_without(found.victims)
        if placement is None or not self._is_admitted_without(found.victims):
            return None
        self._candidates.leave_out(victim.job_id for victim in found.victims)
        victims = tuple(
            Preemption(victim.job_id, job_id, cause, victim.lost)
            for victim, cause in zip(found.victims, causes, strict=True)
        )
        return Eviction(victims, placement)

    def find_by_choice(self, job: Job, choose: Choose) -> Eviction | None:
        """Those whom somebody else names, one after the other, until the job could start."""
        left = {victim.job_id: victim for victim in self._candidates.everywhere()}
        chosen: list[Victim] = []
        placement: Placement | None = None
        mark = self._trial.mark()
        try:
            while left and placement is None:
                named = choose(tuple(victim.entry.job for victim in left.values()), job)
                if named is None:
                    break
                victim = left.pop(named.job_id, None)
                if victim is None:
                    raise InvariantBroken(f"job {named.job_id} is none of those to choose from")
                chosen.append(victim)
                self._give((victim,))
                if self._limits.refuse(self._class) is None:
                    placement = self._placement()
        finally:
            self._trial.undo(mark)
        if placement is None:
            return None
        self._candidates.leave_out(victim.job_id for victim in chosen)
        to, cause = job.job_id, PreemptionCause.POLICY
        return Eviction(tuple(Preemption(v.job_id, to, cause, v.lost) for v in chosen), placement)

    # -- whom it may ask -------------------------------------------------------------------------

    def _may_ask(self, victim: Victim) -> bool:
        return self._by_priority(victim) or self._by_reclaim(victim)

    def _by_priority(self, victim: Victim) -> bool:
        job = victim.entry.job
        if not self._rules.by_priority:
            return False
        if job.priority > self._class.priority - self._rules.margin:
            return False
        # Who would run on borrowed quota does not push out who runs on its own: it could be
        # pushed out for that in turn.
        same_tenant = job.tenant_id == self._class.tenant_id
        return same_tenant or not self._borrows or borrowed(self._ledger, job.tenant_id) > 0

    def _by_reclaim(self, victim: Victim) -> bool:
        if not self._reclaims:
            return False
        tenant = self._ledger.tenant(victim.entry.job.tenant_id).tenant
        mine = self._ledger.tenant(self._class.tenant_id).tenant
        return (
            tenant.cohort == mine.cohort
            and tenant.tenant_id != mine.tenant_id
            and tenant.tenant_id in self._candidates.borrowers
            and borrowed(self._ledger, tenant.tenant_id) > 0
        )

    def _cause(self, victim: Victim) -> PreemptionCause:
        by_priority = self._by_priority(victim)
        return PreemptionCause.PRIORITY if by_priority else PreemptionCause.RECLAIM

    # -- quota first -----------------------------------------------------------------------------

    def _for_quota(self) -> tuple[Victim, ...] | None:
        """Those whose end makes room in the quotas; none where there is room already."""
        if refuse(self._ledger, self._class) is None:
            return ()
        victims = [v for v in self._candidates.everywhere() if self._touches_quota(v)]
        found = self._one_by_one(victims, self._is_admitted)
        return None if found is None else found.victims

    def _touches_quota(self, victim: Victim) -> bool:
        mine = self._ledger.tenant(self._class.tenant_id).tenant
        theirs = self._ledger.tenant(victim.entry.job.tenant_id).tenant
        return theirs is mine or bool(mine.cohort and mine.cohort == theirs.cohort)

    def _is_admitted(self) -> bool:
        return refuse(self._ledger, self._class) is None

    # -- then room -------------------------------------------------------------------------------

    def _for_room(self, already: tuple[Victim, ...]) -> _Solution | None:
        mark = self._trial.mark()
        self._give(already)
        try:
            if self._placement() is not None:
                return _Solution(sum(v.lost for v in already), already)
            others = {victim.job_id for victim in already}
            if self._class.request.workers > 1:
                found = self._over_nodes(others)
            else:
                found = self._on_one_node(others)
        finally:
            self._trial.undo(mark)
        if found is None:
            return None
        return _Solution(found.lost + sum(v.lost for v in already), (*already, *found.victims))

    def _on_one_node(self, others: set[JobId]) -> _Solution | None:
        """The cheapest set on any one node. Nodes whose bound is too high are not searched."""
        bounds: list[tuple[int, NodeId, list[Victim]]] = []
        for node_id in self._candidates.nodes():
            victims = [
                victim
                for victim in self._candidates.on(node_id)
                if victim.job_id not in others and self._may_ask(victim)
            ]
            if victims and eligible(self._ledger.node(node_id).node, self._class):
                heappush(bounds, (self._least_lost(node_id, victims), node_id, victims))
        best: _Solution | None = None
        while bounds:
            bound, node_id, victims = heappop(bounds)
            if best is not None and bound >= best.lost:
                break
            found = self._cheapest(node_id, victims, best)
            if found is not None and (best is None or found.lost < best.lost):
                best = found
        return best

    def _least_lost(self, node_id: NodeId, victims: list[Victim]) -> int:
        """No set on this node costs less: the missing GPUs, at the lowest price for each."""
        use = self._seen(self._ledger.node(node_id))
        free = sum(use.free_millis(gpu) for gpu in use.node.gpus if use.free_millis(gpu) > 0)
        missing = self._class.request.gpu_millis - free
        bound = 0
        for rate, millis, lost in sorted(_rates(victims, node_id)):
            if missing <= 0:
                break
            bound += lost if millis <= missing else rate * missing
            missing -= millis
        return bound

    def _cheapest(
        self, node_id: NodeId, victims: list[Victim], best: _Solution | None
    ) -> _Solution | None:
        """Sets in order of what they lose, until one lets the job start; victims are sorted."""
        if not self._has_room_without(node_id, victims):
            return None
        heap: list[tuple[int, tuple[int, ...]]] = [
            (victims[0].lost, (0,)),
        ]
        for _ in range(_MOST_SETS):
            if not heap:
                return None
            lost, members = heappop(heap)
            if best is not None and lost >= best.lost:
                return None
            chosen = [victims[index] for index in members]
            if self._fits_without(node_id, chosen):
                return _Solution(lost, tuple(chosen))
            # Every set is reached once: by adding the next one, or by moving the last one on.
            following = members[-1] + 1
            if following < len(victims):
                added = victims[following].lost
                heappush(heap, (lost + added, (*members, following)))
                moved = lost - victims[members[-1]].lost + added
                heappush(heap, (moved, (*members[:-1], following)))
        return self._one_by_one(victims, lambda: self._fits(node_id))

    def _over_nodes(self, others: set[JobId]) -> _Solution | None:
        """For a gang, which no one node decides about."""
        victims = [v for v in self._candidates.everywhere() if v.job_id not in others]
        return self._one_by_one(victims, lambda: self._placement() is not None)

    def _one_by_one(self, victims: list[Victim], is_enough: Callable[[], bool]) -> _Solution | None:
        """The cheapest first until it fits, then without those that were not needed.

        Each takes from what was lent, and the last of them may take more than was left of it: where
        that ends too soon, the small come first. Else it would depend on who happens to have run
        for longer whether a lender gets anything back."""
        chosen = self._enough_of(victims, is_enough)
        if chosen is None and (self._reclaims or self._borrows):
            by_size = sorted(victims, key=lambda v: (v.entry.job.request.gpu_millis, v.job_id))
            chosen = self._enough_of(by_size, is_enough)
        if chosen is None:
            return None
        kept = self._without_spare(chosen, is_enough)
        return _Solution(sum(v.lost for v in kept), kept)

    def _enough_of(
        self, victims: list[Victim], is_enough: Callable[[], bool]
    ) -> list[Victim] | None:
        """As many of them, in this order, as let it fit; None where all do not."""
        mark = self._trial.mark()
        chosen: list[Victim] = []
        fits = False
        for victim in victims:
            if not self._may_ask(victim):  # asked anew: what was lent becomes less on the way
                continue
            chosen.append(victim)
            self._give((victim,))
            fits = is_enough()
            if fits:
                break
        self._trial.undo(mark)
        return chosen if fits else None

    # -- trying ----------------------------------------------------------------------------------

    def _without_spare(
        self, chosen: list[Victim], is_enough: Callable[[], bool]
    ) -> tuple[Victim, ...]:
        """Without those whose end is not needed, the dearest first."""
        kept = list(chosen)
        for victim in sorted(chosen, key=lambda v: (-v.lost, v.job_id)):
            rest = [other for other in kept if other is not victim]
            mark = self._trial.mark()
            self._give(tuple(rest))
            if is_enough():
                kept = rest
            self._trial.undo(mark)
        return tuple(kept)

    def _fits_without(self, node_id: NodeId, victims: list[Victim]) -> bool:
        if self._reclaims and not self._takes_back_only_what_was_lent(victims):
            return False
        return self._has_room_without(node_id, victims)

    def _has_room_without(self, node_id: NodeId, victims: list[Victim]) -> bool:
        mark = self._trial.mark()
        self._give(tuple(victims))
        fits = self._fits(node_id)
        self._trial.undo(mark)
        return fits

    def _takes_back_only_what_was_lent(self, victims: list[Victim]) -> bool:
        """Each borrower is still over its own quota when the last of its jobs is asked."""
        by_tenant: dict[TenantId, list[int]] = {}
        for victim in victims:
            if not self._by_priority(victim):
                job = victim.entry.job
                by_tenant.setdefault(job.tenant_id, []).append(job.request.gpu_millis)
        return all(
            sum(amounts) - max(amounts) < borrowed(self._ledger, tenant_id)
            for tenant_id, amounts in by_tenant.items()
        )

    def _fits(self, node_id: NodeId) -> bool:
        use = self._seen(self._ledger.node(node_id))
        types = sorted(eligible(use.node, self._class))
        return any(workers_that_fit(use, self._class, gpu_type) for gpu_type in types)

    def _seen(self, use: NodeUse) -> NodeUse:
        return use if self._view is None else self._view(use)

    def _placement_without(self, victims: tuple[Victim, ...]) -> Placement | None:
        mark = self._trial.mark()
        self._give(victims)
        placement = self._placement()
        self._trial.undo(mark)
        return placement

    def _is_admitted_without(self, victims: tuple[Victim, ...]) -> bool:
        mark = self._trial.mark()
        self._give(victims)
        refused = self._limits.refuse(self._class)
        self._trial.undo(mark)
        return refused is None

    def _placement(self) -> Placement | None:
        return place(self._ledger, self._class, self._view)

    def _give(self, victims: tuple[Victim, ...]) -> None:
        for victim in victims:
            placement = victim.entry.progress.placement
            assert placement is not None  # it is placed
            self._trial.give(victim.entry.job, placement)


def _rates(victims: list[Victim], node_id: NodeId) -> Iterator[tuple[int, int, int]]:
    """What each loses for a thousandth of a GPU here (rounded down), how much it has, its loss."""
    for victim in victims:
        placement = victim.entry.progress.placement
        assert placement is not None  # it is placed
        millis = sum(
            share.millis
            for part in placement.parts()
            if part.node_id == node_id
            for share in part.shares
        )
        yield victim.lost // max(1, millis), millis, victim.lost
