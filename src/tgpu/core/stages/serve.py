"""Takes the heads of all classes in the policy's order; admits and places each.

A class whose head cannot start is passed over whole: its other jobs are no different.
"""

from collections.abc import Iterable, Mapping

from tgpu.core.admission.cohort import would_borrow
from tgpu.core.model.rules import PLAIN
from tgpu.core.policies.slots import OrderPolicy, is_ranking
from tgpu.core.stages.backfill import Backfill
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.evict import Evictions
from tgpu.core.stages.queue_order import QueueOrder
from tgpu.core.state.waiting_queue import ClassQueue


def serve_in_order(
    draft: Draft,
    policy: OrderPolicy,
    policies: Mapping[str, OrderPolicy],
    backfill: Backfill,
    evictions: Evictions,
) -> None:
    state, now, ledger = draft.state, draft.now, draft.ledger
    order = policy.at(state, now)
    if draft.rules.preemption is not None and is_ranking(order):
        evictions.ranking = order
    own = {name: each.at(state, now) for name, each in policies.items()} if policies else {}
    lines = QueueOrder(ledger, order, own, _open_classes(draft), draft.served)
    aside = _serve(draft, lines, backfill, evictions, is_lending=bool(ledger.cohorts))
    if aside:
        draft.served.update(start.job_id for start in draft.starts)
        lines = QueueOrder(ledger, order, own, aside, draft.served)
        _serve(draft, lines, backfill, evictions, is_lending=False)
    backfill.keep_unreached()


def _open_classes(draft: Draft) -> Iterable[ClassQueue]:
    classes = draft.state.waiting.classes()
    if not draft.refused_classes:
        return classes
    return (queue for queue in classes if queue.job_class not in draft.refused_classes)


def _serve(
    draft: Draft, lines: QueueOrder, backfill: Backfill, evictions: Evictions, *, is_lending: bool
) -> list[ClassQueue]:
    """Start whom one can, in order. Only what is idle is lent: who needs more than its own
    quota is put aside until everybody else had their turn."""
    aside: list[ClassQueue] = []
    is_plain = draft.rules is PLAIN
    while not backfill.is_over and (found := lines.next()) is not None:
        line, head = found
        if is_lending and would_borrow(draft.ledger, head.queue.job_class):
            line.drop(head)
            aside.append(head.queue)
            continue
        promise = backfill.redeem(head.queue) if backfill.promises else None
        placement = draft.place(head.queue)
        job_id = head.key[2]
        if placement is None:
            line.drop(head)
            draft.tell_observer(head.queue.job_class, job_id)
            if not is_plain and not evictions.make_room(head.queue, job_id):
                backfill.reserve(head.queue, job_id, promise)
            continue
        draft.start(draft.entry(job_id), placement)
        line.advance(head)
        if aside or lines.has_more():
            draft.take_started()
    return aside
