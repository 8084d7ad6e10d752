"""A cycle under way on a state, to try one stage on."""

from typing import Any

from tgpu.core.capacity.ledger import Trial
from tgpu.core.model.rules import PLAIN, Rules
from tgpu.core.stages.draft import Draft
from tgpu.core.state.cluster_state import State


def a_draft(state: State, now: int = 0, rules: Rules = PLAIN, **known: Any) -> Draft:
    return Draft(state, now, Trial(state.ledger), rules, **known)


def starts(draft: Draft) -> list[str]:
    return [start.job_id for start in draft.starts]


def preempted(draft: Draft) -> list[tuple[str, str]]:
    return [(one.victim, one.to) for one in draft.preemptions]
