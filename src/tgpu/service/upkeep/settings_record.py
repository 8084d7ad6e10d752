"""Records the settings of the scheduler, for replays."""

from collections.abc import Mapping
from typing import Final

import msgspec
import structlog

from tgpu import __version__
from tgpu.core.model.events import Scalar, SettingsSet
from tgpu.core.state.cluster_state import State
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store, StoreUnavailable

RecordedValues = Mapping[str, Scalar | tuple[Scalar, ...]]

KIND: Final = "recorded_settings"  # documents: the event that holds
_NAME: Final = "scheduler"

_log = structlog.get_logger("gpu_scheduler.service")


async def record_settings(
    values: RecordedValues, store: Store, writer: Writer, clock: Clock
) -> None:
    """Write them down, unless they are what was written down last."""
    if not values:
        return
    known = (await store.documents(KIND)).get(_NAME)
    body = msgspec.json.encode({"version": __version__, "values": values}, order="sorted")
    if known == body:
        return

    def decide(_: State) -> Decision[None]:
        event = SettingsSet(clock.now(), __version__, dict(values))
        return Decision(None, [event], documents={(KIND, _NAME): body})

    try:
        await writer.do(decide, touches=None)
    except StoreUnavailable as error:  # a full disk: jobs go on, and nobody wants to look back now
        _log.error("cannot record the settings", problem=str(error))
