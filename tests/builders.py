"""Small builders of worlds for tests: each names only what the test is about."""

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from tgpu.core.accounting.meter import Owner
from tgpu.core.explain.reason import explain_class, named, own_reason, standing_holds
from tgpu.core.model import lifecycle
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import (
    JobMoved,
    JobsSubmitted,
    NodeSet,
    QueueSet,
    TenantSet,
    TimePassed,
)
from tgpu.core.model.ids import DEFAULT_QUEUE, JobId, NodeId, TenantId
from tgpu.core.model.job import Array, Dependency, DependencyKind, Job, Options, Request, Where
from tgpu.core.model.lifecycle import TERMINAL, JobState, Move, Progress
from tgpu.core.model.node import Gpu, Node, Placement, Share
from tgpu.core.model.plan import Plan
from tgpu.core.model.reasons import Reason
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.units import CPU, GPU, gpu_millis
from tgpu.core.state.cluster_state import Entry, State

WHERE_FIELDS = tuple(field.name for field in dataclasses.fields(Where))

# -- values ----------------------------------------------------------------------------------


def a_gpu(index: int = 0, gpu_type: str = "A100", **fields: Any) -> Gpu:
    mem_mib = fields.pop("mem_mib", 80 * 1024)
    return Gpu(index, f"GPU-{index}", gpu_type, mem_mib, **fields)


def a_node(
    node_id: str = "n0",
    gpus: int | Iterable[Gpu] = 8,
    gpu_type: str = "A100",
    cpus: int = 256,
    mem_mib: int = 2 * 1024 * 1024,
    labels: tuple[tuple[str, str], ...] = (),
) -> Node:
    if isinstance(gpus, int):
        gpus = [a_gpu(index, gpu_type) for index in range(gpus)]
    return Node(NodeId(node_id), tuple(gpus), cpus * CPU, mem_mib, labels=labels)


def a_tenant(
    tenant_id: str = "default",
    gpus: float | None = None,
    by_type: Mapping[str, float] | None = None,
    **fields: Any,
) -> Tenant:
    by_millis = tuple((name, round(count * GPU)) for name, count in (by_type or {}).items())
    millis = None if gpus is None else round(gpus * GPU)
    return Tenant(TenantId(tenant_id), millis, by_millis, **fields)


def a_queue(name: str, tenant: str = "default", **fields: Any) -> TenantQueue:
    return TenantQueue(TenantId(tenant), name, **fields)


def a_job(
    job_id: str = "j1",
    tenant: str = "default",
    gpus: float = 1,
    gpu_type: str | None = None,
    priority: int = 500,
    submitted_at: int = 0,
    *,
    queue: str = DEFAULT_QUEUE,
    gpu_mem_mib: int = 0,
    cpus: int = 0,
    mem_mib: int = 0,
    workers: int = 1,
    after: tuple[str, ...] = (),  # "j1" or "j1:any"
    array: str | None = None,
    array_max: int | None = None,
    **fields: Any,  # of Options and of Where
) -> Job:
    where = {name: fields.pop(name) for name in WHERE_FIELDS if name in fields}
    where["gpus"] = fields.pop("allowed_gpus", ())
    return Job(
        JobId(job_id),
        TenantId(tenant),
        priority,
        submitted_at,
        Request(
            gpu_millis(gpus), gpu_type, gpu_mem_mib, cpus * CPU, mem_mib, workers, Where(**where)
        ),
        queue=queue,
        options=Options(**fields),
        after=tuple(a_dependency(text) for text in after),
        array=None if array is None else Array(array, 0, array_max),
    )


def a_dependency(text: str) -> Dependency:
    job_id, _, kind = text.partition(":")
    return Dependency(JobId(job_id), DependencyKind(kind or "ok"))


def a_booking(
    booking_id: str = "r-1",
    *gpus: int,
    starts_at: int = 1000,
    ends_at: int = 2000,
    node: str = "n0",
    tenant: str = "default",
    gpu_type: str = "A100",
    **fields: Any,
) -> AdvanceReservation:
    return AdvanceReservation(
        booking_id, TenantId(tenant), NodeId(node), gpus, gpu_type, starts_at, ends_at, **fields
    )


def a_placement(
    *gpus: int, node: str = "n0", gpu_type: str = "A100", millis: int = GPU
) -> Placement:
    return Placement(NodeId(node), gpu_type, tuple(Share(index, millis) for index in gpus))


# -- states ----------------------------------------------------------------------------------


def a_state(
    *jobs: Job,
    nodes: Iterable[Node] | None = None,
    tenants: Iterable[Tenant] | None = None,
    queues: Iterable[TenantQueue] = (),
    now: int = 0,
) -> State:
    """One node of eight A100 and one tenant without limits, unless told otherwise."""
    state = State()
    for tenant in (a_tenant(),) if tenants is None else tenants:
        state.apply(TenantSet(now, tenant))
    for queue in queues:
        state.apply(QueueSet(now, queue))
    for node in (a_node(),) if nodes is None else nodes:
        state.apply(NodeSet(now, node))
    state.apply(TimePassed(now))
    submit(state, *jobs)
    return state


def submit(state: State, *jobs: Job, held: Iterable[str] = ()) -> None:
    state.apply(JobsSubmitted(state.now, jobs, frozenset(JobId(job_id) for job_id in held)))


