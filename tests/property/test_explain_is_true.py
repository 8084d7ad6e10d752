"""What `explain` names is the cause: take it away and, cause by cause, the job starts."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_copy, a_gpu, a_node, end_anyhow, entry_of, explain, hold, started
from tests.property.world import a_lived_in_world
from tgpu.core.admission.cohort import borrowed
from tgpu.core.cycle import schedule
from tgpu.core.model.events import BookingRemoved, NodeSet, QueueSet, TenantSet, TimePassed
from tgpu.core.model.heat import Heat
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import Where, class_of
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.node import GpuName
from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.model.tenant import NO_USER_LIMITS, Tenant
from tgpu.core.placement.place import could_ever_hold
from tgpu.core.policies import order_policy
from tgpu.core.state.cluster_state import Entry, State

# Removing one cause may show the next; there are fewer kinds of cause than this.
MOST_CAUSES = 25


@given(seed=st.integers(0, 2**32))
@settings(max_examples=100)
def test_a_job_starts_once_every_named_cause_is_removed(seed: int) -> None:
    world = a_lived_in_world(Random(seed), steps=30)
    world.submit(Random(seed))
    for job_id in world.facts.ids(JobState.PENDING)[:4]:
        _peel(a_copy(world.state), job_id)


def _peel(state: State, job_id: str) -> None:
    """Remove the named cause until none is left; no cause may be named again once removed."""
    named: list[Reason] = []
    while len(named) < MOST_CAUSES:
        entry = entry_of(state, job_id)
        found = explain(state, entry)
        assert found not in named, f"{found} was removed and is named again"
        named.append(found)
        if found.code is ReasonCode.NEXT_CYCLE:
            _assert_starts_when_alone(state, job_id)
            return
        if found.code is ReasonCode.DEPENDENCY_FAILED:
            plan = schedule(state, state.now, order_policy("priority", 1))
            assert (job_id, found.fact("cause")) in plan.unsatisfiable
            return
        if not remove_cause(state, entry, found):
            return
    raise AssertionError(f"no end of causes: {named}")


def _assert_starts_when_alone(state: State, job_id: str) -> None:
    for other in [e.job.job_id for e in state.entries()]:
        progress = entry_of(state, other).progress
        if other != job_id and progress.state is JobState.PENDING and not progress.held:
            hold(state, other)
    plan = schedule(state, -(10**9), order_policy("priority", 1))  # before any lease is up
    assert started(plan) == [job_id]


def remove_cause(state: State, entry: Entry, found: Reason) -> bool:
    """Do what takes this cause away; False where nothing would."""
    job = entry.job
    facts = dict(found.facts)
    match found.code:
        case ReasonCode.HELD:
            hold(state, job.job_id, held=False)
        case ReasonCode.DEPENDENCY:
            for other in str(facts["jobs"]).split(", "):
                end_anyhow(state, other)
        case ReasonCode.BACKING_OFF:
            state.apply(TimePassed(int(facts["until"])))
        case ReasonCode.ARRAY_CAP:
            elements = [
                e.job.job_id
                for e in state.placed()
                if class_of(e.job).array_id == class_of(job).array_id  # of capped arrays only
                and e.job.tenant_id == job.tenant_id  # another's may have the same name
            ]
            for other in elements[: int(facts["running"]) - int(facts["limit"]) + 1]:
                end_anyhow(state, other)
        case ReasonCode.TENANT_QUOTA:
            assert int(facts["current"]) + int(facts["requested"]) > int(facts["limit"])
            _raise_quota(state, entry, found)
        case ReasonCode.QUOTA_LENT | ReasonCode.BORROW_LIMIT | ReasonCode.COHORT_QUOTA:
            _make_the_cohort_lend(state, entry, found)
        case ReasonCode.USER_LIMIT:
            assert int(facts["current"]) + int(facts["requested"]) > int(facts["limit"])
            tenant = state.ledger.tenant(job.tenant_id).tenant
            lifted = replace(tenant, user_limits=NO_USER_LIMITS, limits_by_user=())
            state.apply(TenantSet(0, lifted))
        case ReasonCode.TENANT_INACTIVE:
            tenant = state.ledger.tenant(job.tenant_id).tenant
            state.apply(TenantSet(0, replace(tenant, active=True)))
        case ReasonCode.QUEUE_DISABLED | ReasonCode.QUEUE_CAP:
            _open_the_queue(state, entry, found)
        case ReasonCode.NO_NODE:
            state.apply(NodeSet(0, a_node("new")))
        case ReasonCode.NO_SUCH_GPU | ReasonCode.TOO_LARGE:
            return _add_a_larger_node(state, entry, found)
        case ReasonCode.CONDITION:
            _check_condition(state, entry, found)
            return False  # a job cannot be changed, and no machine can be made to suit it
        case ReasonCode.GPUS_BUSY | ReasonCode.NOT_ALONE:
            _free_the_nodes(state, str(facts["node"]))
        case ReasonCode.CPU_BUSY | ReasonCode.MEMORY_BUSY if not facts["node"]:
            _free_the_nodes(state, "")
        case ReasonCode.CPU_BUSY | ReasonCode.MEMORY_BUSY:
            use = state.ledger.node(NodeId(str(facts["node"])))
            missing = int(facts["requested"]) - int(facts["free"])
            assert missing > 0
            is_cpu = found.code is ReasonCode.CPU_BUSY
            cpu, memory = (missing, 0) if is_cpu else (0, missing)
            larger = replace(
                use.node,
                cpu_millis=use.node.cpu_millis + cpu,
                mem_mib=use.node.mem_mib + memory,
            )
            state.apply(NodeSet(0, larger))
        case ReasonCode.BUDGET:
            tenant = state.ledger.tenant(job.tenant_id).tenant
            state.apply(TenantSet(0, replace(tenant, budget=None)))
        case ReasonCode.BOOKED:
            state.apply(BookingRemoved(0, str(facts["booking"]), "no longer needed"))
        case ReasonCode.BOOKING_AHEAD:
            state.apply(TimePassed(int(facts["at"])))
        case ReasonCode.PROMISED:
            for other in str(facts["jobs"]).split(", "):
                end_anyhow(state, other)
        case ReasonCode.BEHIND_RESERVATION | ReasonCode.PLACE_KEPT | ReasonCode.STRICT_LINE:
            end_anyhow(state, str(facts["job"]), JobState.CANCELLED)
        case _:
            raise AssertionError(f"no way to remove {found}")
    return True


def _open_the_queue(state: State, entry: Entry, found: Reason) -> None:
    use = state.ledger.queue(entry.job.tenant_id, entry.job.queue)
    assert use is not None
    if found.code is ReasonCode.QUEUE_DISABLED:
        state.apply(QueueSet(0, replace(use.queue, enabled=True)))
        return
    running, limit = int(found.fact("running")), int(found.fact("limit"))
    assert running >= limit
    state.apply(QueueSet(0, replace(use.queue, max_running_jobs=running + 1)))


def _make_the_cohort_lend(state: State, entry: Entry, found: Reason) -> None:
    """Take back what others borrowed, raise the borrowing limit, or raise the quota itself."""
    tenant = state.ledger.tenant(entry.job.tenant_id).tenant
    after = int(found.fact("current")) + int(found.fact("requested"))
    nominal = int(found.fact("nominal"))
    if found.code is ReasonCode.QUOTA_LENT:
        assert after <= nominal
        assert int(found.fact("lent")) > 0
        for other in state.placed():
            if borrowed(state.ledger, other.job.tenant_id):
                end_anyhow(state, other.job.job_id)
    elif found.code is ReasonCode.BORROW_LIMIT:
        assert after > nominal + int(found.fact("borrow"))
        state.apply(TenantSet(0, replace(tenant, borrow_millis=after - nominal)))
    else:
        assert after > nominal
        state.apply(TenantSet(0, replace(tenant, max_gpu_millis=after)))


def _raise_quota(state: State, entry: Entry, found: Reason) -> None:
    tenant = state.ledger.tenant(entry.job.tenant_id).tenant
    enough = int(found.fact("current")) + int(found.fact("requested"))
    resource = str(found.fact("resource"))
    state.apply(TenantSet(0, _with_limit(tenant, resource, enough)))


def _with_limit(tenant: Tenant, resource: str, limit: int) -> Tenant:
    kind, _, gpu_type = resource.partition(":")
    if gpu_type:
        by_type = {**dict(tenant.max_gpu_millis_by_type), gpu_type: limit}
        return replace(tenant, max_gpu_millis_by_type=tuple(by_type.items()))
    match kind:
        case "gpus":
            return replace(tenant, max_gpu_millis=limit)
        case "gpu_memory_mib":
            return replace(tenant, max_gpu_mem_mib=limit)
        case "cpu_millis":
            return replace(tenant, max_cpu_millis=limit)
        case "memory_mib":
            return replace(tenant, max_mem_mib=limit)
        case "jobs":
            return replace(tenant, max_running_jobs=limit)
    raise AssertionError(f"no limit for {resource}")


def _check_condition(state: State, entry: Entry, found: Reason) -> None:
    """Without it, the nodes could hold the job."""
    request, field = entry.job.request, str(found.fact("field"))
    without = replace(request.where, **{field: getattr(Where(), field)})
    job_class = class_of(replace(entry.job, request=replace(request, where=without)))
    nodes = [use.node for use in state.ledger.nodes.values()]
    assert could_ever_hold(nodes, job_class)
    assert not could_ever_hold(nodes, class_of(entry.job))


def _free_the_nodes(state: State, node: str) -> None:
    """One of them, or all where a gang waits."""
    for node_id in [NodeId(node)] if node else list(state.ledger.nodes):
        _free_the_node(state, node_id)


def _free_the_node(state: State, node_id: NodeId) -> None:
    for entry in state.placed():
        placement = entry.progress.placement
        on = () if placement is None else placement.parts()
        if any(part.node_id == node_id for part in on):
            end_anyhow(state, entry.job.job_id)
    node = state.ledger.node(node_id).node
    gpus = tuple(
        replace(gpu, paused=None, problem=None, foreign=None, heat=Heat.COOL) for gpu in node.gpus
    )
    state.apply(NodeSet(0, replace(node, gpus=gpus)))


def _add_a_larger_node(state: State, entry: Entry, found: Reason) -> bool:
    request, where = entry.job.request, entry.job.request.where
    names_nodes = where.nodes or any(isinstance(gpu, GpuName) for gpu in where.gpus)
    if names_nodes or where.not_gpus or len(where.gpus or range(8)) * 1000 < request.gpu_millis:
        return False  # its own list of nodes or GPUs is too short
    resource = dict(found.facts).get("resource")
    if request.workers == 1 and resource in ("cpu_millis", "memory_mib"):
        requested, largest = int(found.fact("requested")), int(found.fact("largest"))
        assert requested > largest
        for use in list(state.ledger.nodes.values()):
            node = use.node
            if resource == "cpu_millis":
                larger = replace(node, cpu_millis=max(node.cpu_millis, requested))
            else:
                larger = replace(node, mem_mib=max(node.mem_mib, requested))
            state.apply(NodeSet(0, larger))
        return True
    for number in range(request.workers):
        gpu_type = request.gpu_type or "A100"
        gpus = [a_gpu(i, gpu_type, mem_mib=10**7, nvlink_group=0) for i in range(8)]
        state.apply(NodeSet(0, a_node(f"larger{number}", gpus)))
    return True
