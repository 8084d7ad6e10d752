from dataclasses import replace

import msgspec

from tests.contract.store.builders import started
from tgpu.core.model.events import JobMoved, TenantSet
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.lifecycle import Move, Progress
from tgpu.core.model.tenant import Tenant
from tgpu.store import event_codec


def test_a_moved_event_is_short_and_readable() -> None:
    event = started("a")
    assert event_codec.event_text(event, {}) == (
        '{"at":20,"job_id":"a","move":"start","progress":{"state":"scheduled","attempt":1,'
        '"placement":{"node_id":"n0","gpu_type":"A100","shares":[{"gpu_index":0,"millis":1000}]},'
        '"started_at":20}}'
    )


def test_who_asked_for_a_change_is_kept_and_rows_without_a_name_are_read() -> None:
    moved = JobMoved(5, JobId("j"), Move.HOLD, Progress(held=True, held_by="ada"), by="ada")
    without = msgspec.structs.replace(moved, by="")
    for event in (moved, TenantSet(5, Tenant(TenantId("t")), by='o"ps (operator)')):
        text = event_codec.event_text(event, {})
        assert event_codec.decode_event(event_codec.kind_of(event), text.encode()) == event
        nameless = replace(event, by="") if isinstance(event, TenantSet) else without
        assert (
            event_codec.decode_event(
                event_codec.kind_of(event), event_codec.event_text(nameless, {}).encode()
            )
            == nameless
        )
        assert '"by"' not in event_codec.event_text(nameless, {})
