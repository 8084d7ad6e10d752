"""The newest reading of each node, for live displays."""

import asyncio

from tgpu.core.model.ids import NodeId
from tgpu.devices.api import Snapshot
from tgpu.service.recording.observer import Observer


class NewestReadings(Observer):
    """A reader is a position: it gets each node's newest, and none twice."""

    def __init__(self) -> None:
        self.position = 0
        self._newest: dict[NodeId, tuple[int, Snapshot]] = {}
        self._came = asyncio.Event()

    def measured(self, node_id: NodeId, snapshot: Snapshot) -> None:
        self.position += 1
        self._newest[node_id] = (self.position, snapshot)
        self._came.set()
        self._came = asyncio.Event()

    async def after(self, position: int) -> list[tuple[NodeId, Snapshot]]:
        """What came since, when something did; then the reader is at `self.position`."""
        while self.position <= position:
            await self._came.wait()
        return [(node, found) for node, (at, found) in self._newest.items() if at > position]
