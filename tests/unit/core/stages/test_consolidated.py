"""The placement rule `consolidated`: the fullest node that does, gangs on few nodes."""

from tests.builders import a_job, a_node, a_state, start, submit
from tgpu.core.model.job import class_of
from tgpu.core.model.rules import PlacementRule
from tgpu.core.placement.place import place


def a_world(*nodes, rule=PlacementRule.CONSOLIDATED, taken=()):
    """A state in which `taken` GPUs of nodes, as (node, count), are in use."""
    state = a_state(nodes=nodes)
    state.ledger.placement_rule = rule
    for number, (node_id, count) in enumerate(taken):
        submit(state, a_job(f"taken-{number}", gpus=count))
        start(state, f"taken-{number}", *range(count), node=node_id)
    return state.ledger


def node_of(ledger, **job):
    found = place(ledger, class_of(a_job(**job)))
    return None if found is None else found.node_id


def nodes_of(ledger, **job):
    found = place(ledger, class_of(a_job(**job)))
    return None if found is None else [part.node_id for part in found.parts()]


def test_a_job_goes_to_the_node_with_the_fewest_free_gpus_that_do():
    nodes = [a_node(f"n{number}") for number in range(3)]
    taken = (("n0", 2), ("n1", 5))
    assert node_of(a_world(*nodes, taken=taken), gpus=3) == "n1"
    assert node_of(a_world(*nodes, taken=taken), gpus=4) == "n0"
    assert node_of(a_world(*nodes, taken=taken), gpus=7) == "n2"


def test_where_it_differs_from_the_least_fragmentation():
    """With 4 free, taking one breaks a place for four: three free lose less."""
    nodes = [a_node(f"n{number}") for number in range(2)]
    taken = (("n0", 3), ("n1", 4))
    assert node_of(a_world(*nodes, taken=taken), gpus=1) == "n1"
    least = a_world(*nodes, rule=PlacementRule.FRAGMENTATION, taken=taken)
    assert node_of(least, gpus=1) == "n0"


def test_of_equal_nodes_the_first_is_taken():
    assert node_of(a_world(*[a_node(f"n{number}") for number in range(3)]), gpus=1) == "n0"


def test_a_gang_takes_whole_nodes_and_for_the_rest_the_freest():
    nodes = [a_node(f"n{number}") for number in range(4)]
    ledger = a_world(*nodes, taken=(("n0", 4), ("n1", 2)))
    assert nodes_of(ledger, gpus=12, workers=3) == ["n2", "n2", "n3"]
    ledger = a_world(*nodes, taken=(("n0", 4), ("n1", 2), ("n3", 3)))
    assert nodes_of(ledger, gpus=12, workers=3) == ["n1", "n2", "n2"]


def test_a_gang_waits_where_it_would_need_more_nodes_than_if_all_were_free():
    nodes = [a_node(f"n{number}") for number in range(3)]
    taken = tuple((node.node_id, 4) for node in nodes)
    assert nodes_of(a_world(*nodes, taken=taken), gpus=12, workers=3) is None
    loose = a_world(*nodes, rule=PlacementRule.FRAGMENTATION, taken=taken)
    assert nodes_of(loose, gpus=12, workers=3) == ["n0", "n1", "n2"]


def test_a_small_gang_is_on_the_fullest_node_that_holds_it():
    nodes = [a_node(f"n{number}") for number in range(2)]
    assert nodes_of(a_world(*nodes, taken=(("n1", 4),)), gpus=4, workers=2) == ["n1", "n1"]


def test_nodes_too_small_for_the_ideal_are_counted_as_they_are():
    """Two nodes of 4 and one of 8: sixteen GPUs are never on two nodes, and not refused for it."""
    nodes = (a_node("n0", 4), a_node("n1", 4), a_node("n2", 8))
    assert nodes_of(a_world(*nodes), gpus=16, workers=4) == ["n0", "n1", "n2", "n2"]


def test_cores_and_chosen_nodes_count_for_what_is_the_fewest():
    nodes = [a_node(f"n{number}", cpus=4) for number in range(4)]
    # Cores for one worker a node: on four nodes or nowhere.
    assert nodes_of(a_world(*nodes), gpus=4, workers=4, cpus=16) == ["n0", "n1", "n2", "n3"]
    nodes = [a_node("n0", 4), a_node("n1", 4), a_node("n2", 8)]
    chosen = nodes_of(a_world(*nodes), gpus=8, workers=2, nodes=("n0", "n1", "gone"))
    assert chosen == ["n0", "n1"]


def test_who_wants_to_be_spread_is():
    nodes = [a_node(f"n{number}") for number in range(2)]
    ledger = a_world(*nodes, taken=(("n0", 4),))
    assert node_of(ledger, gpus=1, spread=True) == "n1"
