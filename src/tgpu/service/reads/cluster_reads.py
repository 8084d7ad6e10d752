"""The read side of the service: what APIs, notices and metrics ask of the state.

The one way to it for whoever does not decide. Answers are values of the core, which are frozen, or
those of `values.py`: nothing that is handed out can change the state, and nothing large is copied.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from tgpu.core.accounting.budget import Spend
from tgpu.core.admission.cohort import borrowed, lent
from tgpu.core.capacity.ledger import NodeUse, QueueName, TenantUse
from tgpu.core.explain.share import TenantShare, shares
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import MembersSee, Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.core.reservations.advance_reservations import broken
from tgpu.core.state.cluster_state import State
from tgpu.quota import QuotaInfo
from tgpu.service.accounting.quota_gate import quota_info
from tgpu.service.accounting.user_limits import UserUse, user_uses
from tgpu.service.identity import ownership
from tgpu.service.identity.caller import Principal
from tgpu.service.identity.ownership import Action, Sight
from tgpu.service.reads.reservations import bookings_of, named
from tgpu.service.reads.tenants import queue_of, queues_of, tenant_use, usage_total
from tgpu.service.reads.values import (
    ClassCount,
    LiveJob,
    NodeAllocation,
    QueueCount,
    TenantAllocation,
)


class ClusterReads:
    """Without a state it answers about an empty cluster."""

    def __init__(self, state: State | None = None) -> None:
        self._state = State() if state is None else state

    @property
    def now(self) -> int:
        """The latest instant that an event brought: time on record."""
        return self._state.now

    # -- who may ----------------------------------------------------------------------------------

    def sight(self, caller: Principal) -> Sight:
        """Whose jobs the caller sees."""
        return ownership.sight_of(self._state, caller)

    def permits(self, caller: Principal, action: Action, job: Job) -> bool:
        return ownership.permits(self._state, caller, action, job)

    def check(self, caller: Principal, action: Action, job: Job) -> None:
        """Raises NotFound where the caller may not even see the job, else Forbidden."""
        ownership.check(self._state, caller, action, job)

    def members_see(self, tenant_id: TenantId) -> MembersSee:
        return ownership.members_see(self._state, tenant_id)

    # -- jobs that are not over -------------------------------------------------------------------

    def job(self, job_id: JobId) -> LiveJob | None:
        entry = self._state.entry(job_id)
        return None if entry is None else LiveJob(entry.job, entry.progress)

    def placed_jobs(self) -> list[LiveJob]:
        """Those that have GPUs, by start, then id."""
        return [LiveJob(entry.job, entry.progress) for entry in self._state.placed()]

    def live_count(self) -> int:
        return self._state.live_count()

    def pending_count(self) -> int:
        return self._state.pending_count()

    def job_counts(self) -> dict[JobState, int]:
        """How many there are in each state; of those that are over, since the first."""
        counts = self._state.counts
        return {state: counts[state] for state in JobState}

    def class_counts(self) -> Iterator[ClassCount]:
        """Of each class of jobs. Costs what classes cost, however many jobs there are."""
        for queue in self._state.waiting.all_classes():
            yield ClassCount(queue.job_class, queue.members)

    # -- tenants and their queues -----------------------------------------------------------------

    @property
    def tenant_ids(self) -> Collection[TenantId]:
        """In the order in which they were made."""
        return self._state.ledger.tenants.keys()

    def find_tenant(self, tenant_id: str) -> Tenant | None:
        use = self._state.ledger.tenants.get(TenantId(tenant_id))
        return None if use is None else use.tenant

    def tenant(self, tenant_id: str) -> Tenant:
        """NotFound where there is none."""
        return tenant_use(self._state, TenantId(tenant_id)).tenant

    def tenants(self) -> list[Tenant]:
        """By id."""
        uses = self._state.ledger.tenants
        return [uses[tenant_id].tenant for tenant_id in sorted(uses)]

    def tenant_allocation(self, tenant_id: str) -> TenantAllocation:
        """NotFound where there is no such tenant."""
        return self._tenant_allocation(tenant_use(self._state, TenantId(tenant_id)))

    def tenant_allocations(self) -> Iterator[TenantAllocation]:
        """Of all, in the order in which they were made."""
        return map(self._tenant_allocation, self._state.ledger.tenants.values())

    def user_uses(self, tenant_id: TenantId, now: int) -> list[UserUse]:
        """Users with limits of their own, with GPUs, or with some of today's, by name."""
        return list(user_uses(self._state, tenant_id, now))

    def quota(self, tenant_id: TenantId) -> QuotaInfo:
        """As our own books have it. NotFound where there is no such tenant."""
        return quota_info(tenant_use(self._state, tenant_id))

    def queue(self, tenant_id: TenantId, name: str) -> TenantQueue:
        """The default one is there without having been made. NotFound of tenant or queue."""
        return queue_of(self._state, tenant_id, name)

    def queues(self, tenant_id: TenantId | None = None) -> list[TenantQueue]:
        """All queues of a tenant, or of all, higher ones first."""
        return queues_of(self._state, tenant_id)

    def made_queue(self, tenant_id: TenantId, name: str) -> TenantQueue | None:
        """None: nobody has made it, so it has no rules of its own."""
        use = self._state.ledger.queue(tenant_id, name)
        return None if use is None else use.queue

    def queue_live_count(self, tenant_id: TenantId, name: str) -> int:
        """How many of its jobs are not over, without a look at any of them."""
        return self._state.waiting.members(tenant_id, name)

    def queue_count(self, tenant_id: TenantId, name: str) -> QueueCount:
        """Costs a look at every placed job where nobody has made the queue."""
        live = self.queue_live_count(tenant_id, name)
        use = self._state.ledger.queue(tenant_id, name)
        if use is not None:
            return QueueCount(live, use.running)
        of_it = (tenant_id, name)
        placed = self._state.placed_in_no_order()
        return QueueCount(live, sum((e.job.tenant_id, e.job.queue) == of_it for e in placed))

    # -- what was used, and may be ----------------------------------------------------------------

    def usage(self, tenant_id: TenantId, queue: str | None = None) -> GpuTimeUsage:
        """What a tenant, or one of its queues, has used up so far."""
        return usage_total(self._state, tenant_id, queue)

    def usage_by_queue(self) -> Mapping[QueueName, GpuTimeUsage]:
        return MappingProxyType(self._state.usage)

    def budgeted(self) -> list[Tenant]:
        """The tenants that have a budget."""
        return list(self._state.budgets.budgeted())

    def spend(self, tenant_id: TenantId) -> Spend:
        return self._state.budgets.spend(tenant_id)

    def shares(self, now: int) -> list[TenantShare]:
        """Of every tenant, by id: what it is entitled to, and had of late."""
        return shares(self._state, now)

    @property
    def half_life_ms(self) -> int:
        """In which what was used counts half for the fair share."""
        return self._state.meters.half_life_ms

    # -- nodes ------------------------------------------------------------------------------------

    @property
    def has_several_nodes(self) -> bool:
        """Whether a bare index may mean more than one GPU."""
        return self._state.ledger.has_several_nodes

    def has_node(self, node_id: str) -> bool:
        """Whether jobs can be on it."""
        return NodeId(node_id) in self._state.ledger.nodes

    def nodes(self) -> list[Node]:
        """Those that jobs can be on."""
        return [use.node for use in self._state.ledger.nodes.values()]

    def known_nodes(self) -> list[Node]:
        """Also those where no engine runs jobs, by name."""
        return self._state.ledger.known_nodes()

    def known_node(self, node_id: NodeId) -> Node | None:
        return self._state.ledger.known_node(node_id)

    def node_allocation(self, node_id: NodeId) -> NodeAllocation:
        """Of one that jobs can be on."""
        return _node_allocation(self._state.ledger.node(node_id))

    def node_allocations(self) -> list[NodeAllocation]:
        """Of all that jobs can be on."""
        return [_node_allocation(use) for use in self._state.ledger.nodes.values()]

    # -- advance reservations ---------------------------------------------------------------------

    def reservations(self) -> list[AdvanceReservation]:
        """By start, then id."""
        return bookings_of(self._state)

    def reservation(
        self, name: str, tenants: Iterable[TenantId] | None
    ) -> AdvanceReservation | None:
        """The one of that id, or of that name of one of these tenants; None: those of all."""
        return named(self._state, name, tenants)

    def reservation_problems(self, now: int) -> dict[str, str]:
        """What is wrong with those that miss GPUs, by id."""
        return dict(broken(self._state, now))

    def reserved_jobs(self, reservation_id: str) -> list[Job]:
        """Those that are for it and not over."""
        classes = self._state.waiting.all_classes()
        if not any(queue.job_class.booking == reservation_id for queue in classes):
            return []  # the usual case, without a look at every job there is
        entries = self._state.entries()
        return [e.job for e in entries if e.job.options.booking == reservation_id]

    def _tenant_allocation(self, use: TenantUse) -> TenantAllocation:
        tenant_id = use.tenant.tenant_id
        return TenantAllocation(
            tenant=use.tenant,
            jobs=use.jobs,
            gpu_millis=use.gpu_millis,
            gpu_millis_by_type=dict(use.gpu_millis_by_type),
            gpu_mem_mib=use.gpu_mem_mib,
            cpu_millis=use.cpu_millis,
            mem_mib=use.mem_mib,
            borrowed_millis=borrowed(self._state.ledger, tenant_id),
            lent_millis=lent(self._state.ledger, tenant_id),
        )


def _node_allocation(use: NodeUse) -> NodeAllocation:
    return NodeAllocation(use.node, dict(use.gpu_millis))
