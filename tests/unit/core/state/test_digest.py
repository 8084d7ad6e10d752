from tests.builders import a_job, a_node, a_state, start, submit
from tgpu.core.model.events import NodeSet
from tgpu.core.state.digest import digest


def test_states_that_came_about_otherwise_and_are_the_same_have_one_digest():
    nodes = [a_node("n0"), a_node("n1")]
    first = a_state(a_job("a"), a_job("b"), nodes=nodes)
    second = a_state(a_job("b"), nodes=reversed(nodes))
    submit(second, a_job("a"))
    assert digest(first) == digest(second)


def test_whatever_is_otherwise_makes_another_digest():
    base = digest(a_state(a_job("a")))
    changed = a_state(a_job("a"))
    start(changed, "a", 0)
    other_node = a_state(a_job("a"))
    other_node.apply(NodeSet(0, a_node("n7")))
    found = {digest(changed), digest(other_node), digest(a_state(a_job("a", priority=1)))}
    assert len(found) == 3
    assert base not in found
