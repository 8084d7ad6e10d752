"""The nodes of an engine that keeps books of its own: what it says there is, and what others have.

Such an engine binds: which of a node's GPUs a job has, it decides. Here they are counted, so that
no more is started than there is room for.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from tgpu.core.errors import Unavailable
from tgpu.core.model.events import NodeSet
from tgpu.core.model.ids import NodeId
from tgpu.core.model.node import Gpu, Node, gone
from tgpu.core.state.cluster_state import State
from tgpu.devices.api import GpuReading, Snapshot
from tgpu.engines.api import Engine, EngineCapacity, EngineUnavailable, NodeCapacity
from tgpu.service.hardware.node_hardware import Hardware, HardwareRules
from tgpu.service.recording.audit import by_itself
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.observer import Observer
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store, StoreUnavailable

_STALE_MS: Final = 60_000  # by then others may have what was free
_STALE: Final = "the engine has said nothing of this node for a minute"
_NOT_LISTED: Final = "the engine no longer has this node"

_log = structlog.get_logger("gpu_scheduler.devices")


class EngineNodes:
    """Nothing to do where the engine has no such books."""

    def __init__(
        self,
        engine: Engine | None,
        writer: Writer,
        store: Store,
        clock: Clock,
        *,
        observer: Observer,
        is_taken: Callable[[str], bool] = lambda name: False,
        rules: HardwareRules | None = None,
    ) -> None:
        """`is_taken` is asked of names that another node has already."""
        self._engine = engine
        self._writer = writer
        self._store = store
        self._clock = clock
        self._observer = observer
        self._is_taken = is_taken
        self._rules = replace(rules or HardwareRules(), foreign=None)
        self._hardware: dict[str, Hardware] = {}
        self._known: EngineCapacity | None = None
        self._trouble: str | None = None
        self._doubles: list[str] = []

    def all(self) -> list[Hardware]:
        return [self._hardware[name] for name in sorted(self._hardware)]

    def get(self, name: str) -> Hardware | None:
        return self._hardware.get(name)

    async def look(self) -> None:
        """Take in what the engine has now. What cannot be recorded, the next look records."""
        engine = self._engine
        if engine is None:
            return
        try:
            found = await engine.capacity()
        except EngineUnavailable as error:
            self._trouble = str(error)
            found = self._known
        else:
            self._trouble = None
        if found is None:
            return
        self._known = found
        is_stale = engine.now() - found.at > _STALE_MS
        with by_itself(), contextlib.suppress(StoreUnavailable, Unavailable):
            for each in self._unambiguous(found):
                await self._observe(each, _STALE if is_stale else None)
            await self._drop_others({each.node.node_id for each in found.nodes})

    def problems(self) -> list[str]:
        found = [f"engine: node {name} has the name of another node" for name in self._doubles]
        if self._trouble is not None and self._known is not None:
            found.append(f"engine: what its nodes have is not known now: {self._trouble}")
        return found

    # -- the clock is set --------------------------------------------------------------------------

    def step_documents(self, by: int) -> dict[tuple[str, str], bytes | None]:
        made: dict[tuple[str, str], bytes | None] = {}
        for hardware in self.all():
            made |= hardware.step_documents(by)
        return made

    def step(self, by: int) -> None:
        for hardware in self.all():
            hardware.step(by)

    # -- how ---------------------------------------------------------------------------------------

    def _unambiguous(self, found: EngineCapacity) -> list[NodeCapacity]:
        """Two nodes of one name would be one in the books: the engine's is left out."""
        doubles = [e.node.node_id for e in found.nodes if self._is_taken(e.node.node_id)]
        if doubles and doubles != self._doubles:
            _log.error("nodes of the engine have names of others", nodes=doubles)
        self._doubles = [str(name) for name in doubles]
        return [each for each in found.nodes if each.node.node_id not in doubles]

    async def _observe(self, found: NodeCapacity, problem: str | None) -> None:
        node = found.node
        hardware = await self._hardware_of(node)
        hardware.held_by_others = found.held_by_others
        gpus = tuple(_reading(gpu, problem) for gpu in node.gpus)
        problems = {gpu.problem for gpu in gpus}
        # What all of them have is the node's, and no fault of a GPU that would be remembered.
        snapshot = Snapshot(node.engine, gpus, problems.pop() if len(problems) == 1 else None)
        if snapshot != hardware.snapshot:
            self._observer.measured(hardware.node_id, snapshot)
        await hardware.observe(snapshot, self._writer, self._clock)

    async def _hardware_of(self, node: Node) -> Hardware:
        hardware = self._hardware.get(node.node_id)
        if hardware is None:
            hardware = Hardware(
                node.node_id,
                node.cpu_millis,
                node.mem_mib,
                simulated=node.simulated,
                rules=self._rules,
                labels=node.labels,
                engine=node.engine,
            )
            await hardware.open(self._store)
            self._hardware[node.node_id] = hardware
        hardware.cpu_millis, hardware.mem_mib = node.cpu_millis, node.mem_mib
        return hardware

    async def _drop_others(self, listed: set[NodeId]) -> None:
        """Nodes that the engine had before: gone once no job of ours has anything of them."""
        for name in [each for each in self._hardware if each not in listed]:
            hardware = self._hardware[name]
            known = self._writer.state.ledger.known_node(hardware.node_id)
            if known is not None and self._is_held(hardware.node_id):
                before = hardware.snapshot.gpus if hardware.snapshot is not None else ()
                gpus = tuple(gpu.unmeasured(_NOT_LISTED) for gpu in before)
                snapshot = Snapshot(hardware.engine, gpus, _NOT_LISTED)
                await hardware.observe(snapshot, self._writer, self._clock)
                continue
            if await self._writer.do(partial(self._gone, NodeId(name)), touches=None):
                del self._hardware[name]
                self._observer.measured(NodeId(name), Snapshot("", ()))

    def _is_held(self, node_id: NodeId) -> bool:
        use = self._writer.state.ledger.nodes.get(node_id)
        return use is not None and bool(use.holdings)

    def _gone(self, name: NodeId, state: State) -> Decision[bool]:
        use = state.ledger.nodes.get(name)
        if use is not None and use.holdings:  # a job came to it meanwhile: the next look
            return Decision(False)
        return Decision(True, [NodeSet(self._clock.now(), gone(name))])


def _reading(gpu: Gpu, problem: str | None) -> GpuReading:
    """What it is; how it feels, the engine does not say."""
    return GpuReading(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.gpu_type,
        gpu_type=gpu.gpu_type,
        memory_mib=gpu.mem_mib,
        nvlink_group=gpu.nvlink_group,
        numa_node=gpu.numa_node,
        slice_of=gpu.slice_of,
        problem=problem or gpu.problem,
    )
