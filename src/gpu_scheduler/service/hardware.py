"""Keeps the node in the state equal to what the devices report, and GPUs paused as asked."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from gpu_scheduler.core.errors import NotFound
from gpu_scheduler.core.events import NodeSet
from gpu_scheduler.core.heat import Heat, HeatLimits, heat_of
from gpu_scheduler.core.ids import NodeId
from gpu_scheduler.core.node import Gpu, Node
from gpu_scheduler.core.state import State
from gpu_scheduler.devices.api import GpuReading, Snapshot
from gpu_scheduler.service.clock import Clock
from gpu_scheduler.service.writer import Decision, Writer


class Hardware:
    """One machine's GPUs. `snapshot` is the newest reading, for those who show it."""

    def __init__(
        self,
        node_id: NodeId,
        cpu_millis: int,
        mem_mib: int,
        *,
        simulated: bool,
        heat_limits: HeatLimits | None = None,
    ) -> None:
        """Without `heat_limits` no GPU is ever too hot."""
        self.node_id = node_id
        self.simulated = simulated
        self._cpu_millis = cpu_millis
        self._mem_mib = mem_mib
        self._heat_limits = heat_limits
        self.snapshot: Snapshot | None = None
        self._measured = asyncio.Event()

    async def next_reading(self) -> Snapshot:
        """The next reading, when it comes. Who is busy then gets the one after."""
        await self._measured.wait()
        assert self.snapshot is not None
        return self.snapshot

    async def observe(self, snapshot: Snapshot, writer: Writer, clock: Clock) -> bool:
        """Take in a reading; whether anything that decides has changed."""
        self.snapshot = snapshot
        self._measured.set()
        self._measured = asyncio.Event()

        def decide(state: State) -> Decision[bool]:
            use = state.ledger.nodes.get(self.node_id)
            node = self._node(snapshot, use.node.gpus if use is not None else ())
            if use is not None and snapshot.problem is not None and not node.gpus:
                node = _out_of_reach(use.node, snapshot.problem)
            if use is not None and use.node == node:
                return Decision(answer=False)
            return Decision(answer=True, events=[NodeSet(clock.now(), node)])

        return await writer.do(decide, touches=None)

    async def pause(self, index: int, reason: str | None, writer: Writer, clock: Clock) -> None:
        """Give a GPU no new jobs (with a reason), or again (None)."""

        def decide(state: State) -> Decision[None]:
            use = state.ledger.nodes.get(self.node_id)
            gpus = use.node.gpus if use is not None else ()
            if use is None or all(gpu.index != index for gpu in gpus):
                there = ", ".join(str(gpu.index) for gpu in gpus) or "none"
                raise NotFound("GPU", str(index), f"this machine has: {there}")
            changed = tuple(
                replace(gpu, paused=reason) if gpu.index == index else gpu for gpu in gpus
            )
            return Decision(None, [NodeSet(clock.now(), replace(use.node, gpus=changed))])

        await writer.do(decide, touches=None)

    def _node(self, snapshot: Snapshot, known: Sequence[Gpu]) -> Node:
        # By UUID: an index may name another card after a reboot.
        before = {gpu.uuid: gpu for gpu in known}
        gpus = tuple(
            Gpu(
                index=reading.index,
                uuid=reading.uuid,
                gpu_type=reading.gpu_type,
                mem_mib=reading.memory_mib,
                nvlink_group=reading.nvlink_group,
                problem=reading.problem,
                paused=before[reading.uuid].paused if reading.uuid in before else None,
                heat=self._heat(reading, before.get(reading.uuid)),
            )
            for reading in snapshot.gpus
        )
        return Node(self.node_id, gpus, self._cpu_millis, self._mem_mib, self.simulated)

    def _heat(self, reading: GpuReading, before: Gpu | None) -> Heat:
        if self._heat_limits is None:
            return Heat.COOL
        last = before.heat if before is not None else Heat.COOL
        return heat_of(reading.temperature_c, last, self._heat_limits)


def _out_of_reach(node: Node, problem: str) -> Node:
    # A driver that tells nothing has not taken the GPUs away, nor what an operator said of them.
    return replace(node, gpus=tuple(replace(gpu, problem=problem) for gpu in node.gpus))
