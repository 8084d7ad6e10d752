"""Why a job waits, found by the code that decides."""

from dataclasses import dataclass

from gpu_scheduler.core.heat import Heat
from gpu_scheduler.core.job import JobClass, Request
from gpu_scheduler.core.ledger import Ledger, NodeUse
from gpu_scheduler.core.node import Gpu
from gpu_scheduler.core.reasons import Reason, ReasonCode, reason
from gpu_scheduler.core.stages.admit import over_type_quota, refuse
from gpu_scheduler.core.stages.place import (
    could_ever_hold,
    eligible,
    gpus_touched,
    pick_shares,
    place,
)
from gpu_scheduler.core.state import Entry, State
from gpu_scheduler.core.units import GPU


def explain(state: State, entry: Entry) -> Reason:
    """The one reason that counts for a pending job, on the state as it is."""
    return own_reason(state, entry) or explain_class(state.ledger, entry.queue.job_class)


def own_reason(state: State, entry: Entry) -> Reason | None:
    """What keeps this job out of the queue, apart from its class."""
    progress, job = entry.progress, entry.job
    doom = state.doom_of(job.job_id)
    if doom is not None:
        return reason(ReasonCode.DEPENDENCY_FAILED, cause=doom)
    if progress.held:
        return reason(ReasonCode.HELD)
    if entry.unmet:
        named = dict.fromkeys(dependency.job_id for dependency in job.after)
        others = [job_id for job_id in named if state.entry(job_id) is not None]
        return reason(ReasonCode.DEPENDENCY, jobs=", ".join(others))
    if progress.eligible_at > state.now:
        return reason(
            ReasonCode.BACKING_OFF, until=progress.eligible_at, cause=progress.cause or ""
        )
    return None


def explain_class(books: Ledger, job_class: JobClass) -> Reason:
    refused = refuse(books, job_class)
    if refused is not None:
        return refused
    if place(books, job_class) is not None:
        return reason(ReasonCode.NEXT_CYCLE)
    uses = [books.node(node_id) for node_id in books.node_ids()]
    if not uses:
        return reason(ReasonCode.NO_NODE)
    able = [use for use in uses if could_ever_hold(use.node, job_class)]
    if not able:
        return never_reason(uses, job_class)
    return _busy_reason(books, able, job_class)


def never_reason(uses: list[NodeUse], job_class: JobClass) -> Reason:
    """Why no node could hold this class even if it were empty."""
    request = job_class.request
    wanted = request.gpu_type
    types = sorted({gpu.gpu_type for use in uses for gpu in use.node.gpus})
    if wanted is not None and wanted not in types:
        return reason(ReasonCode.NO_SUCH_GPU, gpu_type=wanted, types=", ".join(types))
    largest = max((_most_gpus(use, job_class) for use in uses), default=0)
    if largest < gpus_touched(request):
        return reason(
            ReasonCode.TOO_LARGE,
            resource="gpus",
            requested=request.gpu_millis,
            largest=largest * GPU,
            gpu_type=wanted or "",
            gpu_mem_mib=request.gpu_mem_mib,
        )
    # Only nodes with the GPUs count from here: the cores of another machine are no help.
    uses = [use for use in uses if _most_gpus(use, job_class) >= gpus_touched(request)]
    cpu = max(use.node.cpu_millis for use in uses)
    if cpu < request.cpu_millis:
        return reason(
            ReasonCode.TOO_LARGE, resource="cpu_millis", requested=request.cpu_millis, largest=cpu
        )
    memory = max(use.node.mem_mib for use in uses if use.node.cpu_millis >= request.cpu_millis)
    return reason(
        ReasonCode.TOO_LARGE, resource="memory_mib", requested=request.mem_mib, largest=memory
    )


def _most_gpus(use: NodeUse, job_class: JobClass) -> int:
    return max((len(gpus) for gpus in eligible(use.node, job_class).values()), default=0)


@dataclass(frozen=True, slots=True)
class _Spot:
    """The GPUs of one type on one node, enough of them for the request if all were free."""

    use: NodeUse
    gpu_type: str
    gpus: list[Gpu]

    def free(self) -> list[tuple[Gpu, int]]:
        return [(gpu, self.use.free_millis(gpu)) for gpu in self.gpus]

    def nearness(self, request: Request) -> tuple[bool, int, str, str]:
        free = self.free()
        holds = pick_shares(free, request.gpu_millis) is not None
        return (holds, sum(millis for _, millis in free), self.use.node.node_id, self.gpu_type)


def _busy_reason(books: Ledger, able: list[NodeUse], job_class: JobClass) -> Reason:
    """What is scarce where the job comes nearest to starting: GPUs first, then CPU, then memory."""
    request = job_class.request
    tenant_use = books.tenant(job_class.tenant_id)
    spots = [
        _Spot(use, gpu_type, gpus)
        for use in able
        for gpu_type, gpus in eligible(use.node, job_class).items()
        if len(gpus) >= gpus_touched(request)
    ]
    spots.sort(key=lambda spot: spot.nearness(request), reverse=True)
    over = [over_type_quota(tenant_use, spot.gpu_type, request.gpu_millis) for spot in spots]
    for spot, over_quota in zip(spots, over, strict=True):
        if over_quota is None:
            return _scarcest(spot, request)
    assert over[0] is not None  # an open request, and the quota of every type is used up
    return over[0]


def _scarcest(spot: _Spot, request: Request) -> Reason:
    use, free = spot.use, spot.free()
    if pick_shares(free, request.gpu_millis) is None:
        return reason(
            ReasonCode.GPUS_BUSY,
            requested=request.gpu_millis,
            gpu_type=request.gpu_type or "",
            total=len(free) * GPU,
            free=sum(millis for _, millis in free),
            empty=sum(millis == GPU for _, millis in free),
            paused=sum(gpu.paused is not None for gpu in spot.gpus),
            hot=sum(gpu.heat is Heat.HOT for gpu in spot.gpus),
            problem=sum(gpu.problem is not None for gpu in spot.gpus),
            node=use.node.node_id,
        )
    free_cpu = use.node.cpu_millis - use.cpu_millis
    if request.cpu_millis and free_cpu < request.cpu_millis:
        return reason(
            ReasonCode.CPU_BUSY,
            requested=request.cpu_millis,
            free=free_cpu,
            total=use.node.cpu_millis,
            node=use.node.node_id,
        )
    free_mem = use.node.mem_mib - use.mem_mib
    return reason(
        ReasonCode.MEMORY_BUSY,
        requested=request.mem_mib,
        free=free_mem,
        total=use.node.mem_mib,
        node=use.node.node_id,
    )
