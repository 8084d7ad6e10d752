"""Nominated jobs, for which others are being preempted: they start first, or keep their GPUs
reserved."""

from collections.abc import Collection, Iterable

from tgpu.core.capacity.ledger import Ledger
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.node import Placement
from tgpu.core.model.units import GPU
from tgpu.core.stages.draft import Draft
from tgpu.core.state.cluster_state import Entry


def serve_nominated(draft: Draft) -> None:
    """All that is promised is kept before anybody starts, or one would start on GPUs that are
    being cleared for another."""
    nominated = draft.state.nominated()
    if not nominated:
        return
    leaving = draft.state.leaving()
    draft.count_leaving(leaving)
    awaited = {entry.progress.gives_way_to for entry in leaving}
    for entry in nominated:
        is_refused = entry.queue.job_class in draft.refused_classes
        if not is_refused and not _is_in_vain(draft, entry, awaited):
            draft.keep_nomination(entry.job, _place_of(entry))
    for entry in nominated:
        _serve(draft, entry, awaited)


def _serve(draft: Draft, entry: Entry, awaited: Collection[JobId | None]) -> None:
    job_class, job_id, place = entry.queue.job_class, entry.job.job_id, _place_of(entry)
    is_refused = job_class in draft.refused_classes
    draft.give_up_hold(job_id, place)  # it may use that itself, or start elsewhere
    placement = None if is_refused else draft.place(entry.queue)
    if placement is None and _is_in_vain(draft, entry, awaited):
        return  # it stands in line like everybody, and others may be preempted for it anew
    draft.served.add(job_id)
    if is_refused:
        return
    if placement is not None:
        draft.start(entry, placement)
        draft.take_started()
        return
    draft.tell_observer(job_class, job_id)
    draft.keep_nomination(entry.job, place)


def _place_of(entry: Entry) -> Placement:
    place = entry.progress.claim
    assert place is not None  # it is nominated
    return place


def _is_in_vain(draft: Draft, entry: Entry, awaited: Collection[JobId | None]) -> bool:
    """Whether it waits for nothing: nobody is being preempted for it any more, and a limit, a
    failure, or others who are on its GPUs or have them kept came between."""
    job_class, place = entry.queue.job_class, _place_of(entry)
    is_refused = draft.holds.limits.refuse_by_then(job_class) is not None
    if not is_refused and _is_whole(draft, job_class, place):
        return False
    others = (draft.state.entry(job_id) for job_id in _on_nodes_of(draft.ledger, place))
    if any(other is not None and other.progress.stopping for other in others):
        return False
    return entry.job.job_id not in awaited


def _on_nodes_of(ledger: Ledger, placement: Placement) -> Iterable[JobId]:
    for part in placement.parts():
        if part.node_id in ledger.nodes:
            yield from ledger.nodes[part.node_id].holdings


def _is_whole(draft: Draft, job_class: JobClass, place: Placement) -> bool:
    """Whether these GPUs are nobody else's, and none of them failed or was paused."""
    view = draft.holds.view(job_class)
    for part in place.parts():
        use = draft.ledger.nodes.get(part.node_id)
        if use is None:
            return False
        gpus = {gpu.index: gpu for gpu in use.node.gpus}
        taken = (use if view is None else view(use)).gpu_millis
        for share in part.shares:
            gpu = gpus.get(share.gpu_index)
            if gpu is None or gpu.problem is not None or gpu.paused is not None:
                return False
            if taken.get(gpu.index, 0) + share.millis > GPU:
                return False
    return True