def entry_of(state: State, job_id: str) -> Entry:
    entry = state.entry(JobId(job_id))
    assert entry is not None, f"{job_id} is not in the state"
    return entry


def move(state: State, job_id: str, by: Move, progress: Progress, at: int = 0) -> None:
    state.apply(JobMoved(at, JobId(job_id), by, progress))


def start(state: State, job_id: str, *gpus: int, at: int = 0, **where: Any) -> None:
    """Place a job on these GPUs, or on this `placement`."""
    placement = where.pop("placement", None) or a_placement(*gpus, **where)
    progress = lifecycle.place(JobId(job_id), entry_of(state, job_id).progress, placement, at)
    move(state, job_id, Move.START, progress, at)


def run(state: State, job_id: str, at: int = 0) -> None:
    progress = lifecycle.run(JobId(job_id), entry_of(state, job_id).progress, at, pid=1)
    move(state, job_id, Move.RUN, progress, at)


_END_MOVE = {
    JobState.COMPLETED: Move.COMPLETE,
    JobState.FAILED: Move.FAIL,
    JobState.CANCELLED: Move.CANCEL,
}


def end(state: State, job_id: str, to: JobState = JobState.COMPLETED, at: int = 0) -> None:
    progress = lifecycle.end(JobId(job_id), entry_of(state, job_id).progress, to, at)
    move(state, job_id, _END_MOVE[to], progress, at)


def end_anyhow(state: State, job_id: str, to: JobState = JobState.COMPLETED) -> None:
    """End a job from any state: what a test needs to take it out of the way."""
    progress = replace(entry_of(state, job_id).progress, state=to)
    move(state, job_id, _END_MOVE[to], progress)


def requeue(state: State, job_id: str, eligible_at: int = 0, counts: bool = False) -> None:
    progress = entry_of(state, job_id).progress
    after = lifecycle.requeue(JobId(job_id), progress, eligible_at, "it failed", counts)
    move(state, job_id, Move.REQUEUE, after)


def hold(state: State, job_id: str, held: bool = True) -> None:
    progress = lifecycle.hold(JobId(job_id), entry_of(state, job_id).progress, held)
    move(state, job_id, Move.HOLD if held else Move.RELEASE, progress)


def carry_out(state: State, plan: Plan, at: int) -> None:
    """What the service does with a plan: end leases, give up the unsatisfiable, start the rest."""
    for job_id in plan.expired:
        end(state, job_id, at=at)
    for job_id, _ in plan.unsatisfiable:
        end(state, job_id, JobState.CANCELLED, at=at)
    for decided in plan.starts:
        start(state, decided.job_id, at=at, placement=decided.placement)


def started(plan: Plan) -> list[str]:
    return [decided.job_id for decided in plan.starts]


def a_copy(state: State) -> State:
    """Another state that is the same. What is known by identity is known anew."""
    copied = copy.deepcopy(state)
    waiting = copied.waiting
    waiting._open = {id(queue): queue for queue in waiting.all_classes() if queue.keys}
    waiting._known.clear()
    return copied


def waiting_ids(state: State) -> list[str]:
    return sorted(job_id for queue in state.waiting.classes() for _, job_id in queue.keys)


def averages(state: State) -> dict[Owner, tuple[int, int]]:
    """The meters as a store keeps them."""
    return {owner: (meter.average, meter.at) for owner, meter in state.meters.by_owner.items()}


def snapshot(state: State) -> dict[str, object]:
    """All that decisions depend on, as plain values that compare, cut off from the state."""
    live = {entry.job.job_id for entry in state.entries()}
    dependents = {
        job_id: sorted(other for other in others if other in live)
        for job_id, others in state._dependents.items()
    }
    facts = {
        "now": state.now,
        "entries": {e.job.job_id: (e.job, e.progress, e.unmet) for e in state.entries()},
        "placed": [entry.job.job_id for entry in state.placed()],
        "sleeping": list(state._sleeping),
        "leases": list(state._leases),
        "dependents": {job_id: others for job_id, others in dependents.items() if others},
        "unsatisfiable": state.unsatisfiable(),
        # The ends of jobs are counted too, but a state restored from a store begins at none.
        "counts": {s: n for s, n in state.counts.items() if n and s not in TERMINAL},
        "queues": {q.job_class: (list(q.keys), q.members) for q in state.waiting.all_classes()},
        "waiting": len(state.waiting),
        "nodes": state.ledger.nodes,
        "tenants": state.ledger.tenants,
        "arrays": state.ledger.arrays,
        "tenant_queues": state.ledger.queues,
        "usage": state.usage,
        "meters": {o: m for o, m in state.meters.by_owner.items() if m.average or m.rate},
    }
    return copy.deepcopy(facts)


def explain(state: State, entry: Entry) -> Reason:
    """Why a pending job could not start on the state as it is, if nobody else waited but those
    that others were preempted for: one cause, which a cycle would meet too."""
    own = own_reason(state, entry)
    if own is not None:
        return own
    holds = standing_holds(state, Plan(), state.now)
    others = [hold.owner for hold in holds.owners() if hold.owner != entry.job.job_id]
    return named(
        state, Plan(), explain_class(state.ledger, entry.queue.job_class, holds.only(others))
    )
