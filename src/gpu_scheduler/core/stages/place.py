"""Where a job can go: GPUs of one type on one node, all or nothing.

Best fit: shares go onto the fullest GPU that still holds them, whole GPUs come from the smallest
NVLink island that has enough, so that large blocks stay whole for large jobs.
"""

from dataclasses import dataclass

from gpu_scheduler.core.job import JobClass, Request
from gpu_scheduler.core.ledger import Ledger, NodeUse
from gpu_scheduler.core.node import Gpu, Node, Placement, Share
from gpu_scheduler.core.stages.admit import over_type_quota
from gpu_scheduler.core.units import GPU


@dataclass(frozen=True, slots=True)
class _Choice:
    """A placement and how much room its type had left on its node: less is better."""

    room: int
    placement: Placement


def place(books: Ledger, job_class: JobClass) -> Placement | None:
    """The best placement, or None where no node has room now."""
    tenant_use = books.tenant(job_class.tenant_id)
    best: tuple[tuple[int, str, str], Placement] | None = None
    for node_id in books.node_ids():
        for choice in _choices(books.node(node_id), job_class):
            gpu_type = choice.placement.gpu_type
            if over_type_quota(tenant_use, gpu_type, job_class.request.gpu_millis):
                continue
            rank = (choice.room, node_id, gpu_type)
            if best is None or rank < best[0]:
                best = (rank, choice.placement)
    return None if best is None else best[1]


def eligible(node: Node, job_class: JobClass) -> dict[str, list[Gpu]]:
    """The node's GPUs that could serve this class, free or not, by type."""
    request = job_class.request
    each = memory_each(request)
    found: dict[str, list[Gpu]] = {}
    for gpu in node.gpus:
        if request.gpu_type is not None and gpu.gpu_type != request.gpu_type:
            continue
        if gpu.mem_mib < each:
            continue
        if request.where.gpus and gpu.index not in request.where.gpus:
            continue
        found.setdefault(gpu.gpu_type, []).append(gpu)
    return found


def could_ever_hold(node: Node, job_class: JobClass) -> bool:
    """Whether the node, all of it free and well, would do."""
    request = job_class.request
    gpus = max((len(gpus) for gpus in eligible(node, job_class).values()), default=0)
    return (
        gpus >= gpus_touched(request)
        and node.cpu_millis >= request.cpu_millis
        and node.mem_mib >= request.mem_mib
    )


def gpus_touched(request: Request) -> int:
    """How many GPUs a request lies on: 1.5 is one whole and half of another."""
    return -(-request.gpu_millis // GPU)


def memory_each(request: Request) -> int:
    """The memory each GPU must have: a request counts it over all its GPUs together."""
    return -(-request.gpu_mem_mib * GPU // request.gpu_millis) if request.gpu_mem_mib else 0


def _choices(use: NodeUse, job_class: JobClass) -> list[_Choice]:
    request, node = job_class.request, use.node
    # A node may have lost cores under jobs that run; who asks for none is not in the way of that.
    if request.cpu_millis and node.cpu_millis - use.cpu_millis < request.cpu_millis:
        return []
    if request.mem_mib and node.mem_mib - use.mem_mib < request.mem_mib:
        return []
    choices = []
    for gpu_type, gpus in eligible(node, job_class).items():
        free = [(gpu, use.free_millis(gpu)) for gpu in gpus]
        room = sum(millis for _, millis in free)
        if room < request.gpu_millis:
            continue
        shares = pick_shares(free, request.gpu_millis)
        if shares is not None:
            choices.append(_Choice(room, Placement(node.node_id, gpu_type, shares)))
    return choices


def pick_shares(free: list[tuple[Gpu, int]], gpu_millis: int) -> tuple[Share, ...] | None:
    """Which of these GPUs of one type, each with what is free of it; None where it cannot be."""
    whole, rest = divmod(gpu_millis, GPU)
    empty = [gpu for gpu, millis in free if millis == GPU]
    if len(empty) < whole:
        return None
    chosen = _pick_whole(empty, whole)
    shares = [Share(gpu.index, GPU) for gpu in chosen]
    if rest:
        taken = {gpu.index for gpu in chosen}
        # The fullest GPU that still has room; of equals the coolest, then the lowest index.
        partial = min(
            (
                (millis, gpu.heat, gpu.index)
                for gpu, millis in free
                if millis >= rest and gpu.index not in taken
            ),
            default=None,
        )
        if partial is None:
            return None
        shares.append(Share(partial[2], rest))
    return tuple(sorted(shares, key=lambda share: share.gpu_index))


def _pick_whole(empty: list[Gpu], count: int) -> list[Gpu]:
    """From the smallest island that has enough; else from the largest islands down.

    Inside an island the coolest first.
    """
    if not count:
        return []
    islands: dict[int, list[Gpu]] = {}
    for gpu in sorted(empty, key=lambda gpu: (gpu.heat, gpu.index)):
        # A GPU without links is an island of its own; ~index keeps it apart from group numbers.
        key = ~gpu.index if gpu.nvlink_group is None else gpu.nvlink_group
        islands.setdefault(key, []).append(gpu)
    by_size = sorted(islands.values(), key=lambda gpus: (len(gpus), gpus[0].heat, gpus[0].index))
    for gpus in by_size:
        if len(gpus) >= count:
            return gpus[:count]
    largest_first = sorted(by_size, key=lambda gpus: -len(gpus))
    return [gpu for gpus in largest_first for gpu in gpus][:count]
