"""Events of the feed, and readings of GPUs, as streams write them."""

from typing import NamedTuple

from tgpu.core.model.ids import NodeId
from tgpu.devices.api import Snapshot
from tgpu.service.feed.feed_event import ESTIMATED, FeedEvent
from tgpu.service.service import Service
from tgpu.text.gpu_names import gpu_name
from tgpu.text.instants import utc_millis_text
from tgpu.wire.events_v1 import EventModel


class EventText(NamedTuple):
    """An event as it is sent, by either way."""

    json: str
    sse: bytes


_UNNUMBERED = ("gpu_reading", ESTIMATED)


def event_text(event: FeedEvent) -> EventText:
    """Made once: the feed gives the same event to all who see it whole."""
    text: EventText | None = event.written.get("text")
    if text is None:
        text = event.written["text"] = text_of(event_model(event))
    return text


def text_of(event: EventModel) -> EventText:
    content = event.model_dump_json()
    # What is not recorded has no number of its own: nobody can go on from it.
    id_line = f"id: {event.seq}\n" if event.kind not in _UNNUMBERED else ""
    return EventText(content, f"{id_line}event: {event.kind}\ndata: {content}\n\n".encode())


def event_model(event: FeedEvent) -> EventModel:
    return EventModel(
        seq=event.seq,
        at=utc_millis_text(event.at),
        kind=event.kind,
        job_id=event.job_id,
        tenant_id=event.tenant_id,
        state=event.state,
        data=dict(event.data),
        job_ids=[ref.job_id for ref in event.jobs],
        decision=None if event.decision is None else event.decision.number,
        decided_by=None if event.decision is None else event.decision.by,
    )


def reading_model(service: Service, node_id: NodeId, snapshot: Snapshot) -> EventModel:
    gpus = [
        {
            "index": gpu.index,
            "gpu_name": gpu_name(node_id, gpu.index),
            "uuid": gpu.uuid,
            "temperature_c": gpu.temperature_c,
            "utilisation_percent": gpu.utilisation_percent,
            "memory_used_mb": gpu.memory_used_mib,
            "problem": gpu.problem,
        }
        for gpu in snapshot.gpus
    ]
    return EventModel(
        seq=service.feed.last_seq,
        at=utc_millis_text(service.clock.now()),
        kind="gpu_reading",
        data={"node": node_id, "gpus": gpus, "problem": snapshot.problem},
    )
