"""The cycle as its rule reads: take the first of all that is left, start it if it may and can.

Too slow to ship and too simple to be wrong. It keeps no index: whatever it needs it counts again
from the plain facts.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

from tgpu.core.accounting.meter import advanced, changed, look_ahead
from tgpu.core.capacity.ledger import Ledger, NodeUse, TenantUse
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import DependencyKind, Job, class_of
from tgpu.core.model.lifecycle import JobState, Progress
from tgpu.core.model.node import Node, Placement
from tgpu.core.model.plan import Plan, Start
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.placement.place import place

Holding = tuple[Job, Placement]

# Short enough that a world of some seconds feels them.
HALF_LIFE_MS = 5000
SHORTEST_BOUND_MS = 4000
AGING_STEP = 2


@dataclass
class Facts:
    """What happened, and nothing derived from it."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    progress: dict[JobId, Progress] = field(default_factory=dict)
    ended: list[JobId] = field(default_factory=list)  # in the order in which they ended
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    tenants: dict[TenantId, Tenant] = field(default_factory=dict)
    queues: dict[tuple[TenantId, str], TenantQueue] = field(default_factory=dict)
    # Who got (or gave back) how much when, in the order in which it happened.
    held: list[tuple[int, TenantId, str, int]] = field(default_factory=list)
    clock: int = 0  # the latest instant anybody named

    def ids(self, *states: JobState) -> list[JobId]:
        return sorted(j for j in self.jobs if self.progress[j].state in states)


def naive_plan(facts: Facts, now: int, policy: str, aging_ms: int) -> Plan:
    expired = _expired(facts, now)
    holdings: list[Holding] = []
    for job_id in facts.ids(JobState.SCHEDULED, JobState.RUNNING):
        placement = facts.progress[job_id].placement
        assert placement is not None
        if job_id not in expired:
            holdings.append((facts.jobs[job_id], placement))

    def standing(job: Job) -> tuple[int, int]:
        mine = [o for o, _ in holdings if o.tenant_id == job.tenant_id]
        theirs = [o for o in mine if o.options.user == job.options.user]
        ahead = look_ahead(HALF_LIFE_MS)
        of_tenant = _had(facts, now, job.tenant_id, None)
        of_user = _had(facts, now, job.tenant_id, job.options.user)
        return (
            (of_tenant + ahead * sum(o.request.gpu_millis for o in mine))
            // facts.tenants[job.tenant_id].weight_millis,
            of_user + ahead * sum(o.request.gpu_millis for o in theirs),
        )

    def rank(job: Job) -> tuple[int, tuple[int, int], int, int, str]:
        queue = facts.queues.get((job.tenant_id, job.queue))
        return (
            0 if queue is None else -queue.priority,
            standing(job) if policy == "fairshare" else (0, 0),
            _own_rank(job, queue, now, policy, aging_ms),
            job.submitted_at,
            job.job_id,
        )

    starts = []
    left = _eligible(facts)
    aside: list[Job] = []
    is_lending = True
    while left or aside:
        if not left:  # everybody else had their turn: now those who need more than their own
            left, aside, is_lending = aside, [], False
        job = min(left, key=rank)  # looked for anew each time: shares move with every start
        left.remove(job)
        if is_lending and _would_borrow(facts, job, holdings):
            aside.append(job)
            continue
        if not (_queue_lets(facts, job, holdings) and _may(facts, job, holdings)):
            continue
        placement = place(_ledger(facts, holdings), class_of(job))
        if placement is not None:
            holdings.append((job, placement))
            starts.append(Start(job.job_id, placement))
    return Plan(tuple(starts), tuple(expired), tuple(sorted(_unsatisfiable(facts).items())))


