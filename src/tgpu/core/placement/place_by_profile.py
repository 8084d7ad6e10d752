"""Placement of a job with one worker by the learnt request profile; see docs/adr/0017."""

from collections.abc import Callable, Iterable

from tgpu.core.admission.admit import over_type_quota
from tgpu.core.capacity.ledger import Ledger, NodeUse, TenantUse
from tgpu.core.capacity.node_index import Indexes
from tgpu.core.capacity.packing import Picks, Score
from tgpu.core.capacity.profile_index import Need, ProfileIndex
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import ANYWHERE, Request
from tgpu.core.model.node import Placement, Share
from tgpu.core.model.request_profile import CPU_STEP

_Found = tuple[Score, NodeId, str, tuple[Share, ...]]


def goes_by_profile(request: Request) -> bool:
    """One worker that asks for GPUs, their types, cores and memory and for nothing else."""
    where = request.where
    return (
        request.workers == 1
        and not request.gpu_mem_mib
        and (
            where is ANYWHERE
            or not (
                where.gpu_mem_each_mib
                or where.gpus
                or where.not_gpus
                or where.nodes
                or where.not_nodes
                or where.labels
                or where.exclusive
                or where.same_island
                or where.spread
            )
        )
    )


def place_by_profile(
    ledger: Ledger,
    index: ProfileIndex,
    request: Request,
    tenant_use: TenantUse,
    view: Callable[[NodeUse], NodeUse] | None,
) -> Placement | None:
    """The best placement by the profile of the index, or None where there is no room now."""
    listed, wanted = request.where.gpu_types, request.gpu_type
    types: Iterable[str] = listed or index.types()
    if wanted is not None:
        types = (wanted,) if not listed or wanted in listed else ()
    best: _Found | None = None
    for gpu_type in types:
        if over_type_quota(tenant_use, gpu_type, request.gpu_millis):
            continue
        found = _best_of(ledger, index, request, gpu_type, view)
        if found is not None and (best is None or found[:3] < best[:3]):
            best = found
            if listed:
                break
    return None if best is None else Placement(best[1], best[2], best[3])


def _best_of(
    ledger: Ledger,
    index: ProfileIndex,
    request: Request,
    gpu_type: str,
    view: Callable[[NodeUse], NodeUse] | None,
) -> _Found | None:
    cpu_millis, mem_mib = request.cpu_millis, request.mem_mib
    need = Need(request.gpu_millis, -(-cpu_millis // CPU_STEP))
    for score, node_id, picks in index.nodes(gpu_type, need):
        use = ledger.nodes[node_id]
        seen = use if view is None else view(use)
        if cpu_millis and seen.node.cpu_millis - seen.cpu_millis < cpu_millis:
            continue
        if mem_mib and seen.node.mem_mib - seen.mem_mib < mem_mib:
            continue
        there: tuple[Picks, Indexes] | None = (picks, index.indexes(node_id, gpu_type))
        if seen is not use:
            there = None if seen.closed_by else index.fit_on(seen, gpu_type, need)
        if there is not None:
            return score, node_id, gpu_type, shares_of(*there)
    return None


def shares_of(picks: Picks, indexes: Indexes) -> tuple[Share, ...]:
    if len(picks) == 1:
        position, millis = picks[0]
        return (Share(indexes[position], millis),)
    chosen = sorted([(indexes[position], millis) for position, millis in picks])
    return tuple([Share(index, millis) for index, millis in chosen])
