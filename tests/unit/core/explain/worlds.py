"""Questions as the service asks them, on small worlds."""

from tests.builders import entry_of
from tgpu.core.cycle import CycleObserver, schedule
from tgpu.core.explain.answer import Decide, Why, why
from tgpu.core.explain.changes import RequestChange, cheapest_change
from tgpu.core.model.plan import Plan
from tgpu.core.model.rules import PLAIN, Rules
from tgpu.core.policies.fifo import Fifo
from tgpu.core.policies.slots import Policy
from tgpu.core.state.cluster_state import State

FIFO = Fifo()


def decider(state: State, rules: Rules = PLAIN, policy: Policy = FIFO) -> Decide:
    def decide(observer: CycleObserver | None) -> Plan:
        return schedule(state, state.now, policy, rules=rules, observer=observer)

    return decide


def ask(state: State, job_id: str = "j", rules: Rules = PLAIN) -> Why:
    return why(state, entry_of(state, job_id), state.now, decider(state, rules))


def help_for(state: State, job_id: str = "j", rules: Rules = PLAIN) -> RequestChange | None:
    told = ask(state, job_id, rules)
    return cheapest_change(state, entry_of(state, job_id), told, state.now, decider(state, rules))
