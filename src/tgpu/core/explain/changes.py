"""The smallest change that would start a waiting job, found by trying changes with the cycle.

Cheapest is what takes least away, in this order: another queue; a time limit, as long as it can
be; another type of GPU; one condition less; no booking; less memory and fewer cores; fewer
workers; fewer GPUs. Of each kind the one that takes least comes first.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from tgpu.core.admission.admit import refuse
from tgpu.core.capacity.ledger import Ledger
from tgpu.core.explain.answer import Decide, Why
from tgpu.core.explain.what_if import instead
from tgpu.core.model.job import ANYWHERE, Job, Request, class_of
from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.model.units import CPU, GPU, SECOND
from tgpu.core.placement.place import memory_each, place
from tgpu.core.state.cluster_state import Entry, State

MOST_CHANGES: Final = 40
# Most changes are ruled out by a look at the ledger; these many are worth a whole cycle.
MOST_CYCLES: Final = 12

# Nothing that its owner could ask for otherwise keeps these from starting.
_NO_HELP: Final = frozenset(
    {
        ReasonCode.HELD,
        ReasonCode.DEPENDENCY,
        ReasonCode.DEPENDENCY_FAILED,
        ReasonCode.BACKING_OFF,
        ReasonCode.SERVICE_CAP,
        ReasonCode.ARRAY_CAP,
        ReasonCode.TENANT_INACTIVE,
        ReasonCode.BUDGET,
        ReasonCode.QUOTA_PROVIDER,
        ReasonCode.NO_NODE,
        ReasonCode.PROMISED,
        ReasonCode.NOT_CHOSEN,
        ReasonCode.NEXT_CYCLE,
    }
)


class ChangeKind(StrEnum):
    QUEUE = "queue"
    TIME_LIMIT = "time_limit"
    GPU_TYPE = "gpu_type"
    CONDITION = "condition"
    BOOKING = "booking"
    MEMORY = "memory"
    GPU_MEMORY = "gpu_memory"
    CPU = "cpu"
    WORKERS = "workers"
    GPUS = "gpus"


class RequestChange(NamedTuple):
    kind: ChangeKind
    job: Job  # as it would be
    name: str = ""  # of the condition that is left out


def cheapest_change(
    state: State, entry: Entry, why: Why, now: int, decide: Decide
) -> RequestChange | None:
    """None where no single change would do."""
    return next((change for change in tries(state, entry, why, now, decide) if change), None)


def tries(
    state: State, entry: Entry, why: Why, now: int, decide: Decide
) -> Iterator[RequestChange | None]:
    """A change that starts the job, and then no more; None after each whole cycle that did not.

    Between two of them the state may change: then the search ends.
    """
    progress, cycles = entry.progress, 0
    for change in islice(changes(state.ledger, entry.job, why, now), MOST_CHANGES):
        if state.entry(entry.job.job_id) is not entry or entry.progress is not progress:
            return
        if cycles == MOST_CYCLES:
            return
        if not _may_start(state, change.job, now):
            continue
        cycles += 1
        with instead(state, entry, change.job, now) as job_id:
            plan = decide(None)
        if any(start.job_id == job_id for start in plan.starts):
            yield change
            return
        yield None


def _may_start(state: State, job: Job, now: int) -> bool:
    """Whether a cycle is worth it: in it, a job sees no more room than there is."""
    if state.expired_leases(now):
        return True
    job_class = class_of(job)
    if refuse(state.ledger, job_class) is not None:
        return False
    return place(state.ledger, job_class) is not None


def changes(ledger: Ledger, job: Job, why: Why, now: int) -> Iterator[RequestChange]:
    """What could be asked for otherwise, the cheapest first; not tried yet."""
    if why.reason.code in _NO_HELP:
        return
    yield from _other_queues(ledger, job)
    yield from _time_limits(job, why, now)
    yield from _other_types(ledger, job)
    yield from _fewer_conditions(job)
    if job.options.booking is not None:
        yield RequestChange(
            ChangeKind.BOOKING, replace(job, options=replace(job.options, booking=None))
        )
    yield from _less_beside(ledger, job, why.reason)
    yield from _fewer_workers(job)
    yield from _fewer_gpus(job)


def _other_queues(ledger: Ledger, job: Job) -> Iterator[RequestChange]:
    names = sorted(name for tenant_id, name in ledger.queues if tenant_id == job.tenant_id)
    for name in names:
        if name != job.queue:
            yield RequestChange(ChangeKind.QUEUE, replace(job, queue=name))


def _time_limits(job: Job, why: Why, now: int) -> Iterator[RequestChange]:
    """Over before something that is kept for others begins, the latest first."""
    current = job.options.time_limit_ms
    seen: set[int] = set()
    for at in sorted({kept.at for kept in why.kept}, reverse=True):
        limit = short_of(at - now)
        if limit <= 0 or limit in seen or (current is not None and limit >= current):
            continue
        seen.add(limit)
        options = replace(job.options, time_limit_ms=limit)
        yield RequestChange(ChangeKind.TIME_LIMIT, replace(job, options=options))


def short_of(span_ms: int) -> int:
    """Nine tenths, in whole minutes or seconds where it is long: a person needs time to act."""
    span_ms = span_ms * 9 // 10
    for unit, least in ((60 * SECOND, 600 * SECOND), (SECOND, 10 * SECOND)):
        if span_ms >= least:
            return span_ms // unit * unit
    return span_ms


def _other_types(ledger: Ledger, job: Job) -> Iterator[RequestChange]:
    """Those with memory like the wanted one's first, and none smaller before a larger one."""
    request = job.request
    wanted = (request.gpu_type,) if request.gpu_type is not None else request.where.gpu_types
    if not wanted:
        return
    sizes: dict[str, int] = {}
    for node_id in ledger.node_ids():
        for gpu in ledger.node(node_id).node.gpus:
            sizes[gpu.gpu_type] = max(gpu.mem_mib, sizes.get(gpu.gpu_type, 0))
    size = max((sizes.get(name, 0) for name in wanted), default=0)
    others = [(large < size, abs(large - size), name) for name, large in sizes.items()]
    for _, _, name in sorted(others):
        if name not in wanted:
            where = replace(request.where, gpu_types=())
            other = replace(request, gpu_type=name, where=where)
            yield RequestChange(ChangeKind.GPU_TYPE, replace(job, request=other))


