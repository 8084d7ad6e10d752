"""Preemption under an order that ranks running jobs too: those of a higher rank are preempted.

First by arithmetic, which rules out nearly all: how much would be free on each node if all
jobs of a higher rank left it. Then the set that has the fewest GPUs is tried on the ledger: no job
is preempted unless the other really starts by it.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from tgpu.core.capacity.ledger import Ledger, NodeUse, Trial
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.job import JobClass
from tgpu.core.model.node import Placement
from tgpu.core.model.plan import Preemption, PreemptionCause
from tgpu.core.model.rules import PlacementRule, PreemptionRules
from tgpu.core.model.units import GPU
from tgpu.core.placement.place import eligible, place
from tgpu.core.policies.slots import Rank, Ranking
from tgpu.core.preemption.preempt import Eviction, lost_by, may_be_preempted
from tgpu.core.reservations.reserved_capacity import ReservedCapacity
from tgpu.core.state.cluster_state import Entry, State

# Nodes on which the cheapest set is tried: arithmetic is wrong where parts of GPUs, cores or memory
# matter, and then another node may do.
_MOST_TRIES: Final = 8


class _Occupant(NamedTuple):
    """A running job that could be asked, on one of its nodes."""

    rank: Rank
    job_id: JobId
    entry: Entry
    millis: int  # of the node
    all_millis: int
    on: tuple[tuple[NodeId, int], ...]  # all its nodes, with what it has of each


Asked = dict[NodeId, list[_Occupant]]
Found = tuple[Sequence[_Occupant], Placement]


class RankedJobs:
    """Those who run, with their ranks, found once in a cycle."""

    def __init__(self, state: State, order: Ranking, rules: PreemptionRules, now: int) -> None:
        self._order = order
        self._rules = rules
        self._now = now
        self._ledger = state.ledger
        self._taken: set[JobId] = set()
        self._in_vain: dict[tuple[object, ...], Rank] = {}
        self._highest: Rank | None = None
        self._on: Asked = {}
        for entry in state.placed_in_no_order():
            if may_be_preempted(state.ledger, entry, rules, now, however_often=True):
                self._add(entry)

    def _add(self, entry: Entry) -> None:
        rank, job, on = self._order.rank(entry), entry.job, self._on
        if self._highest is None or rank > self._highest:
            self._highest = rank
        nodes = entry.attained(self._now).on
        for node_id, millis in nodes:
            occupant = _Occupant(rank, job.job_id, entry, millis, job.request.gpu_millis, nodes)
            if node_id in on:
                on[node_id].append(occupant)
            else:
                on[node_id] = [occupant]

    def leave_out(self, job_ids: Iterable[JobId]) -> None:
        """They are being preempted already."""
        self._taken.update(job_ids)

    def find(
        self, entry: Entry, alike: tuple[object, ...], trial: Trial, holds: ReservedCapacity
    ) -> Eviction | None:
        """The jobs to preempt for this one; None where that would not help, or it should wait
        some more before. What was in vain for one is so for all `alike` of no lower rank."""
        rank = self._order.rank(entry)
        if self._highest is None or rank >= self._highest:
            return None
        failed_at = self._in_vain.get(alike)
        if failed_at is not None and rank >= failed_at:
            return None
        found = self._find(entry, rank, trial, holds)
        if found is None:
            self._in_vain[alike] = rank
        return found

    def _find(
        self, entry: Entry, rank: Rank, trial: Trial, holds: ReservedCapacity
    ) -> Eviction | None:
        job_class = entry.queue.job_class
        if holds.limits.refuse(job_class) is not None:
            return None  # not for want of room
        waited, order = waited_ms(entry, self._now), self._order
        asked = self._asked(rank, entry)
        search = _Search(self._ledger, job_class, trial, holds, asked)
        fewest = search.fewest()
        if waited < order.patience_ms(rank, self._rules.restart_ms * fewest, fewest):
            return None
        found = search.any()
        if found is None:
            return None
        if self._is_too_dear(rank, found[0], waited):
            # Those of the highest rank lose too much: perhaps others do not.
            cheap = self._who_save(asked, rank, waited)
            if not cheap:
                return None
            found = _Search(self._ledger, job_class, trial, holds, cheap).any()
            if found is None or self._is_too_dear(rank, found[0], waited):
                return None
        victims, placement = sorted(found[0], key=_highest_first), found[1]
        self.leave_out(victim.job_id for victim in victims)
        to, cause = entry.job.job_id, PreemptionCause.POLICY
        return Eviction(
            tuple(Preemption(v.job_id, to, cause, lost_by(v.entry, self._now)) for v in victims),
            placement,
        )

    def _asked(self, rank: Rank, entry: Entry) -> Asked:
        """Whom a job of this rank may ask, by node."""
        found: Asked = {}
        taken, queue_rank = self._taken, _queue_rank(self._ledger, entry)
        for node_id, occupants in self._on.items():
            some = [one for one in occupants if one[0] > rank and one[1] not in taken]
            if some and self._ledger.queues:
                some = [o for o in some if _queue_rank(self._ledger, o.entry) <= queue_rank]
            if some:
                found[node_id] = some
        return found

    def _who_save(self, asked: Asked, rank: Rank, waited: int) -> Asked:
        """Those who save their work and alone are cheap enough; nobody where all are alike."""
        if self._rules.keeps_work:
            return {}
        found = {}
        for node_id, some in asked.items():
            savers = [one for one in some if _saves(one.entry)]
            cheap = [one for one in savers if not self._is_too_dear(rank, (one,), waited)]
            if cheap:
                found[node_id] = cheap
        return found

    def _is_too_dear(self, rank: Rank, victims: Sequence[_Occupant], waited: int) -> bool:
        costs = sum(self._costs_ms(victim.entry) for victim in victims)
        return waited < self._order.patience_ms(rank, costs, len(victims))

    def _costs_ms(self, entry: Entry) -> int:
        """What preemption costs a job: starting anew, and what it did not save."""
        saves = self._rules.keeps_work or entry.job.options.checkpoint_signal is not None
        lost = 0 if saves else lost_by(entry, self._now) // max(1, entry.job.request.gpu_millis)
        return self._rules.restart_ms + lost


def waited_ms(entry: Entry, now: int) -> int:
    """Since it came, or came back."""
    return now - max(entry.job.submitted_at, entry.progress.eligible_at)


def _saves(entry: Entry) -> bool:
    """Whether it is told to save its work, or did."""
    asked = entry.job.options.checkpoint_signal is not None
    return asked or entry.progress.checkpoint_at is not None


def _queue_rank(ledger: Ledger, entry: Entry) -> int:
    """No job is preempted for one of a lower queue."""
    use = ledger.queue(entry.job.tenant_id, entry.job.queue) if ledger.queues else None
    return 0 if use is None else use.queue.priority


class _Search:
    """For one job."""

    def __init__(
        self,
        ledger: Ledger,
        job_class: JobClass,
        trial: Trial,
        holds: ReservedCapacity,
        asked: Asked,
    ) -> None:
        self._ledger = ledger
        self._class = job_class
        self._trial = trial
        self._limits = holds.limits
        self._view = holds.view(job_class)
        self._asked = asked
        self._workers = job_class.request.workers
        self._each = job_class.request.gpu_millis // self._workers
        self._free = {node_id: _free(use) for node_id, use in ledger.nodes.items()}
        self._nodes = len(self._free)  # a gang may be on so many
        if ledger.placement_rule is PlacementRule.CONSOLIDATED:
            largest = GPU * max((len(use.node.gpus) for use in ledger.nodes.values()), default=0)
            self._nodes = -(-self._workers // max(1, largest // self._each))

    def fewest(self) -> int:
        """No fewer than so many must go: those with most GPUs would do, wherever they are."""
        missing = self._class.request.gpu_millis - sum(self._free.values())
        if missing <= 0:
            return 1
        sizes = {one.job_id: one.all_millis for some in self._asked.values() for one in some}
        count = 0
        for size in sorted(sizes.values(), reverse=True):
            if missing <= 0:
                break
            missing -= size
            count += 1
        return max(1, count)

    def any(self) -> Found | None:
        return self.over_nodes() if self._workers > 1 else self.on_one_node()

    # -- one worker ------------------------------------------------------------------------------

    def on_one_node(self) -> Found | None:
        choices = []
        for node_id, asked in self._asked.items():
            missing = self._each - self._free[node_id]
            if sum([one.millis for one in asked]) >= missing:
                choices.append(_choose(node_id, asked, missing))
        choices.sort(key=lambda choice: choice[:4])
        for *_, node_id, victims in choices[:_MOST_TRIES]:
            if not eligible(self._ledger.node(node_id).node, self._class):
                continue
            for some in (victims, tuple(self._asked[node_id])):
                placement = self._without(some)
                if placement is not None:
                    return some, placement
        return None

    # -- a gang ----------------------------------------------------------------------------------

    def over_nodes(self) -> Found | None:
        """Node after node is cleared, those with the fewest GPUs first, until the gang fits."""
        able = dict(self._free)
        for node_id, asked in self._asked.items():
            able[node_id] += sum([one.millis for one in asked])
        if not self._could_hold(able):
            return None
        free, gone = dict(self._free), dict[JobId, _Occupant]()
        heap = [self._clearing(node_id, gone, free) for node_id in self._asked]
        heapify(heap)
        while heap:
            dear = heappop(heap)
            node_id = dear[3]
            if dear != self._clearing(node_id, gone, free):
                continue  # it became cheaper, and is in the heap as that too
            also: dict[NodeId, None] = {}
            for one in self._asked[node_id]:
                if one.job_id not in gone:
                    gone[one.job_id] = one
                    _move(one, free, +1)
                    also.update({other: None for other, _ in one.on})
            for other in also:
                if other != node_id and other in self._asked:
                    heappush(heap, self._clearing(other, gone, free))
            if self._could_hold(free):
                victims = tuple(gone.values())
                placement = self._without(victims)
                if placement is not None:
                    return self._without_spare(victims, placement, free)
        return None

    def _clearing(
        self, node_id: NodeId, gone: dict[JobId, _Occupant], free: dict[NodeId, int]
    ) -> tuple[int, int, int, NodeId]:
        """What clearing a node takes, for each worker that it makes room for."""
        staying = [one for one in self._asked[node_id] if one.job_id not in gone]
        room = free[node_id]
        gain = (room + sum([one.millis for one in staying])) // self._each - room // self._each
        if not gain:
            return (1, 0, 0, node_id)
        millis = sum([one.all_millis for one in staying])
        return (0, millis // gain, -min([one.rank[0] for one in staying]), node_id)

    def _could_hold(self, free: dict[NodeId, int]) -> bool:
        """By count: whether so much on each node would do."""
        each = self._each
        fits = [millis // each for millis in free.values() if millis >= each]
        if len(fits) > self._nodes:
            fits = sorted(fits, reverse=True)[: self._nodes]
        return sum(fits) >= self._workers

    def _without_spare(
        self, victims: tuple[_Occupant, ...], placement: Placement, free: dict[NodeId, int]
    ) -> Found:
        """Without those whose end is not needed, the lowest rank first."""
        kept = list(victims)
        for victim in sorted(victims, key=lambda v: (v.rank, -v.all_millis, v.job_id)):
            _move(victim, free, -1)
            if self._could_hold(free):
                rest = [other for other in kept if other is not victim]
                found = self._without(rest)
                if found is not None:
                    kept, placement = rest, found
                    continue
            _move(victim, free, +1)
        return kept, placement

    # -- trying ----------------------------------------------------------------------------------

    def _without(self, victims: Sequence[_Occupant]) -> Placement | None:
        mark = self._trial.mark()
        for victim in victims:
            placement = victim.entry.progress.placement
            assert placement is not None  # it is placed
            self._trial.give(victim.entry.job, placement)
        try:
            if self._limits.refuse(self._class) is not None:
                return None
            return place(self._ledger, self._class, self._view)
        finally:
            self._trial.undo(mark)


# Whom to ask on one node; the lowest is best: few GPUs, then high ranks, then few jobs.
_Choice = tuple[int, int, int, NodeId, tuple[_Occupant, ...]]


def _choose(node_id: NodeId, asked: list[_Occupant], missing: int) -> _Choice:
    """The highest ranks until there is room, then without those who are not needed."""
    chosen: list[_Occupant] = []
    for one in sorted(asked, key=_highest_first) if len(asked) > 1 else asked:
        if missing <= 0:
            break
        chosen.append(one)
        missing -= one.millis
    if missing < 0:
        for one in chosen[:]:
            if missing + one.millis <= 0:
                missing += one.millis
                chosen.remove(one)
    millis = sum([one.all_millis for one in chosen])
    lowest = min([one.rank[0] for one in chosen], default=0)
    return (millis, -lowest, len(chosen), node_id, tuple(chosen))


def _highest_first(one: _Occupant) -> tuple[int, int, str]:
    return (-one.rank[0], -one.entry.job.submitted_at, one.job_id)


def _free(use: NodeUse) -> int:
    """Of all its GPUs, also of those that are not well: what comes of it is tried."""
    return GPU * len(use.node.gpus) - sum(use.gpu_millis.values())


def _move(one: _Occupant, free: dict[NodeId, int], sign: int) -> None:
    for node_id, millis in one.on:
        free[node_id] += sign * millis
