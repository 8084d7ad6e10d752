"""The blockers of a waiting job, by id: jobs on the GPUs it waits for, or that use its quota."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from tgpu.core.admission.cohort import borrowed
from tgpu.core.capacity.ledger import Holding, Trial
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import JobClass, class_of
from tgpu.core.model.node import GpuName, Placement
from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.placement.place import eligible, workers_that_fit
from tgpu.core.reservations.reserve import opening
from tgpu.core.reservations.reserved_capacity import FAR, ReservedCapacity
from tgpu.core.state.cluster_state import Entry, State, latest_end

ROOM: Final = frozenset(
    {
        ReasonCode.GPUS_BUSY,
        ReasonCode.CPU_BUSY,
        ReasonCode.MEMORY_BUSY,
        ReasonCode.NOT_ALONE,
    }
)


class Blocker(NamedTuple):
    """A job that has, or will have, what another waits for."""

    job_id: JobId
    tenant_id: TenantId
    user: str
    gpu_millis: int
    node_id: NodeId | None = None  # where it is in the way
    gpus: tuple[int, ...] = ()  # its GPUs there
    ends_by: int | None = None  # at the latest; None: nobody knows
    held: tuple[GpuName, ...] = ()  # all its GPUs, also those on other nodes


def in_the_way(
    trial: Trial, holds: ReservedCapacity, job_class: JobClass, now: int, found: Reason
) -> list[Blocker]:
    """Those whose end would make room where the job comes nearest to starting, and no more than
    it takes: who ends first, first. A gang looks for the instant at which all its workers fit."""
    if found.code not in ROOM:
        return []
    node_id = NodeId(str(found.fact("node")))
    if node_id in trial.ledger.nodes:
        return _sorted(_on_node(trial, holds, job_class, node_id))
    first = opening(trial, holds, job_class, now, patient=True)
    return [] if first is None else _sorted(_on(trial, first.placement, job_class, found))


def _on_node(
    trial: Trial, holds: ReservedCapacity, job_class: JobClass, node_id: NodeId
) -> list[Blocker]:
    use = trial.ledger.node(node_id)
    types = sorted(eligible(use.node, job_class))
    on_it = sorted(use.holdings.values(), key=_by_end)

    def fits_without(gone: list[Holding]) -> bool:
        mark = trial.mark()
        for holding in gone:
            trial.give(holding.job, holding.placement)
        view = holds.view(job_class) if job_class.booking is not None else None
        seen = use if view is None else view(use)
        most = max((workers_that_fit(seen, job_class, gpu_type) for gpu_type in types), default=0)
        trial.undo(mark)
        return most >= job_class.request.workers

    # GPUs may be paused, hot or out of order besides: then everybody's end is not enough.
    enough = next((n for n in range(1, len(on_it) + 1) if fits_without(on_it[:n])), len(on_it))
    needed = on_it[:enough]
    for holding in list(needed):
        rest = [one for one in needed if one is not holding]
        if rest and fits_without(rest):
            needed = rest
    return [_of(holding, node_id) for holding in needed]


def _by_end(holding: Holding) -> tuple[int, JobId]:
    return (FAR if holding.until is None else holding.until, holding.job.job_id)


def _on(
    trial: Trial, placement: Placement, job_class: JobClass, found: Reason
) -> Iterable[Blocker]:
    """On the GPUs of the place; where cores or memory are short, or it wants to be alone, on the
    whole node."""
    whole_node = found.code is not ReasonCode.GPUS_BUSY or job_class.request.where.exclusive
    seen: set[JobId] = set()
    for part in placement.parts():
        wanted = {share.gpu_index for share in part.shares}
        for job_id, holding in trial.ledger.node(part.node_id).holdings.items():
            blocker = _of(holding, part.node_id)
            if job_id not in seen and (whole_node or wanted.intersection(blocker.gpus)):
                seen.add(job_id)
                yield blocker


def _of(holding: Holding, node_id: NodeId) -> Blocker:
    job = holding.job
    parts = [part for part in holding.placement.parts() if part.node_id == node_id]
    gpus = sorted({share.gpu_index for part in parts for share in part.shares})
    return Blocker(
        job.job_id,
        job.tenant_id,
        job.options.user,
        job.request.gpu_millis,
        node_id,
        tuple(gpus),
        holding.until,
        holding.placement.gpus(),
    )


def by_reason(state: State, entry: Entry, found: Reason) -> list[Blocker]:
    """Those that the reason is about, where it is not room that is short."""
    facts = dict(found.facts)
    names = str(facts.get("jobs") or facts.get("job") or "")
    if found.code is not ReasonCode.DEPENDENCY_FAILED and names:
        entries = [state.entry(JobId(name)) for name in names.split(", ")]
        return _sorted(_entry(one) for one in entries if one is not None)
    return _sorted(_entry(one) for one in _with_its_quota(state, entry, found))


def _with_its_quota(state: State, entry: Entry, found: Reason) -> list[Entry]:
    job, ledger = entry.job, state.ledger
    tenant = ledger.tenant(job.tenant_id).tenant
    match found.code:
        case ReasonCode.SERVICE_CAP:
            return state.placed()
        case ReasonCode.ARRAY_CAP:
            mine = (job.tenant_id, class_of(job).array_id)  # another tenant's may have its name
            return [
                e for e in state.placed() if (e.job.tenant_id, class_of(e.job).array_id) == mine
            ]
        case ReasonCode.QUEUE_CAP:
            mine = (job.tenant_id, job.queue)
            return [one for one in state.placed() if (one.job.tenant_id, one.job.queue) == mine]
        case ReasonCode.TENANT_QUOTA | ReasonCode.BORROW_LIMIT | ReasonCode.USER_LIMIT:
            _, _, gpu_type = str(dict(found.facts).get("resource", "")).partition(":")
            of_user = found.code is ReasonCode.USER_LIMIT
            return [
                one
                for one in state.placed()
                if one.job.tenant_id == job.tenant_id
                and gpu_type in ("", _type(one))
                and (not of_user or one.job.options.user == job.options.user)
            ]
        case ReasonCode.COHORT_QUOTA | ReasonCode.QUOTA_LENT:
            members = set(ledger.cohorts.get(tenant.cohort, ()))
            if found.code is ReasonCode.QUOTA_LENT:
                members = {one for one in members if borrowed(ledger, one)}
            return [one for one in state.placed() if one.job.tenant_id in members]
    return []


def _type(entry: Entry) -> str:
    placement = entry.progress.placement
    return "" if placement is None else placement.gpu_type


def _entry(entry: Entry) -> Blocker:
    job, placement = entry.job, entry.progress.placement
    if placement is None:
        return Blocker(job.job_id, job.tenant_id, job.options.user, job.request.gpu_millis)
    return _of(Holding(job, placement, latest_end(entry)), placement.node_id)


def _sorted(found: Iterable[Blocker]) -> list[Blocker]:
    """Who ends first, first."""
    return sorted(found, key=lambda one: (FAR if one.ends_by is None else one.ends_by, one.job_id))