# By how much each of them usually matters to the job, least first.
_CONDITIONS: Final = (
    "not_nodes",
    "not_gpus",
    "gpus",
    "nodes",
    "labels",
    "exclusive",
    "same_island",
    "gpu_mem_each_mib",
)


def _fewer_conditions(job: Job) -> Iterator[RequestChange]:
    where = job.request.where
    for name in _CONDITIONS:
        none = getattr(ANYWHERE, name)
        if getattr(where, name) != none:
            without = replace(job.request, where=replace(where, **{name: none}))
            yield RequestChange(ChangeKind.CONDITION, replace(job, request=without), name)


def _less_beside(ledger: Ledger, job: Job, found: Reason) -> Iterator[RequestChange]:
    """Less of what is beside the GPUs, and of their memory: what is left, or else a part of it."""
    request, workers = job.request, job.request.workers
    left = _left(found)
    for amount in _parts(request.mem_mib, left, workers):
        smaller = replace(request, mem_mib=amount)
        yield RequestChange(ChangeKind.MEMORY, replace(job, request=smaller))
    for amount in _gpu_memories(ledger, request, left):
        smaller = replace(request, gpu_mem_mib=amount)
        yield RequestChange(ChangeKind.GPU_MEMORY, replace(job, request=smaller))
    for amount in _parts(request.cpu_millis, left, workers * CPU):
        smaller = replace(request, cpu_millis=amount)
        yield RequestChange(ChangeKind.CPU, replace(job, request=smaller))


def _left(found: Reason) -> int:
    """What the reason says could be had of what is short; 0 where that is not its matter."""
    facts = dict(found.facts)
    if found.code in (ReasonCode.TENANT_QUOTA, ReasonCode.USER_LIMIT):
        return max(0, int(facts["limit"]) - int(facts["current"]))
    if found.code in (ReasonCode.CPU_BUSY, ReasonCode.MEMORY_BUSY):
        return max(0, int(facts["free"]))
    return int(facts["largest"]) if found.code is ReasonCode.TOO_LARGE else 0


def _parts(amount: int, left: int, unit: int) -> list[int]:
    found = {part // unit * unit for part in (left, amount * 3 // 4, amount // 2, amount // 4)}
    return sorted((part for part in found if 0 < part < amount), reverse=True)


def _gpu_memories(ledger: Ledger, request: Request, left: int) -> list[int]:
    if not request.gpu_mem_mib:
        return []
    each = memory_each(request)
    sizes = {
        gpu.mem_mib
        for node_id in ledger.node_ids()
        for gpu in ledger.node(node_id).node.gpus
        if gpu.mem_mib < each
    }
    amounts = {size * request.gpu_millis // GPU for size in sizes} | {left}
    whole = {amount // request.workers * request.workers for amount in amounts}
    return sorted((one for one in whole if 0 < one < request.gpu_mem_mib), reverse=True)


def _fewer_workers(job: Job) -> Iterator[RequestChange]:
    request, workers = job.request, job.request.workers
    for count in smaller_counts(workers):
        fewer = replace(
            request,
            workers=count,
            gpu_millis=request.gpu_millis // workers * count,
            gpu_mem_mib=request.gpu_mem_mib // workers * count,
            cpu_millis=request.cpu_millis // workers * count,
            mem_mib=request.mem_mib // workers * count,
        )
        yield RequestChange(ChangeKind.WORKERS, replace(job, request=fewer))


def _fewer_gpus(job: Job) -> Iterator[RequestChange]:
    """Of each worker; then a part of one GPU. What it needs on each GPU stays."""
    request, workers = job.request, job.request.workers
    millis = request.gpu_millis // workers
    counts = [count * GPU for count in smaller_counts(-(-millis // GPU))]
    for each in counts + [part for part in (GPU // 2, GPU // 4) if part < millis]:
        gpu_mem = request.gpu_mem_mib * each // millis // workers * workers
        fewer = replace(request, gpu_millis=each * workers, gpu_mem_mib=gpu_mem)
        yield RequestChange(ChangeKind.GPUS, replace(job, request=fewer))


def smaller_counts(count: int) -> list[int]:
    """The next four, then by halves."""
    found = list(range(count - 1, max(0, count - 5), -1))
    below = found[-1] if found else 0
    while (below := below // 2) > 0:
        found.append(below)
    return found
