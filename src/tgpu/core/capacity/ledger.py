"""The ledger: amounts in use on nodes, by tenants, queues and arrays.

The state owns one ledger. A `Trial` changes it and puts everything back when it ends: there is no
copy of the state per cycle, and a trial costs what it touches.
"""

from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import NamedTuple, NoReturn, Self

from tgpu.core.capacity.node_index import NodeIndex
from tgpu.core.capacity.profile_index import ProfileIndex
from tgpu.core.errors import InvariantBroken
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.node import Gpu, Node, Placement, Share
from tgpu.core.model.reasons import Reason
from tgpu.core.model.request_profile import RequestProfile
from tgpu.core.model.rules import PlacementRule
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.units import GPU


class Holding(NamedTuple):
    """What a job has, and when it ends at the latest; `until` None: nobody knows."""

    job: Job
    placement: Placement
    until: int | None


@dataclass(slots=True)
class NodeUse:
    """A node and what is taken of it."""

    node: Node
    gpu_millis: dict[int, int] = field(default_factory=dict)  # taken, by GPU index
    cpu_millis: int = 0
    mem_mib: int = 0
    # Who is here. In no order: a trial that was undone leaves them in another one.
    holdings: dict[JobId, Holding] = field(default_factory=dict)
    closed_by: int = 0  # workers here that want the node to themselves: nobody else joins

    def free_millis(self, gpu: Gpu) -> int:
        """What a new job could have of this GPU: nothing while it is lost, paused or hot."""
        return GPU - self.gpu_millis.get(gpu.index, 0) if gpu.is_usable else 0

    def copy(self) -> "NodeUse":
        return NodeUse(
            self.node,
            dict(self.gpu_millis),
            self.cpu_millis,
            self.mem_mib,
            dict(self.holdings),
            self.closed_by,
        )

    def add(self, job: Job, shares: tuple[Share, ...], sign: int) -> None:
        """Add (or, with -1, take away) what one worker has here."""
        gpu_millis = self.gpu_millis
        for share in shares:
            index = share.gpu_index
            taken = gpu_millis.get(index, 0) + sign * share.millis
            if taken:
                gpu_millis[index] = taken
            else:
                gpu_millis.pop(index, None)
        request = job.request
        if request.cpu_millis:
            self.cpu_millis += sign * (request.cpu_millis // request.workers)
        if request.mem_mib:
            self.mem_mib += sign * (request.mem_mib // request.workers)
        if request.where.exclusive:
            self.closed_by += sign


@dataclass(slots=True)
class TenantUse:
    """A tenant and what its placed jobs have."""

    tenant: Tenant
    gpu_millis: int = 0
    gpu_millis_by_type: dict[str, int] = field(default_factory=dict)
    gpu_mem_mib: int = 0
    cpu_millis: int = 0
    mem_mib: int = 0
    jobs: int = 0
    gpu_millis_by_user: dict[str, int] = field(default_factory=dict)
    jobs_by_user: dict[str, int] = field(default_factory=dict)
    is_limited: bool = field(default=True, compare=False)  # False: no quota need be asked
    limits_users: bool = field(default=False, compare=False)

    def add(self, job: Job, placement: Placement, sign: int) -> None:
        request = job.request
        amount = sign * request.gpu_millis
        _add_to(self.gpu_millis_by_type, placement.gpu_type, amount)
        user = job.options.user
        _add_to(self.gpu_millis_by_user, user, amount)
        _add_to(self.jobs_by_user, user, sign)
        self.gpu_millis += amount
        if request.gpu_mem_mib:
            self.gpu_mem_mib += sign * request.gpu_mem_mib
        if request.cpu_millis:
            self.cpu_millis += sign * request.cpu_millis
        if request.mem_mib:
            self.mem_mib += sign * request.mem_mib
        self.jobs += sign


def _add_to(amounts: dict[str, int], name: str, amount: int) -> None:
    total = amounts.get(name, 0) + amount
    if total:
        amounts[name] = total
    else:
        amounts.pop(name, None)


@dataclass(slots=True)
class CohortPool:
    """What the members of a cohort can lend each other, and what is out of it; see `cohort.py`."""

    size: int = 0
    taken: int = 0  # may be more than there is, where a quota was lowered under running jobs

    @property
    def free(self) -> int:
        return max(0, self.size - self.taken)

    def add(self, use: TenantUse, sign: int) -> None:
        """Count a member in, or with -1 out."""
        tenant = use.tenant
        if tenant.shares_quota:
            kept = tenant.guaranteed_millis
            self.size += sign * ((tenant.max_gpu_millis or 0) - kept)
            self.taken += sign * max(0, use.gpu_millis - kept)


@dataclass(slots=True)
class QueueUse:
    """A tenant's queue and how many of its jobs have GPUs."""

    queue: TenantQueue
    running: int = 0


QueueName = tuple[TenantId, str]


class Ledger:
    """What is taken, and by whom. `take` and `give` are exact inverses."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, QueueUse] = {}  # those that were made; others have no rules
        self.nodes: dict[NodeId, NodeUse] = {}  # where jobs can be
        # Nodes where no engine runs jobs: shown, and in no index that a decision is found by.
        self.reporting: dict[NodeId, Node] = {}
        self.tenants: dict[TenantId, TenantUse] = {}
        self.cohorts: dict[str, list[TenantId]] = {}  # members by id; tenants without one in none
        self.pools: dict[str, CohortPool] = {}  # by cohort
        self.over_budget: dict[TenantId, Reason] = {}  # tenants that start nothing for now
        # Users who start nothing for the rest of the day.
        self.over_day: dict[tuple[TenantId, str], Reason] = {}
        # Elements placed, by array and whose it is: two tenants may give theirs one name.
        self.arrays: dict[tuple[TenantId, str], int] = {}
        self.jobs = 0  # placed, of all tenants
        self.most_jobs: int | None = None  # None: as many as there is room for
        self.known_ends = 0  # jobs of which a time limit tells when they end at the latest
        self.bookings: dict[str, AdvanceReservation] = {}
        self.placement_rule = PlacementRule.FRAGMENTATION
        self.request_profile: RequestProfile | None = (
            None  # what jobs usually ask for; None: nobody knows yet
        )
        # Whether the nodes, all free and well, would hold what classes of a shape ask for.
        self.ever_holds: dict[int, bool] = {}
        # Nodes that are alike have one number: see `gpu_count`.
        self.sorts: dict[NodeId, int] = {}
        self.sort_numbers: dict[tuple[object, ...], int] = {}
        self._gpu_millis: int | None = None
        self._node_ids: list[NodeId] | None = []
        self._index: NodeIndex | None = None
        self._changed: dict[NodeId, None] = {}  # nodes the index has not looked at since
        self._profile_index: ProfileIndex | None = None
        self._behind: dict[NodeId, None] = {}  # as `changed`, and the other index has looked

    def take(self, job: Job, placement: Placement, until: int | None = None) -> None:
        holding = Holding(job, placement, until)
        self._take_on(placement.node_id, placement.shares, holding)
        for node_id, shares in placement.others:
            self._take_on(node_id, shares, holding)
        if until is not None:
            self.known_ends += 1
        self.count(job, placement, +1)

    def _take_on(self, node_id: NodeId, shares: tuple[Share, ...], holding: Holding) -> None:
        use, job = self.nodes.get(node_id) or self._unknown(node_id), holding[0]
        use.add(job, shares, +1)
        use.holdings[job.job_id] = holding
        self._changed[node_id] = None

    def give(self, job: Job, placement: Placement) -> None:
        held = self._give_on(placement.node_id, placement.shares, job)
        for node_id, shares in placement.others:
            self._give_on(node_id, shares, job)
        if held is not None and held.until is not None:
            self.known_ends -= 1
        self.count(job, placement, -1)

    def _give_on(self, node_id: NodeId, shares: tuple[Share, ...], job: Job) -> Holding | None:
        use = self.nodes.get(node_id) or self._unknown(node_id)
        use.add(job, shares, -1)
        self._changed[node_id] = None
        return use.holdings.pop(job.job_id, None)

    def holding(self, job: Job, placement: Placement) -> Holding:
        return self.nodes[placement.node_id].holdings[job.job_id]

    def node(self, node_id: NodeId) -> NodeUse:
        return self.nodes[node_id]

    def tenant(self, tenant_id: TenantId) -> TenantUse:
        return self.tenants[tenant_id]

    def queue(self, tenant_id: TenantId, name: str) -> QueueUse | None:
        return self.queues.get((tenant_id, name))

    def array_running(self, tenant_id: TenantId, array_id: str) -> int:
        return self.arrays.get((tenant_id, array_id), 0)

    def node_ids(self) -> list[NodeId]:
        """In order. Not to be changed by the caller."""
        if self._node_ids is None or len(self._node_ids) != len(self.nodes):
            self._node_ids = sorted(self.nodes)
        return self._node_ids

    def index(self) -> NodeIndex:
        """The nodes by what is free of them, as they are now."""
        if self._behind:
            self._changed.update(self._behind)
            self._behind.clear()
        index = self._index
        if index is None or not index.is_about(self.nodes):
            index = None
        elif self._changed:
            index.refresh(self._changed)
        if index is None or len(index.records) != len(self.nodes):
            index = self._index = NodeIndex(self.nodes)
        if self._profile_index is not None:
            self._profile_index.stale.update(self._changed)
        self._changed.clear()
        return index

    def profile_index(self) -> ProfileIndex | None:
        """As `index`, by the learnt profile; None where there is none, or it is not to be used."""
        if self.request_profile is None or self.placement_rule is not PlacementRule.FRAGMENTATION:
            return None
        index = self._profile_index
        if index is None or not index.is_about(self.request_profile, self.nodes):
            index = self._profile_index = ProfileIndex(self.request_profile, self.nodes)
        if self._changed:
            index.stale.update(self._changed)
            self._behind.update(self._changed)
            self._changed.clear()
        if index.stale:
            index.refresh()
        return index

    @property
    def has_several_nodes(self) -> bool:
        """Whether a bare index may mean more than one GPU."""
        return len(self.nodes) > 1

    def gpu_millis(self) -> int:
        """All the GPUs there are, well or not."""
        if self._gpu_millis is None:
            self._gpu_millis = GPU * sum(len(use.node.gpus) for use in self.nodes.values())
        return self._gpu_millis

    def known_nodes(self) -> list[Node]:
        """All of them, also those where no job can be; by name."""
        there = {**self.reporting, **{name: use.node for name, use in self.nodes.items()}}
        return [there[node_id] for node_id in sorted(there)]

    def known_node(self, node_id: NodeId) -> Node | None:
        use = self.nodes.get(node_id)
        return self.reporting.get(node_id) if use is None else use.node

    def set_node(self, node: Node) -> None:
        use = self.nodes.get(node.node_id)
        if node.engine:
            self.reporting.pop(node.node_id, None)
        elif use is not None and use.holdings:
            node = _without_engine(node)  # they have their places until they are over
        else:
            self._set_reporting(node)
            return
        self.ever_holds.clear()
        self.sorts.pop(node.node_id, None)
        self._gpu_millis = None
        self._changed[node.node_id] = None
        if use is None:
            self.nodes[node.node_id] = NodeUse(node)
        else:
            use.node = node

    def _set_reporting(self, node: Node) -> None:
        node_id = node.node_id
        if node.gpus or node.cpu_millis or node.mem_mib:
            self.reporting[node_id] = node
        else:
            self.reporting.pop(node_id, None)  # see `gone`
        if self.nodes.pop(node_id, None) is None:
            return
        self.ever_holds.clear()
        self.sorts.pop(node_id, None)
        self._gpu_millis = None
        self._node_ids = None
        self._changed.pop(node_id, None)
        self._behind.pop(node_id, None)
        self._index = self._profile_index = (
            None  # they know nodes that come and change, not that go
        )

    def set_tenant(self, tenant: Tenant) -> None:
        use = self.tenants.get(tenant.tenant_id)
        if use is None:
            self.tenants[tenant.tenant_id] = TenantUse(tenant)
        else:
            self._leave_cohort(use.tenant)
            use.tenant = tenant
        self.tenants[tenant.tenant_id].is_limited = tenant.is_limited
        self.tenants[tenant.tenant_id].limits_users = tenant.limits_users
        if tenant.cohort:
            members = self.cohorts.setdefault(tenant.cohort, [])
            members.append(tenant.tenant_id)
            members.sort()
            pool = self.pools.setdefault(tenant.cohort, CohortPool())
            pool.add(self.tenants[tenant.tenant_id], +1)

    def _leave_cohort(self, tenant: Tenant) -> None:
        if tenant.cohort:
            members = self.cohorts[tenant.cohort]
            members.remove(tenant.tenant_id)
            self.pools[tenant.cohort].add(self.tenants[tenant.tenant_id], -1)
            if not members:
                del self.cohorts[tenant.cohort]
                del self.pools[tenant.cohort]

    def count(self, job: Job, placement: Placement, sign: int) -> None:
        """Towards limits (with -1, no longer), wherever it is: nodes are not touched."""
        self.jobs += sign
        use = self.tenants[job.tenant_id]
        pool = self.pools.get(use.tenant.cohort) if self.pools else None
        if pool is None:
            use.add(job, placement, sign)
        else:
            pool.add(use, -1)
            use.add(job, placement, sign)
            pool.add(use, +1)
        if self.queues:
            queue = self.queues.get((job.tenant_id, job.queue))
            if queue is not None:
                queue.running += sign
        if job.array is not None and job.array.max_running is not None:
            array = job.tenant_id, job.array.array_id
            placed = self.arrays.get(array, 0) + sign
            if placed:
                self.arrays[array] = placed
            else:
                del self.arrays[array]

    def _unknown(self, node_id: NodeId) -> NoReturn:
        raise InvariantBroken(f"a placement names node {node_id}, which was never set")


def _without_engine(node: Node) -> Node:
    problem = "no engine runs jobs on this node any more"
    return replace(node, gpus=tuple(replace(gpu, problem=problem) for gpu in node.gpus))


class _Step(NamedTuple):
    sign: int
    holding: Holding


class Trial:
    """Changes to a ledger that are put back: all of them when it ends, some by `undo`.

        with Trial(ledger) as trial:
            trial.take(job, placement, until)
            …

    Reads go to the ledger itself, which shows the trial while it lasts.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._steps: list[_Step] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def take(self, job: Job, placement: Placement, until: int | None = None) -> None:
        self.ledger.take(job, placement, until)
        self._steps.append(_Step(+1, Holding(job, placement, until)))

    def give(self, job: Job, placement: Placement) -> None:
        holding = self.ledger.holding(job, placement)
        self.ledger.give(job, placement)
        self._steps.append(_Step(-1, holding))

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._steps)

    def undo(self, to: int = 0) -> None:
        """Put back what was done since `to`, the last first."""
        while len(self._steps) > to:
            sign, holding = self._steps.pop()
            if sign > 0:
                self.ledger.give(holding.job, holding.placement)
            else:
                self.ledger.take(*holding)
