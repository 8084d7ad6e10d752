"""Recorded events in the words of those who watch."""

from dataclasses import replace

from tests.builders import a_node
from tgpu.core.events import NodeSet
from tgpu.service.feed_event import feed_event


def test_a_node_s_gpus_with_problems_are_named():
    node = a_node("n", gpus=2)
    broken = replace(node, gpus=(replace(node.gpus[0], problem="Xid 79"), node.gpus[1]))
    for shown, data in (
        (node, {"node": "n"}),
        (broken, {"node": "n", "problems": {"0": "Xid 79"}}),
    ):
        event = feed_event(1, NodeSet(5, shown), None)
        assert event is not None
        assert event.data == data
