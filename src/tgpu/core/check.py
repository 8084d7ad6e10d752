"""Invariants of a state, and of a plan made for it.

Everything is counted again from the entries alone, without the code that decides: slow, and hard
to get wrong. Tests call it after every step; a service may, when it suspects its ledger.
"""

from collections import Counter

from tgpu.core.accounting.attained import level_of
from tgpu.core.accounting.meter import Owner, owners
from tgpu.core.capacity.ledger import Ledger, NodeUse, QueueUse, TenantUse, Trial
from tgpu.core.errors import InvariantBroken
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.job import Job, JobClass, class_of
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState
from tgpu.core.model.node import Gpu, Part, Placement
from tgpu.core.model.plan import Plan, Start
from tgpu.core.model.units import GPU
from tgpu.core.state.cluster_state import Entry, State, latest_end


def check_invariants(state: State) -> None:
    """Raise InvariantBroken with the facts where an index and the entries disagree.

    Quotas are not looked at: one may be lowered under jobs that run. `check_plan` does.
    """
    _check_gpus(state)
    _check_gangs(state)
    _check_books(state)
    _check_counts(state)
    _check_queues(state)
    _check_classes(state)
    _check_meters(state)
    _check_held(state)


def check_plan(state: State, plan: Plan) -> None:
    """Raise InvariantBroken where the plan, carried out in order, breaks a rule."""
    for job_id, _ in plan.unsatisfiable:
        _require(
            state.unsatisfiable_cause(job_id) is not None,
            "the plan gives up job {}, which may start",
            job_id,
        )
    for job_id, times in Counter(start.job_id for start in plan.starts).items():
        _require(times == 1, "the plan starts job {} {} times", job_id, times)
    with Trial(state.ledger) as trial:
        for job_id in plan.expired:
            _end_lease(state, trial, job_id)
        for start in plan.starts:
            _check_start(state, trial, start)


def _require(truth: bool, sentence: str, *facts: object) -> None:
    if not truth:
        raise InvariantBroken(sentence.format(*facts))


# -- a state -----------------------------------------------------------------------------------


def _check_gpus(state: State) -> None:
    """No GPU is given beyond its thousand, so no whole one to two jobs."""
    holders: dict[tuple[str, int], list[tuple[JobId, int]]] = {}
    for entry in state.entries():
        placement = entry.progress.placement
        if entry.progress.state not in PLACED or placement is None:
            continue
        for part in placement.parts():
            for share in part.shares:
                holder = (entry.job.job_id, share.millis)
                holders.setdefault((part.node_id, share.gpu_index), []).append(holder)
    for (node_id, index), shares in holders.items():
        total = sum(millis for _, millis in shares)
        _require(total <= GPU, "GPU {} of node {} is given {}: {}", index, node_id, total, shares)


def _check_gangs(state: State) -> None:
    """Every worker of a placed job has its part, and who wants to be alone is."""
    on_node: dict[str, dict[JobId, bool]] = {}
    for entry in state.entries():
        placement, job = entry.progress.placement, entry.job
        if entry.progress.state not in PLACED or placement is None:
            continue
        parts = placement.parts()
        has, asked = len(parts), job.request.workers
        _require(has == asked, "{} of the {} workers of job {} are placed", has, asked, job.job_id)
        for part in parts:
            on_node.setdefault(part.node_id, {})[job.job_id] = job.request.where.exclusive
    for node_id, jobs in on_node.items():
        alone = len(jobs) == 1 or not any(jobs.values())
        _require(alone, "node {} is shared with a job that wants it alone: {}", node_id, jobs)


def _check_books(state: State) -> None:
    """The ledger says what the placed entries add up to, and nothing else."""
    counted = Ledger()
    counted.nodes = {key: NodeUse(use.node) for key, use in state.ledger.nodes.items()}
    counted.tenants = {key: TenantUse(use.tenant) for key, use in state.ledger.tenants.items()}
    counted.queues = {key: QueueUse(use.queue) for key, use in state.ledger.queues.items()}
    for entry in state.entries():
        placement = entry.progress.placement
        if entry.progress.state in PLACED and placement is not None:
            counted.take(entry.job, placement, latest_end(entry))
    for what in ("known_ends", "nodes", "tenants", "queues", "arrays"):
        booked, real = getattr(state.ledger, what), getattr(counted, what)
        _require(booked == real, "the ledger's {} say {}, the jobs {}", what, booked, real)
    _check_pools(state.ledger, counted)


