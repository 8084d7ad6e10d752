"""Nominated jobs, for which others are being preempted: they start first, or keep their GPUs
reserved."""

from collections.abc import Iterable

from tgpu.core.admission.admit import refuse
from tgpu.core.capacity.ledger import Ledger
from tgpu.core.model.ids import JobId
from tgpu.core.model.node import Placement
from tgpu.core.model.units import GPU
from tgpu.core.stages.draft import Draft
from tgpu.core.state.cluster_state import Entry


def serve_nominated(draft: Draft) -> None:
    for entry in draft.state.nominated():
        job_class, place = entry.queue.job_class, entry.progress.claim
        is_refused = job_class in draft.refused_classes
        placement = None if is_refused else draft.place(entry.queue)
        if placement is None and place is not None and _is_in_vain(draft, entry, place):
            continue  # it stands in line like everybody, and others may be preempted for it anew
        draft.served.add(entry.job.job_id)
        if is_refused:
            continue
        if placement is not None:
            draft.start(entry, placement)
            draft.take_started()
            continue
        draft.tell_observer(job_class, entry.job.job_id)
        if place is not None:
            draft.holds.add(entry.job, place, draft.now)


def _is_in_vain(draft: Draft, entry: Entry, place: Placement) -> bool:
    """Whether it waits for nothing: nobody is being preempted for it any more, and a limit, a
    failure or others on its GPUs came between."""
    if refuse(draft.ledger, entry.queue.job_class) is None and _is_whole(draft.ledger, place):
        return False
    leaving = (draft.state.entry(job_id) for job_id in _on_nodes_of(draft.ledger, place))
    if any(other is not None and other.progress.stopping for other in leaving):
        return False
    return not draft.state.is_anybody_preempted_for(entry.job.job_id)


def _on_nodes_of(ledger: Ledger, placement: Placement) -> Iterable[JobId]:
    for part in placement.parts():
        if part.node_id in ledger.nodes:
            yield from ledger.nodes[part.node_id].holdings


def _is_whole(ledger: Ledger, place: Placement) -> bool:
    """Whether nobody else is on these GPUs, and none of them failed or was paused."""
    for part in place.parts():
        use = ledger.nodes.get(part.node_id)
        gpus = {} if use is None else {gpu.index: gpu for gpu in use.node.gpus}
        for share in part.shares:
            gpu = gpus.get(share.gpu_index)
            if use is None or gpu is None or gpu.problem is not None or gpu.paused is not None:
                return False
            if use.gpu_millis.get(gpu.index, 0) + share.millis > GPU:
                return False
    return True