def _own_rank(job: Job, queue: TenantQueue | None, now: int, policy: str, aging_ms: int) -> int:
    waited = now - job.submitted_at
    limit, deadline_at = job.options.time_limit_ms, job.options.deadline_at
    if policy == "fifo":
        return 0
    if policy == "shortest":
        if waited > SHORTEST_BOUND_MS:
            return -1
        return 10**30 if limit is None else limit * job.request.gpu_millis
    urgent = Fraction(0)
    for must_start in (
        None if deadline_at is None else deadline_at - (limit or 0),
        None
        if queue is None or queue.wait_target_ms is None
        else job.submitted_at + queue.wait_target_ms,
    ):
        if must_start is not None and now >= must_start:
            urgent = Fraction(1000)
        elif must_start is not None and waited > 0:
            urgent = max(urgent, Fraction(1000 * waited, must_start - job.submitted_at))
    return -(job.priority + waited // aging_ms * AGING_STEP + math.floor(urgent))


def _had(facts: Facts, now: int, tenant_id: TenantId, user: str | None) -> int:
    """The meter, from the first thing it ever measured."""
    meter = None
    for at, owner, name, by in facts.held:
        if owner == tenant_id and user in (None, name):
            meter = changed(meter, by, at, HALF_LIFE_MS)
    return 0 if meter is None else advanced(meter, now, HALF_LIFE_MS).average


def _expired(facts: Facts, now: int) -> list[JobId]:
    deadlines = []
    for job_id in facts.ids(JobState.SCHEDULED, JobState.RUNNING):
        options, started_at = facts.jobs[job_id].options, facts.progress[job_id].started_at
        if options.lease and options.time_limit_ms is not None and started_at is not None:
            deadlines.append((started_at + options.time_limit_ms, job_id))
    return [job_id for deadline, job_id in sorted(deadlines) if deadline <= now]


def _unsatisfiable(facts: Facts) -> dict[JobId, str]:
    unsatisfiable: dict[JobId, str] = {}
    for other in facts.ended:
        state = facts.progress[other].state
        for job_id in facts.ids(JobState.PENDING):
            needs_ok = (other, DependencyKind.OK) in [
                (d.job_id, d.kind) for d in facts.jobs[job_id].after
            ]
            if needs_ok and state is not JobState.COMPLETED and job_id not in unsatisfiable:
                unsatisfiable[job_id] = f"job {other} it depends on {state}"
    return unsatisfiable


def _eligible(facts: Facts) -> list[Job]:
    unsatisfiable = _unsatisfiable(facts)
    found = []
    for job_id in facts.ids(JobState.PENDING):
        job, progress = facts.jobs[job_id], facts.progress[job_id]
        waits = any(dependency.job_id not in facts.ended for dependency in job.after)
        sleeps = progress.eligible_at > facts.clock
        if not (progress.held or waits or sleeps or job_id in unsatisfiable):
            found.append(job)
    return found


def _queue_lets(facts: Facts, job: Job, holdings: list[Holding]) -> bool:
    queue = facts.queues.get((job.tenant_id, job.queue))
    if queue is None:
        return True
    running = sum((o.tenant_id, o.queue) == (job.tenant_id, job.queue) for o, _ in holdings)
    limit = queue.max_running_jobs
    return queue.enabled and (limit is None or running < limit)


def _may(facts: Facts, job: Job, holdings: list[Holding]) -> bool:
    tenant = facts.tenants[job.tenant_id]
    if not tenant.active:
        return False
    own = [other for other, _ in holdings if other.tenant_id == job.tenant_id]
    of_type = sum(
        other.request.gpu_millis
        for other, placement in holdings
        if other.tenant_id == job.tenant_id and placement.gpu_type == job.request.gpu_type
    )
    asks = job.request
    limits = [
        (asks.gpu_millis, sum(o.request.gpu_millis for o in own), tenant.max_gpu_millis),
        (asks.gpu_mem_mib, sum(o.request.gpu_mem_mib for o in own), tenant.max_gpu_mem_mib),
        (asks.cpu_millis, sum(o.request.cpu_millis for o in own), tenant.max_cpu_millis),
        (asks.mem_mib, sum(o.request.mem_mib for o in own), tenant.max_mem_mib),
        (1, len(own), tenant.max_running_jobs),
    ]
    user = job.options.user
    mine, may_have = [o for o in own if o.options.user == user], tenant.limits_of(user)
    limits += [
        (asks.gpu_millis, sum(o.request.gpu_millis for o in mine), may_have.max_gpu_millis),
        (1, len(mine), may_have.max_running_jobs),
    ]
    if asks.gpu_type is not None:  # else `place` chooses the type, and minds its quota
        limits.append((asks.gpu_millis, of_type, tenant.max_of_type(asks.gpu_type)))
    if tenant.cohort:
        limits[0] = (0, 0, None)
        if not _cohort_lets(facts, job, holdings):
            return False
    if not tenant.enforce_quota:
        limits = []
    if job.array is not None and job.array.max_running is not None:
        elements = [
            other
            for other, _ in holdings
            if other.array is not None
            and other.tenant_id == job.tenant_id
            and other.array.max_running is not None
            and other.array.array_id == job.array.array_id
        ]
        limits.append((1, len(elements), job.array.max_running))
    return all(limit is None or not ask or used + ask <= limit for ask, used, limit in limits)


def _would_borrow(facts: Facts, job: Job, holdings: list[Holding]) -> bool:
    tenant = facts.tenants[job.tenant_id]
    if not tenant.cohort or not tenant.enforce_quota or tenant.max_gpu_millis is None:
        return False
    used = sum(o.request.gpu_millis for o, _ in holdings if o.tenant_id == job.tenant_id)
    return used + job.request.gpu_millis > tenant.max_gpu_millis


def _cohort_lets(facts: Facts, job: Job, holdings: list[Holding]) -> bool:
    tenant = facts.tenants[job.tenant_id]
    if tenant.max_gpu_millis is None or not tenant.enforce_quota:
        return True
    used = {tenant_id: 0 for tenant_id in facts.tenants}
    for other, _ in holdings:
        used[other.tenant_id] += other.request.gpu_millis
    used[tenant.tenant_id] += job.request.gpu_millis
    pool = taken = 0
    for member in facts.tenants.values():
        nominal = member.max_gpu_millis
        if member.cohort != tenant.cohort or not member.enforce_quota or nominal is None:
            continue
        lends = nominal if member.lend_millis is None else min(nominal, member.lend_millis)
        beyond = max(0, used[member.tenant_id] - (nominal - lends))
        if member is tenant and not beyond:
            return True  # its guaranteed part
        pool += lends
        taken += beyond
    within = tenant.borrow_millis is None or (
        used[tenant.tenant_id] <= tenant.max_gpu_millis + tenant.borrow_millis
    )
    return within and taken <= pool


def _ledger(facts: Facts, holdings: list[Holding]) -> Ledger:
    ledger = Ledger()
    ledger.nodes = {node_id: NodeUse(node) for node_id, node in facts.nodes.items()}
    ledger.tenants = {tenant_id: TenantUse(tenant) for tenant_id, tenant in facts.tenants.items()}
    for job, placement in holdings:
        ledger.take(job, placement)
    return ledger