def _check_pools(ledger: Ledger, counted: Ledger) -> None:
    """What each cohort can lend, and what is out of that."""
    for cohort in {use.tenant.cohort for use in counted.tenants.values()} - {""}:
        size = taken = 0
        for use in counted.tenants.values():
            whole, lends = use.tenant.max_gpu_millis, use.tenant.lend_millis
            if use.tenant.cohort == cohort and use.tenant.enforce_quota and whole is not None:
                lends = whole if lends is None else min(lends, whole)
                size += lends
                taken += max(0, use.gpu_millis - (whole - lends))
        pool = ledger.pools[cohort]
        booked, real = (pool.size, pool.taken), (size, taken)
        _require(booked == real, "the pool of {} says {}, the jobs {}", cohort, booked, real)


def _check_counts(state: State) -> None:
    real = Counter(entry.progress.state for entry in state.entries())
    for job_state in JobState:
        if job_state not in TERMINAL:  # what is over is counted, and no longer here
            counted, there = state.counts[job_state], real[job_state]
            _require(counted == there, "{} jobs are {}, counted {}", there, job_state, counted)
    placed = sorted(e.job.job_id for e in state.entries() if e.progress.state in PLACED)
    listed = sorted(entry.job.job_id for entry in state.placed())
    _require(listed == placed, "jobs {} have GPUs, listed are {}", placed, listed)
    _require(
        state.live_count() == state.pending_count() + len(placed), "pending and placed are not all"
    )


def _check_queues(state: State) -> None:
    """A pending job is in the queue of its class, asleep, or kept back: exactly one of them."""
    queued = _queued(state)
    asleep = list(state.sleeping())
    for job_id, times in Counter([*queued, *(job_id for _, job_id in asleep)]).items():
        _require(times == 1, "job {} waits in {} places", job_id, times)
        _require(state.entry(job_id) is not None, "job {} waits and is unknown", job_id)
    _require(
        len(state.waiting) == len(queued), "{} wait, counted {}", len(queued), len(state.waiting)
    )
    wakes = {job_id: at for at, job_id in asleep}
    among = frozenset(queued)
    for entry in state.entries():
        _check_place_of(state, entry, entry.job.job_id in among, wakes.get(entry.job.job_id))


def _queued(state: State) -> list[JobId]:
    return [job_id for queue in state.waiting.classes() for _, job_id in queue.keys]


def _check_place_of(state: State, entry: Entry, is_queued: bool, wakes_at: int | None) -> None:
    job_id, progress = entry.job.job_id, entry.progress
    may_start = (
        progress.state is JobState.PENDING
        and not progress.held
        and not _open_dependencies(state, entry.job)
        and state.unsatisfiable_cause(job_id) is None
    )
    is_due = progress.eligible_at <= state.now
    _require(
        is_queued == (may_start and is_due), "job {} queued={}: {}", job_id, is_queued, progress
    )
    expected = progress.eligible_at if may_start and not is_due else None
    _require(wakes_at == expected, "job {} wakes at {}, not {}", job_id, wakes_at, expected)
    if is_queued:
        key = (entry.job.submitted_at, job_id)
        _require(key in entry.queue.keys, "job {} is in the queue of another class", job_id)


def _open_dependencies(state: State, job: Job) -> int:
    return sum(state.entry(dependency.job_id) is not None for dependency in job.after)


def _class_of(entry: Entry) -> JobClass:
    return class_of(entry.job, level_of(entry.job.request.gpu_millis, entry.progress.ran_ms))


def _check_classes(state: State) -> None:
    members = Counter(_class_of(entry) for entry in state.entries())
    counted = {queue.job_class: queue.members for queue in state.waiting.all_classes()}
    _require(counted == members, "classes have {} members, counted {}", members, counted)
    for entry in state.entries():
        job_id, queue = entry.job.job_id, entry.queue
        _require(queue.job_class == _class_of(entry), "job {} is in a wrong class", job_id)
        unmet = _open_dependencies(state, entry.job)
        _require(entry.unmet == unmet, "job {} waits for {}, not {}", job_id, unmet, entry.unmet)


def _check_held(state: State) -> None:
    amounts = [entry.job.request.gpu_millis for entry in state.placed()]
    held = (state.held_millis, state.held_squares)
    counted = (sum(amounts), sum(millis * millis for millis in amounts))
    _require(held == counted, "placed jobs have {}, with squares, not {}", counted, held)


def _check_meters(state: State) -> None:
    """Each meter runs at the rate of what its owner holds."""
    held: Counter[Owner] = Counter()
    for entry in state.entries():
        if entry.progress.state in PLACED:
            for owner in owners(entry.job.tenant_id, entry.job.options.user):
                held[owner] += entry.job.request.gpu_millis
    rates = {owner: meter.rate for owner, meter in state.meters.by_owner.items() if meter.rate}
    _require(rates == dict(held), "meters run at {}, held is {}", rates, dict(held))


