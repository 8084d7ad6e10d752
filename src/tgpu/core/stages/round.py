"""A round: all GPUs are given out anew, by count alone, in the order of a policy."""

from tgpu.core.plan import Preemption, PreemptionCause
from tgpu.core.policy import Rounds
from tgpu.core.rules import PreemptionRules
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.preempt import lost_by, may_be_asked
from tgpu.core.state import Entry, State


def serve_round(draft: Draft, order: Rounds) -> None:
    """Give out all GPUs by count; where that takes some from others, that is all for now."""
    state, now = draft.state, draft.now
    if not is_due(state, now, order.round_ms):
        return
    turns, leftover = give_out(state, order, draft.rules.preemption, now)
    if leftover and turns and has_begun(state, now, order.round_ms):
        to = turns[0].job.job_id
        draft.preemptions += [
            Preemption(e.job.job_id, to, PreemptionCause.POLICY, lost_by(e, now)) for e in leftover
        ]
        return
    for entry in turns:
        if entry.job.job_id in draft.served or entry.queue.job_class in draft.closed:
            continue
        placement = draft.place(entry.queue)
        if placement is None:
            draft.testify(entry.queue.job_class, entry.job.job_id)
        else:
            draft.start(entry, placement)
            draft.take_started()


def is_due(state: State, now: int, round_ms: int) -> bool:
    """Whether a round has begun since time passed last, or is not over: who gave way in it has
    left only just now."""
    return has_begun(state, now, round_ms) or state.gave_way_at > now - now % round_ms


def has_begun(state: State, now: int, round_ms: int) -> bool:
    return state.looked_at < now - now % round_ms


def give_out(
    state: State, order: Rounds, rules: PreemptionRules | None, now: int
) -> tuple[list[Entry], list[Entry]]:
    """Who waits and has its turn, in order; and who runs and has none.

    Those whom nobody may ask come before all others.
    """
    left = state.ledger.gpu_millis()
    asked: list[Entry] = []
    for entry in state.placed():
        if entry.progress.gives_way_to is not None:
            continue  # it is on its way out
        if rules is not None and may_be_asked(state.ledger, entry, rules, now, however_often=True):
            asked.append(entry)
        else:
            left -= entry.job.request.gpu_millis
    waiting = _waiting(state)
    turns, leftover = [], []
    # Of two that came at once, who runs comes first, then who needs less.
    ranked = [(order.rank(e), 0, e.job.request.gpu_millis, e.job.job_id, e) for e in asked]
    ranked += [(order.rank(e), 1, e.job.request.gpu_millis, e.job.job_id, e) for e in waiting]
    ranked.sort(key=lambda one: one[:4])
    for _, waits, amount, _, entry in ranked:
        if amount <= left:
            left -= amount
            if waits:
                turns.append(entry)
        elif not waits:
            leftover.append(entry)
    return turns, leftover


def _waiting(state: State) -> list[Entry]:
    found = []
    for queue in state.waiting.classes():
        for _, job_id in queue.keys:
            entry = state.entry(job_id)
            assert entry is not None  # the queue and the entries are two indexes of one thing
            found.append(entry)
    return found
