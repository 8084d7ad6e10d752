"""A fake cluster engine for tests: it places jobs itself, and fails as the test wants.

Slow: it takes launches and starts them when told. Forgetful: it drops by itself what is over.
Lossy: calls, answers and news get lost, launches arrive late, nodes fall silent. What a good engine
must keep all the same it keeps: nothing is started twice, and nothing behind its tombstone.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import Request
from tgpu.core.model.node import Gpu, Node, Part, Share
from tgpu.core.model.units import CPU, GPU
from tgpu.engines.api import (
    AttemptKey,
    Binding,
    Capabilities,
    EngineCapacity,
    EngineUnavailable,
    Launch,
    NodeCapacity,
    Observation,
    Phase,
    Place,
    PreemptionNotice,
    RecordedStart,
)
from tgpu.engines.fake import FakeEngine

TWO_NODES: Final[Mapping[str, int]] = {"a": 4, "b": 4}
GPU_TYPE: Final = "A100"
_GPU_MIB: Final = 81_920
_NODE_MIB: Final = 512 * 1024
_FULL: Final = "no node of the cluster has room"


class Loss(StrEnum):
    """What can go wrong at one point."""

    CALL = "call"  # it never arrives, and the caller is told that nobody answers
    ANSWER = "answer"  # it is carried out, and the caller is told that nobody answers
    LATE = "late"  # of a launch: taken, and carried out when `deliver` is called
    NEWS = "news"  # nobody is told; who asks, learns it


class FakeCluster(FakeEngine):
    """`loses(point, …)` is asked at each point what goes wrong there: a test draws it."""

    name = "fake cluster"

    def __init__(
        self,
        *,
        nodes: Mapping[str, int] = TWO_NODES,
        forgets_after: int | None = None,
        loses: Callable[[str], Loss | None] = lambda point: None,
        **given: object,
    ) -> None:
        """`forgets_after`: how many ends later an end is dropped; None: only when told."""
        super().__init__(**given)  # type: ignore[arg-type]  # of FakeEngine
        self.capabilities = Capabilities(binding=Binding.ENGINE, images=True, forgets=True)
        self.runs: list[RecordedStart] = []  # every start there ever was
        self.tombstones: set[AttemptKey] = set()
        self._forgets_after = forgets_after
        self.loses = loses
        self._free = {name: set(range(count)) for name, count in nodes.items()}
        self._gpus = dict(nodes)
        self._of_others: dict[str, set[int]] = {}
        self.told_at: int | None = None  # what it tells of its nodes is as old as this; None: new
        self._silent: set[str] = set()
        self._places: dict[AttemptKey, Place] = {}
        self._waiting: dict[AttemptKey, Observation] = {}  # taken, in their order
        self._late: list[tuple[Launch, int]] = []  # with their epochs
        self._requests: dict[AttemptKey, Request] = {}

    # -- the port ----------------------------------------------------------------------------------

    async def launch(self, launches: Sequence[Launch], *, epoch: int = 0) -> None:
        self._check_open()
        loss = self.loses("launch")
        if loss is Loss.LATE:
            self._late += [(launch, epoch) for launch in launches]
        elif loss is not Loss.CALL:
            self._check_epoch(epoch)
            self._take(launches)
        if loss in (Loss.CALL, Loss.ANSWER):
            raise EngineUnavailable("the fake cluster does not answer")

    async def stop(
        self,
        keys: Sequence[AttemptKey],
        notice: PreemptionNotice | None = None,
        *,
        epoch: int = 0,
    ) -> None:
        self._check_open()
        loss = self.loses("stop")
        if loss is not Loss.CALL:
            self._check_epoch(epoch)
            self.tombstones |= {key for key in keys if key not in self._ever}
            await super().stop(keys, notice, epoch=epoch)
        if loss in (Loss.CALL, Loss.ANSWER):
            raise EngineUnavailable("the fake cluster does not answer")

    async def observe(self) -> list[Observation]:
        if self.loses("observe") is not None:
            raise EngineUnavailable("the fake cluster does not answer")
        found = await super().observe()
        return [*self._waiting.values(), *(self._as_reached(seen) for seen in found)]

    async def capacity(self) -> EngineCapacity:
        self._check_open()
        if self.loses("capacity") is not None:
            raise EngineUnavailable("the fake cluster does not answer")
        at = self._clock() if self.told_at is None else self.told_at
        return EngineCapacity(tuple(map(self._node, self._gpus)), at)

    async def changes(self) -> AsyncIterator[list[Observation]]:
        async for batch in super().changes():
            told = [seen for seen in batch if self.loses("news") is None]
            if told:
                yield told

    # -- what a test makes happen ------------------------------------------------------------------

    def deliver(self) -> None:
        """Launches that were on the way arrive; those of who was overtaken meanwhile lose."""
        late, self._late = self._late, []
        self._take([launch for launch, epoch in late if epoch >= self.epoch])

    def bind(self) -> None:
        """Start what waits and fits, in its order."""
        for key in list(self._waiting):
            self.start(key)

    def start(self, key: AttemptKey) -> None:
        place = self._choose(key)
        if place is None:
            return
        self._waiting.pop(key, None)
        self._places[key] = place
        now = self._clock()
        self.runs.append(RecordedStart(key, now, is_alive=True, place=place))
        self._see(Observation(key, Phase.RUNNING, now, started_at=now, place=place))

    def give_to_others(self, node: str, count: int) -> None:
        """Others of the cluster have this many GPUs of a node from now on, of those that are free.

        Which they are, the cluster does not say.
        """
        self._free[node] |= self._of_others.pop(node, set())
        taken = self._of_others[node] = set(sorted(self._free[node])[:count])
        self._free[node] -= taken

    def remove_node(self, node: str) -> None:
        """The cluster no longer has it."""
        del self._gpus[node]
        self._free.pop(node)

    def silence(self, node: str) -> None:
        """Nothing is heard of this node: what is on it is out of reach, and not over."""
        self._silent.add(node)
        self._tell_everything()

    def hear(self, node: str) -> None:
        self._silent.discard(node)
        self._tell_everything()

    def vanish(self, key: AttemptKey) -> None:
        """It is gone, with every record of it but that it was started."""
        self._release(Observation(key, Phase.LOST, self._clock()))
        super().vanish(key)
        self._ends.pop(key, None)
        self._waiting.pop(key, None)

    def running(self) -> list[AttemptKey]:
        return list(self._places)

    # -- inside ------------------------------------------------------------------------------------

    def _take(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            if launch.key in self._ever:
                self._tell_again(launch.key)
                continue
            self._ever.add(launch.key)
            self._known[launch.key] = None
            self._requests[launch.key] = launch.request
            self.launched.append(launch)
            self._wait(launch.key, _FULL)
            if self.starts:
                self.start(launch.key)

    def _node(self, name: str) -> NodeCapacity:
        problem = f"node {name} does not answer" if name in self._silent else None
        gpus = tuple(
            Gpu(index, f"{name}-{index}", GPU_TYPE, _GPU_MIB, problem=problem)
            for index in range(self._gpus[name])
        )
        node = Node(NodeId(name), gpus, 64 * CPU, _NODE_MIB, engine=self.name)
        return NodeCapacity(node, len(self._of_others.get(name, ())))

    def _wait(self, key: AttemptKey, cause: str) -> None:
        taken = Observation(key, Phase.TAKEN, self._clock(), cause=cause)
        self._waiting[key] = taken
        self._news.append(taken)
        self._wake.set()

    def _choose(self, key: AttemptKey) -> Place | None:
        """The node with most room, and its lowest GPUs. One GPU for each begun one."""
        count = -(-self._requests[key].gpu_millis // GPU)
        heard = {name: free for name, free in self._free.items() if name not in self._silent}
        node = max(heard, key=lambda name: (len(heard[name]), name), default="")
        if not node or len(heard[node]) < count:
            return None
        gpus = sorted(heard[node])[:count]
        heard[node].difference_update(gpus)
        part = Part(NodeId(node), tuple(Share(gpu, GPU) for gpu in gpus))
        return Place((part,), f"fake-{len(self.runs) + 1}")

    def _see(self, seen: Observation) -> None:
        self._waiting.pop(seen.key, None)
        if seen.is_over:
            self._release(seen)
        super()._see(seen if seen.is_over else self._as_reached(seen))
        # What is kept is the truth; that its node is silent is how it is told.
        self._known[seen.key] = seen
        if seen.is_over and self._forgets_after is not None:
            self._forget_old(self._forgets_after)

    def _release(self, end: Observation) -> None:
        place = self._places.pop(end.key, None)
        for part in () if place is None else place.parts:
            if part.node_id in self._free:
                self._free[part.node_id].update(share.gpu_index for share in part.shares)
        self.runs = [
            replace(run, ended_at=end.at, is_alive=False)
            if run.key == end.key and run.is_alive
            else run
            for run in self.runs
        ]

    def _forget_old(self, kept: int) -> None:
        over = [(key, seen) for key, seen in self._known.items() if seen is not None]
        over = [(key, seen) for key, seen in over if seen.is_over]
        for key, seen in over[: max(0, len(over) - kept)]:
            self._drop(key, seen)

    def _as_reached(self, seen: Observation) -> Observation:
        nodes = () if seen.place is None else seen.place.nodes
        silent = [name for name in nodes if name in self._silent]
        if seen.is_over or not silent:
            return seen
        cause = f"node {silent[0]} does not answer"
        return replace(seen, phase=Phase.UNREACHABLE, cause=cause)

    def _tell_everything(self) -> None:
        known = [seen for seen in self._known.values() if seen is not None]
        self._news += [*self._waiting.values(), *(self._as_reached(seen) for seen in known)]
        self._wake.set()
