"""Predictions inside a simulation: what ended teaches."""

from tests.builders import a_job
from tests.unit.simulate.test_run import a_cluster, arrives, times
from tgpu.core.model.job import class_of
from tgpu.core.model.rules import PLAIN, PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.core.policies.shortest import Shortest
from tgpu.core.prediction.calibration import PastJob
from tgpu.core.prediction.runtimes import Facts, History, NoPredictor
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.simulate.foresight import Learner, SimulatedForesight, by_what_is_learned
from tgpu.simulate.run import Setting, simulate


def foreseeing(policy, make=History, past=()):
    scheduling = SchedulingConfig(order_policy(policy))
    return Setting(scheduling, foresight=SimulatedForesight(make, learned(policy), past))


def learned(policy, rules=PLAIN):
    return by_what_is_learned(SchedulingConfig(order_policy(policy), rules), policy)


def waiting_pair():
    """Ada's jobs are short, Grace's are long; then both wait for the one GPU."""
    return [
        arrives("a0", 0, 10, user="ada"),
        arrives("g0", 0, 1_000, user="grace"),
        arrives("block", 1_100, 500),
        arrives("g1", 1_200, 1_000, user="grace"),
        arrives("a1", 1_300, 10, user="ada"),
    ]


def test_shortest_goes_by_what_ended_in_the_simulation():
    one_gpu = a_cluster(gpus=1)
    learned = times(simulate(waiting_pair(), one_gpu, foreseeing("shortest")))
    assert learned["a1"][0] < learned["g1"][0]
    unlearned = times(simulate(waiting_pair(), one_gpu, foreseeing("shortest", NoPredictor)))
    assert unlearned["g1"][0] < unlearned["a1"][0]


def test_quickest_goes_by_it_too():
    found = times(simulate(waiting_pair(), a_cluster(gpus=1), foreseeing("quickest")))
    assert found["a1"][0] < found["g1"][0]


def test_partitions_learn_by_themselves():
    trace = [
        *(one._replace(partition="x") for one in waiting_pair()[:2]),
        *(one._replace(partition="y") for one in waiting_pair()[2:]),
    ]
    cluster = a_cluster(gpus=1)
    nodes = cluster.partitions[""]
    both = type(cluster)({"x": nodes, "y": nodes})
    found = times(simulate(trace, both, foreseeing("shortest")))
    assert found["g1"][0] < found["a1"][0]  # nothing ended in y: first come, first served


def test_past_jobs_teach_before_the_first_arrival():
    past = [
        PastJob(Facts("default", "ada", 1_000), -5_000, 10, -4_990),
        PastJob(Facts("default", "grace", 1_000), -5_000, 1_000, -4_000),
    ]
    found = times(
        simulate(waiting_pair()[2:], a_cluster(gpus=1), foreseeing("shortest", past=past))
    )
    assert found["a1"][0] < found["g1"][0]


def test_nobody_learns_from_the_future():
    later = [PastJob(Facts("default", "ada", 1_000), 1_150, 10, 1_160)]
    learner = Learner(SimulatedForesight(History, learned("shortest"), later), before=1_100)
    learner.reach(10**9)
    policy = learner.scheduling.policy
    assert isinstance(policy, Shortest)
    assert policy.predicted is not None
    assert policy.predicted(class_of(a_job(user="ada")), 10**9) is None


def test_who_ends_soon_is_spared_by_what_is_predicted():
    rules = Rules(preemption=PreemptionRules(spare_ms=5_000))
    learner = Learner(SimulatedForesight(History, learned("shortest", rules)), before=0)
    for number in range(20):
        learner.ended(a_job(f"j{number}", user="ada"), 1_000, number, was_preempted=False)
    preemption = learner.scheduling.rules.preemption
    assert preemption is not None
    assert preemption.left is not None
    assert preemption.left(a_job("now", user="ada"), 500, 30) == 500
