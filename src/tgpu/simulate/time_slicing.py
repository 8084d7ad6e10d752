"""Scheduling in rounds, as some published schedulers do it: once in a while all GPUs are given
out anew, by count alone; who is left over is preempted, and who comes in between waits."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from tgpu.core.capacity.ledger import Trial
from tgpu.core.model.plan import Plan, Preemption, PreemptionCause
from tgpu.core.model.rules import Rules
from tgpu.core.policies.slots import Rank
from tgpu.core.preemption.preempt import lost_by, may_be_preempted
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.expire import expire_leases
from tgpu.core.state.cluster_state import Entry, State


class TimeSliced(ABC):
    """A policy whose rounds begin with every `round_ms`: somebody must look then."""

    name: ClassVar[str]
    round_ms: int

    @abstractmethod
    def rank(self, entry: Entry, now: int) -> Rank:
        """Of a job that waits or runs: lower goes first."""


class _Turns(NamedTuple):
    starting: list[Entry]  # those that wait and have their turn, in order
    left_over: list[Entry]  # those that run and have none


def schedule_round(state: State, now: int, policy: TimeSliced, rules: Rules) -> Plan:
    """What a round that begins now decides. Where it takes GPUs from some, that is all: the
    others start once they are gone."""
    trial = Trial(state.ledger)
    try:
        draft = Draft(state, now, trial, rules)
        expire_leases(draft)
        if now % policy.round_ms == 0:
            _serve(draft, policy)
    finally:
        trial.undo()
    return draft.plan()


def _serve(draft: Draft, policy: TimeSliced) -> None:
    starting, left_over = _give_out(draft, policy)
    if starting and left_over:
        to = starting[0].job.job_id
        draft.preemptions += [
            Preemption(one.job.job_id, to, PreemptionCause.POLICY, lost_by(one, draft.now))
            for one in left_over
        ]
        return
    for entry in starting:
        placement = draft.place(entry.queue)
        if placement is not None:
            draft.start(entry, placement)
            draft.take_started()


def _give_out(draft: Draft, policy: TimeSliced) -> _Turns:
    """By count. Those who may not be preempted come before all others."""
    state, rules, now = draft.state, draft.rules.preemption, draft.now
    left = state.ledger.gpu_millis()
    asked: list[Entry] = []
    for entry in state.placed():
        if rules is not None and may_be_preempted(
            state.ledger, entry, rules, now, however_often=True
        ):
            asked.append(entry)
        else:
            left -= entry.job.request.gpu_millis
    # Of two that came at once, who runs comes first, then who needs less.
    ranked = [_place_of(policy.rank(one, now), 0, one) for one in asked]
    ranked += [_place_of(policy.rank(one, now), 1, one) for one in _waiting(draft)]
    ranked.sort(key=lambda one: one[:4])
    turns = _Turns([], [])
    for _, waits, amount, _, entry in ranked:
        if amount <= left:
            left -= amount
            if waits:
                turns.starting.append(entry)
        elif not waits:
            turns.left_over.append(entry)
    return turns


def _place_of(rank: Rank, waits: int, entry: Entry) -> tuple[Rank, int, int, str, Entry]:
    return (rank, waits, entry.job.request.gpu_millis, entry.job.job_id, entry)


def _waiting(draft: Draft) -> list[Entry]:
    classes = draft.state.waiting.classes()
    return [draft.entry(job_id) for queue in classes for _, job_id in queue.keys]
