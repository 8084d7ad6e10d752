"""Questions as the service asks them, on small worlds."""

from gpu_scheduler.core.cycle import Witness, schedule
from gpu_scheduler.core.plan import Plan
from gpu_scheduler.core.policies.fifo import Fifo
from gpu_scheduler.core.policy import Policy
from gpu_scheduler.core.rules import PLAIN, Rules
from gpu_scheduler.core.state import State
from gpu_scheduler.core.why.answer import Decide, Why, why
from gpu_scheduler.core.why.changes import Change, cheapest_change
from tests.builders import entry_of

FIFO = Fifo()


def decider(state: State, rules: Rules = PLAIN, policy: Policy = FIFO) -> Decide:
    def decide(witness: Witness | None) -> Plan:
        return schedule(state, state.now, policy, rules=rules, witness=witness)

    return decide


def ask(state: State, job_id: str = "j", rules: Rules = PLAIN) -> Why:
    return why(state, entry_of(state, job_id), state.now, decider(state, rules))


def help_for(state: State, job_id: str = "j", rules: Rules = PLAIN) -> Change | None:
    told = ask(state, job_id, rules)
    return cheapest_change(state, entry_of(state, job_id), told, state.now, decider(state, rules))
