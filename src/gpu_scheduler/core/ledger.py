"""Who has what: the amounts taken on nodes, by tenants and by arrays.

The state owns one ledger. A `Draft` is a trial on top of one: it copies a node or tenant only when
it changes it, so a trial costs what it touches.
"""

from dataclasses import dataclass, field

from gpu_scheduler.core.errors import InvariantBroken
from gpu_scheduler.core.ids import NodeId, TenantId
from gpu_scheduler.core.job import Job
from gpu_scheduler.core.node import Gpu, Node, Placement
from gpu_scheduler.core.tenant import Tenant, TenantQueue
from gpu_scheduler.core.units import GPU


@dataclass(slots=True)
class NodeUse:
    """A node and what is taken of it."""

    node: Node
    gpu_millis: dict[int, int] = field(default_factory=dict)  # taken, by GPU index
    cpu_millis: int = 0
    mem_mib: int = 0

    def free_millis(self, gpu: Gpu) -> int:
        """What a new job could have of this GPU: nothing while it is lost, paused or hot."""
        return GPU - self.gpu_millis.get(gpu.index, 0) if gpu.is_usable else 0

    def copy(self) -> "NodeUse":
        return NodeUse(self.node, dict(self.gpu_millis), self.cpu_millis, self.mem_mib)

    def add(self, job: Job, placement: Placement, sign: int) -> None:
        for share in placement.shares:
            taken = self.gpu_millis.get(share.gpu_index, 0) + sign * share.millis
            if taken:
                self.gpu_millis[share.gpu_index] = taken
            else:
                self.gpu_millis.pop(share.gpu_index, None)
        self.cpu_millis += sign * job.request.cpu_millis
        self.mem_mib += sign * job.request.mem_mib


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

    def copy(self) -> "TenantUse":
        return TenantUse(
            self.tenant,
            self.gpu_millis,
            dict(self.gpu_millis_by_type),
            self.gpu_mem_mib,
            self.cpu_millis,
            self.mem_mib,
            self.jobs,
        )

    def add(self, job: Job, placement: Placement, sign: int) -> None:
        request = job.request
        by_type = self.gpu_millis_by_type
        taken = by_type.get(placement.gpu_type, 0) + sign * request.gpu_millis
        if taken:
            by_type[placement.gpu_type] = taken
        else:
            by_type.pop(placement.gpu_type, None)
        self.gpu_millis += sign * request.gpu_millis
        self.gpu_mem_mib += sign * request.gpu_mem_mib
        self.cpu_millis += sign * request.cpu_millis
        self.mem_mib += sign * request.mem_mib
        self.jobs += sign


@dataclass(slots=True)
class QueueUse:
    """A tenant's queue and how many of its jobs have GPUs."""

    queue: TenantQueue
    running: int = 0

    def copy(self) -> "QueueUse":
        return QueueUse(self.queue, self.running)


QueueName = tuple[TenantId, str]


class Ledger:
    """The books. `take` and `give` are exact inverses."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, QueueUse] = {}  # those that were made; others have no rules
        self.nodes: dict[NodeId, NodeUse] = {}
        self.tenants: dict[TenantId, TenantUse] = {}
        self.arrays: dict[str, int] = {}  # elements placed, by array

    def take(self, job: Job, placement: Placement) -> None:
        self._add(job, placement, +1)

    def give(self, job: Job, placement: Placement) -> None:
        self._add(job, placement, -1)

    def node(self, node_id: NodeId) -> NodeUse:
        return self.nodes[node_id]

    def tenant(self, tenant_id: TenantId) -> TenantUse:
        return self.tenants[tenant_id]

    def queue(self, tenant_id: TenantId, name: str) -> QueueUse | None:
        return self.queues.get((tenant_id, name))

    def array_running(self, array_id: str) -> int:
        return self.arrays.get(array_id, 0)

    def node_ids(self) -> list[NodeId]:
        return sorted(self.nodes)

    def _add(self, job: Job, placement: Placement, sign: int) -> None:
        self._own_node(placement.node_id).add(job, placement, sign)
        self._own_tenant(job.tenant_id).add(job, placement, sign)
        queue = self._own_queue(job.tenant_id, job.queue)
        if queue is not None:
            queue.running += sign
        if job.array is not None and job.array.max_running is not None:
            array_id = job.array.array_id
            placed = self.array_running(array_id) + sign
            self.arrays[array_id] = placed
            if not placed and type(self) is Ledger:
                del self.arrays[array_id]

    def _own_node(self, node_id: NodeId) -> NodeUse:
        use = self.nodes.get(node_id)
        if use is None:
            raise InvariantBroken(f"a placement names node {node_id}, which was never set")
        return use

    def _own_tenant(self, tenant_id: TenantId) -> TenantUse:
        return self.tenants[tenant_id]

    def _own_queue(self, tenant_id: TenantId, name: str) -> QueueUse | None:
        return self.queues.get((tenant_id, name))


class Draft(Ledger):
    """A trial on top of a ledger, which stays as it is."""

    def __init__(self, base: Ledger) -> None:
        super().__init__()
        self._base = base

    def node(self, node_id: NodeId) -> NodeUse:
        return self.nodes.get(node_id) or self._base.node(node_id)

    def tenant(self, tenant_id: TenantId) -> TenantUse:
        return self.tenants.get(tenant_id) or self._base.tenant(tenant_id)

    def queue(self, tenant_id: TenantId, name: str) -> QueueUse | None:
        return self.queues.get((tenant_id, name)) or self._base.queue(tenant_id, name)

    def array_running(self, array_id: str) -> int:
        own = self.arrays.get(array_id)
        return self._base.array_running(array_id) if own is None else own

    def node_ids(self) -> list[NodeId]:
        return self._base.node_ids()

    def _own_node(self, node_id: NodeId) -> NodeUse:
        use = self.nodes.get(node_id)
        if use is None:
            use = self.nodes[node_id] = self._base.node(node_id).copy()
        return use

    def _own_tenant(self, tenant_id: TenantId) -> TenantUse:
        use = self.tenants.get(tenant_id)
        if use is None:
            use = self.tenants[tenant_id] = self._base.tenant(tenant_id).copy()
        return use

    def _own_queue(self, tenant_id: TenantId, name: str) -> QueueUse | None:
        use = self.queues.get((tenant_id, name))
        if use is None:
            base = self._base.queue(tenant_id, name)
            if base is not None:
                use = self.queues[tenant_id, name] = base.copy()
        return use
