"""Whatever the order is told, nobody is passed over for longer than the bound."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_job, a_node
from tgpu.core.model.rules import BackfillMode, PlacementRule, Rules
from tgpu.core.policies import OrderOptions, order_policy
from tgpu.core.prediction.runtimes import History
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.simulate.foresight import SimulatedForesight, by_what_is_learned
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.world import Arrival, Cluster

BOUND_S = 60
LONGEST_S = 30
SECOND = 1_000


@st.composite
def traces(draw):
    found = []
    for number in range(draw(st.integers(2, 60))):
        job = a_job(
            f"j{number:02}",
            gpus=draw(st.sampled_from((1, 1, 1, 2, 4))),
            user=draw(st.sampled_from(("ada", "grace"))),
            submitted_at=draw(st.integers(0, 200)) * SECOND,
        )
        found.append(Arrival(job, draw(st.integers(1, LONGEST_S)) * SECOND))
    return found


@settings(max_examples=60)
@given(
    traces(),
    st.sampled_from(("shortest", "quickest")),
    st.sampled_from((BackfillMode.GREEDY, BackfillMode.EASY, BackfillMode.STRICT)),
    st.sampled_from(PlacementRule),
)
def test_who_has_waited_the_bound_starts_when_those_before_it_have(
    trace, policy, backfill, placement
):
    options = OrderOptions(shortest_bound_seconds=BOUND_S, quickest_bound_seconds=BOUND_S)
    scheduling = SchedulingConfig(
        order_policy(policy, 60, options),
        Rules(backfill=backfill, hold_after_ms=BOUND_S * SECOND),
        placement,
    )
    foresight = SimulatedForesight(History, by_what_is_learned(scheduling, policy, options))
    setting = Setting(scheduling, foresight=foresight)
    result = simulate(trace, Cluster({"": (a_node("n", 4),)}), setting)
    before = 0  # when the last of those that came before had started
    for outcome in sorted(result.outcomes, key=lambda o: _age(o.arrival)):
        assert outcome.started_at is not None
        turn = max(before, outcome.arrival.job.submitted_at + BOUND_S * SECOND)
        # At its turn nobody new comes onto its GPUs, and who is there ends. A cycle is made when
        # something ends or comes, so the turn is noticed then.
        assert outcome.started_at <= turn + 2 * LONGEST_S * SECOND
        before = max(before, outcome.started_at)


def _age(arrival):
    return arrival.job.submitted_at, arrival.job.job_id