# -- a plan -----------------------------------------------------------------------------------


def _end_lease(state: State, ledger: Trial, job_id: JobId) -> None:
    entry = state.entry(job_id)
    _require(entry is not None, "the plan ends unknown lease {}", job_id)
    assert entry is not None
    placement = entry.progress.placement
    _require(entry.job.options.lease, "the plan ends job {}, which is not a lease", job_id)
    _require(placement is not None, "the plan ends lease {}, which has nothing", job_id)
    assert placement is not None
    ledger.give(entry.job, placement)


def _check_start(state: State, trial: Trial, start: Start) -> None:
    ledger = trial.ledger
    entry = state.entry(start.job_id)
    _require(entry is not None, "the plan starts unknown job {}", start.job_id)
    assert entry is not None
    key = (entry.job.submitted_at, start.job_id)
    _require(key in entry.queue.keys, "the plan starts job {}, which is not due", start.job_id)
    _check_gang(entry.job, start.placement)
    for part in start.placement.parts():
        _check_node_chosen(ledger, entry.job, part)
        _check_gpus_chosen(ledger.node(part.node_id), entry.job, part, start.placement.gpu_type)
    trial.take(entry.job, start.placement)
    for part in start.placement.parts():
        _check_node(ledger.node(part.node_id), entry.job, part)
    _check_quota(ledger.tenant(entry.job.tenant_id), entry.job, start.placement.gpu_type)
    _check_cohort(ledger, ledger.tenant(entry.job.tenant_id), entry.job)
    _check_queue(ledger.queue(entry.job.tenant_id, entry.job.queue), entry.job)
    array = entry.job.array
    if array is not None:
        running = ledger.array_running(entry.job.tenant_id, array.array_id)
        _check_limit(entry.job, "elements", 1, running, array.max_running)


def _check_gang(job: Job, placement: Placement) -> None:
    """All workers or none, by node, and no two of them with the same share of a GPU."""
    request, parts = job.request, placement.parts()
    _require(len(parts) == request.workers, "{} of {}'s workers start", len(parts), job.job_id)
    amounts = (request.gpu_millis, request.cpu_millis, request.mem_mib)
    even = all(amount % request.workers == 0 for amount in amounts)
    _require(even, "{} workers do not divide {} of job {}", request.workers, amounts, job.job_id)
    node_ids = [part.node_id for part in parts]
    _require(node_ids == sorted(node_ids), "ranks of job {} lie on {}", job.job_id, node_ids)
    wanted = request.where.gpu_types or (placement.gpu_type,)
    _require(placement.gpu_type in wanted, "job {} is on {}", job.job_id, placement.gpu_type)


def _check_node_chosen(ledger: Ledger, job: Job, part: Part) -> None:
    """Before the start: a node that this job may have, with nobody on it who is in the way."""
    where, job_id, node_id = job.request.where, job.job_id, part.node_id
    _require(node_id in ledger.nodes, "job {} is placed nowhere", job_id)
    use = ledger.node(node_id)
    wanted = (not where.nodes or node_id in where.nodes) and node_id not in where.not_nodes
    _require(wanted, "job {} may not be on node {}", job_id, node_id)
    labels = use.node.labels
    _require(set(where.labels) <= set(labels), "job {} is on a node of {}", job_id, labels)
    others = sorted(use.holdings)
    _require(not where.exclusive or not others, "job {} is not alone: {}", job_id, others)
    for other in others:
        alone = use.holdings[other].job.request.where.exclusive
        _require(not alone, "job {} joins {}, which wants to be alone", job_id, other)


