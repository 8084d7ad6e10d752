"""Recorded events in the words of those who watch."""

from dataclasses import replace

from tests.builders import a_node
from tgpu.core.model.events import NodeSet, TenantSet
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant
from tgpu.service.feed.feed_event import feed_event


def test_a_node_s_gpus_with_problems_are_named():
    node = a_node("n", gpus=2)
    broken = replace(node, gpus=(replace(node.gpus[0], problem="Xid 79"), node.gpus[1]))
    for shown, data in (
        (node, {"node": "n"}),
        (broken, {"node": "n", "problems": {"0": "Xid 79"}}),
    ):
        event = feed_event(1, NodeSet(5, shown))
        assert event is not None
        assert event.data == data


def test_a_change_names_who_asked_for_it_and_what_the_service_did_itself_names_nobody():
    for by, data in (("ops (operator)", {"by": "ops (operator)"}), ("", {})):
        event = feed_event(1, TenantSet(5, Tenant(TenantId("t")), by=by))
        assert event is not None
        assert event.data == data