def _check_gpus_chosen(use: NodeUse, job: Job, part: Part, gpu_type: str) -> None:
    """The shares add up to what a worker asks for and lie on GPUs that this job may have."""
    request, job_id = job.request, job.job_id
    indexes = [share.gpu_index for share in part.shares]
    _require(indexes == sorted(set(indexes)), "job {} has GPUs {}", job_id, indexes)
    whole, rest = divmod(request.gpu_millis // request.workers, GPU)
    given = sorted(share.millis for share in part.shares)
    expected = sorted([GPU] * whole + [rest] * bool(rest))
    _require(given == expected, "job {} asks for {}, has {}", job_id, expected, given)
    by_index = {gpu.index: gpu for gpu in use.node.gpus}
    for index in indexes:
        _require(
            index in by_index, "job {} is placed on GPU {}, which does not exist", job_id, index
        )
    gpus = [by_index[index] for index in indexes]
    for gpu in gpus:
        _check_gpu_chosen(part.node_id, gpu, job, gpu_type)
    groups = {gpu.nvlink_group for gpu in gpus}
    linked = len(gpus) == 1 or (len(groups) == 1 and None not in groups)
    _require(linked or not request.where.same_island, "job {} has islands {}", job_id, groups)
    slices = [gpu.index for gpu in gpus if gpu.slice_of is not None]
    _require(not slices or len(gpus) == 1, "job {} joins slices {}", job_id, slices)


def _check_gpu_chosen(node_id: NodeId, gpu: Gpu, job: Job, gpu_type: str) -> None:
    request, where, job_id = job.request, job.request.where, job.job_id
    type_is_right = gpu.gpu_type == gpu_type == (request.gpu_type or gpu_type)
    _require(type_is_right, "job {} is placed on the wrong type: {}", job_id, gpu)
    # The share of the memory that goes with the share of the GPU must be enough.
    enough = gpu.mem_mib * request.gpu_millis >= request.gpu_mem_mib * GPU
    enough = enough and gpu.mem_mib >= where.gpu_mem_each_mib
    _require(enough, "job {} is too large for {}", job_id, gpu)
    _require(gpu.is_usable, "job {} is placed on {}", job_id, gpu)
    _require(where.allows_gpu(node_id, gpu.index), "job {} may not have GPU {}", job_id, gpu.index)


def _check_node(use: NodeUse, job: Job, part: Part) -> None:
    """After the start no GPU it touches is beyond its thousand, nor are the cores and memory."""
    for share in part.shares:
        taken = use.gpu_millis[share.gpu_index]
        _require(taken <= GPU, "job {} makes GPU {} {}", job.job_id, share.gpu_index, taken)
    _check_limit(job, "cores", job.request.cpu_millis, use.cpu_millis, use.node.cpu_millis)
    _check_limit(job, "memory", job.request.mem_mib, use.mem_mib, use.node.mem_mib)


def _check_quota(use: TenantUse, job: Job, gpu_type: str) -> None:
    asks, may = job.request, use.tenant
    _require(
        may.active, "job {} starts for tenant {}, which is inactive", job.job_id, may.tenant_id
    )
    if not may.enforce_quota:
        return
    of_type = use.gpu_millis_by_type.get(gpu_type, 0)
    if not may.cohort:  # else `_check_cohort` does
        _check_limit(job, "gpus", asks.gpu_millis, use.gpu_millis, may.max_gpu_millis)
    _check_limit(job, gpu_type, asks.gpu_millis, of_type, may.max_of_type(gpu_type))
    _check_limit(job, "gpu memory", asks.gpu_mem_mib, use.gpu_mem_mib, may.max_gpu_mem_mib)
    _check_limit(job, "tenant cores", asks.cpu_millis, use.cpu_millis, may.max_cpu_millis)
    _check_limit(job, "tenant memory", asks.mem_mib, use.mem_mib, may.max_mem_mib)
    _check_limit(job, "jobs", 1, use.jobs, may.max_running_jobs)


def _check_cohort(ledger: Ledger, use: TenantUse, job: Job) -> None:
    """Within its guaranteed part, or within what it may borrow and what the cohort can lend."""
    may, members = use.tenant, []
    for other in ledger.tenants.values():
        whole, lends = other.tenant.max_gpu_millis, other.tenant.lend_millis
        if other.tenant.cohort == may.cohort and other.tenant.enforce_quota and whole is not None:
            members.append((other, whole if lends is None else min(lends, whole), whole))
    if not may.cohort or not may.enforce_quota or may.max_gpu_millis is None:
        return
    own_lends = next(lends for other, lends, _ in members if other is use)
    if use.gpu_millis <= may.max_gpu_millis - own_lends:
        return
    if may.borrow_millis is not None:
        most = may.max_gpu_millis + may.borrow_millis
        _check_limit(job, "gpus", job.request.gpu_millis, use.gpu_millis, most)
    pool = sum(lends for _, lends, _ in members)
    taken = sum(max(0, other.gpu_millis - whole + lends) for other, lends, whole in members)
    _require(taken <= pool, "job {} makes {} of {} lent in {}", job.job_id, taken, pool, may.cohort)


def _check_queue(use: QueueUse | None, job: Job) -> None:
    if use is not None:
        _require(use.queue.enabled, "job {} starts from disabled queue {}", job.job_id, job.queue)
        _check_limit(job, "jobs of its queue", 1, use.running, use.queue.max_running_jobs)


def _check_limit(job: Job, what: str, asked: int, used: int, limit: int | None) -> None:
    # A limit may have been lowered under jobs that run; who asks for nothing adds nothing to that.
    within = limit is None or not asked or used <= limit
    _require(within, "job {} makes {} {} of {}", job.job_id, used, what, limit)
