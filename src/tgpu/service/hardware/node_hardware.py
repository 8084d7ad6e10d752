"""Keeps the node in the state in step with its devices, and GPUs paused as requested.

What a reading means is decided in the core: heat, health, foreign use, slowness.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from tgpu.core.capacity.ledger import NodeUse
from tgpu.core.hardware.external_use import (
    ExternalUse,
    ExternalUseRules,
    ExternalUseWatch,
    watch_external_use,
)
from tgpu.core.hardware.health import (
    HEALTHY,
    GpuHealth,
    Signs,
    examine,
    hardware_cause,
    problem_of,
    vouched,
)
from tgpu.core.hardware.slowness import Lag, Pace, SlownessRules, reports, watch_pace
from tgpu.core.model.events import Event, JobMoved, NodeSet
from tgpu.core.model.heat import Heat, HeatLimits, heat_of
from tgpu.core.model.ids import NodeId
from tgpu.core.model.lifecycle import PLACED
from tgpu.core.model.node import Gpu, GpuName, Node
from tgpu.core.state.cluster_state import Entry, State
from tgpu.devices.api import GpuReading, Snapshot
from tgpu.engines.api import AttemptKey
from tgpu.engines.node_processes import NodeProcesses, Who
from tgpu.service.attempt_key import attempt_key
from tgpu.service.commands.gpu_choice import chosen_gpu, gpu_word
from tgpu.service.hardware.processes import Belongs, Claimed, Ownership
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store

_HEALTH = "gpu_health"  # documents: what is remembered of each GPU's errors, by UUID
_OTHERS = "others of the cluster have it"
_NAMED = 3  # processes that a sentence names


@dataclass(frozen=True, slots=True)
class HardwareRules:
    """When a GPU takes no new job. None of a kind: nobody looks."""

    heat: HeatLimits | None = None
    foreign: ExternalUseRules | None = None
    slowness: SlownessRules = field(default_factory=SlownessRules)
    probation_ms: int = 0


@dataclass(frozen=True, slots=True)
class GpuProcesses:
    """The processes on one GPU at the last reading, and whose they are."""

    whos: tuple[Who, ...] = ()
    claimed: Mapping[int, Claimed] = field(default_factory=dict)  # by pid

    def of(self, belongs: Belongs) -> list[Who]:
        return [who for who in self.whos if self.claimed[who.pid].belongs is belongs]


class Hardware:
    """One machine's GPUs. `snapshot` is the newest reading, for those who show it."""

    def __init__(
        self,
        node_id: NodeId,
        cpu_millis: int,
        mem_mib: int,
        *,
        simulated: bool,
        rules: HardwareRules | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        engine: str = "local",
        node_processes: NodeProcesses | None = None,
        health_prefix: str | None = None,
    ) -> None:
        """Without `rules` no GPU is ever too hot, used by others or on probation. `engine` runs
        jobs there, "" for none; without `node_processes` nobody can say whose processes are there.
        `health_prefix` stands before the UUIDs in its documents, the node's name unless told:
        simulated GPUs of two nodes have the same ones."""
        self.node_id = node_id
        self.simulated = simulated
        self.engine = engine
        self.node_processes = node_processes
        self._health_prefix = node_id if health_prefix is None else health_prefix
        self.cpu_millis = cpu_millis
        self.mem_mib = mem_mib
        self._labels = labels
        self.rules = rules or HardwareRules()
        self.ownership = Ownership()
        self.held_by_others = 0  # of its GPUs, where an engine says so and not which
        self.snapshot: Snapshot | None = None
        self.processes: dict[int, GpuProcesses] = {}  # by GPU index
        self.slow: dict[int, str] = {}  # what to tell of GPUs that lag, by index
        self._measured = asyncio.Event()
        self._health: dict[str, GpuHealth] = {}  # by UUID
        self._recorded: dict[str, GpuHealth] = {}  # as the store has it
        self._foreign: dict[str, ExternalUseWatch] = {}
        self._lags: dict[int, Lag] = {}
        self._steady = 0  # when the last reading was taken, on a clock that nobody sets

    async def open(self, store: Store) -> None:
        """Remember what was known of the GPUs before the last stop."""
        known = {
            uuid: msgspec.json.decode(text, type=GpuHealth)
            for name, text in (await store.documents(_HEALTH)).items()
            for node_id, _, uuid in (name.rpartition(" "),)
            if node_id == self._health_prefix
        }
        # Errors are counted from each start of the driver's reader anew.
        self._recorded = dict(known)
        self._health = {uuid: replace(health, xid_seen=0) for uuid, health in known.items()}

    def _document(self, uuid: str) -> tuple[str, str]:
        return _HEALTH, f"{self._health_prefix} {uuid}".lstrip()

    async def next_reading(self) -> Snapshot:
        """The next reading, when it comes. Who is busy then gets the one after."""
        await self._measured.wait()
        assert self.snapshot is not None
        return self.snapshot

    def fresh_readings(self) -> tuple[GpuReading, ...]:
        """The newest, where it is no old one: a driver that fails tells what it said before."""
        snapshot = self.snapshot
        return snapshot.gpus if snapshot is not None and snapshot.problem is None else ()

    async def observe(
        self,
        snapshot: Snapshot,
        writer: Writer,
        clock: Clock,
        told: Mapping[int, Who] | None = None,
    ) -> bool:
        """Take in a reading; whether anything that decides has changed. `told` is what another
        machine says of the processes there: their numbers mean others here.

        Looks first, and asks for a turn of the writer only where there is something to record:
        every end of a job comes here.
        """
        pids = [process.pid for gpu in snapshot.gpus for process in gpu.processes]
        seen = {who.pid: who for there in self.processes.values() for who in there.whos}
        if self.node_processes is None:
            whos = {pid: (told or {}).get(pid, Who(pid)) for pid in pids}
        else:
            whos = await self.node_processes.look_up(pids, seen) if pids else {}
        self.snapshot = snapshot
        self._measured.set()
        self._measured = asyncio.Event()
        self._steady = clock.steady()
        now = clock.now()
        before = writer.state.ledger.known_node(self.node_id)
        node = self._examined(writer.state, snapshot, whos, now)
        if node == before and not self._new_health():
            return False

        known: dict[str, GpuHealth] = {}

        def decide(state: State) -> Decision[bool]:
            nonlocal node
            is_now = state.ledger.known_node(self.node_id)
            if is_now is not before:
                # Paused, quarantined, …: what was decided meanwhile must not be undone.
                node = self._examined(state, snapshot, whos, now)
            changed = node != is_now
            known.update(self._health)
            events = [NodeSet(now, node)] if changed else []
            applied = partial(self._health_recorded, known)
            return Decision(changed, events, documents=self._new_health(), applied=applied)

        return await writer.do(decide, touches=None)

    async def pause(self, index: int, reason: str | None, writer: Writer, clock: Clock) -> None:
        """Give a GPU no new jobs (with a reason), or again (None), which ends its probation."""

        known: dict[str, GpuHealth] = {}

        def decide(state: State) -> Decision[None]:
            chosen_gpu(state.ledger, GpuName(self.node_id, index))
            use = state.ledger.nodes[self.node_id]
            gpu = next(gpu for gpu in use.node.gpus if gpu.index == index)
            changed = replace(gpu, paused=reason)
            if reason is None and gpu.uuid in self._health:
                health = self._health[gpu.uuid]
                if gpu.problem == problem_of(health, self.rules.probation_ms):
                    changed = replace(changed, problem=None)
                self._health[gpu.uuid] = vouched(health)
            node = _with_gpus(use.node, {gpu.index: changed})
            events = [NodeSet(clock.now(), node)]
            known.update(self._health)
            applied = partial(self._health_recorded, known)
            return Decision(None, events, documents=self._new_health(), applied=applied)

        await writer.do(decide, touches=None)

    # -- the clock is set --------------------------------------------------------------------------

    def step_documents(self, by: int) -> dict[tuple[str, str], bytes | None]:
        """Faults are compared with when jobs began, and those go along with the clock."""
        return {
            self._document(uuid): msgspec.json.encode(health)
            for uuid, health in sorted(_stepped(self._health, by).items())
        }

    def step(self, by: int) -> None:
        self._health = _stepped(self._health, by)
        self._recorded = dict(self._health)

    def _health_recorded(self, known: dict[str, GpuHealth]) -> None:
        self._recorded = known

    # -- the end of attempts -----------------------------------------------------------------------

    def cause_of(self, state: State, entry: Entry) -> str | None:
        """What its GPUs have had since a job started that may have made it fail."""
        by_index = {
            gpu.index: self._health[gpu.uuid]
            for gpu in (self.snapshot.gpus if self.snapshot is not None else ())
            if gpu.uuid in self._health
        }
        progress = entry.progress
        if progress.placement is None:
            return None
        name = partial(gpu_word, state.ledger, self.node_id)
        return hardware_cause(progress.placement, progress.started_at, self.node_id, by_index, name)

    def quarantine(self, state: State, moves: Sequence[Event], now: int) -> list[NodeSet]:
        """Keep GPUs back on which something of the attempts that end by these moves still runs.

        To be recorded together with the moves: between the two nobody may get these GPUs.
        """
        use = state.ledger.nodes.get(self.node_id)
        over = {
            attempt_key(entry.job, move.progress.attempt)
            for move in moves
            if isinstance(move, JobMoved) and move.progress.state not in PLACED
            if (entry := state.entry(move.job_id)) is not None
        }
        if use is None or not over:
            return []
        changed = {}
        for gpu in use.node.gpus:
            there = self.processes.get(gpu.index, GpuProcesses())
            left = [who for who in there.whos if there.claimed[who.pid].key in over]
            left = [who for who in left if self.may_run(who)]
            if left and gpu.problem is None:
                key = there.claimed[left[0].pid].key
                changed[gpu.index] = replace(gpu, problem=_quarantined(left[0], key))
        return [NodeSet(now, _with_gpus(use.node, changed))] if changed else []

    def may_run(self, who: Who) -> bool:
        """Whether a process of this node may still run; what nobody can look at may."""
        return self.node_processes is None or self.node_processes.may_run(who)

    def survivors(self) -> list[Who]:
        """Processes of attempts that are over, each once."""
        found = {
            who.pid: who for there in self.processes.values() for who in there.of(Belongs.SURVIVOR)
        }
        return [found[pid] for pid in sorted(found)]

    # -- what a reading means ------------------------------------------------------------------

    def _examined(
        self, state: State, snapshot: Snapshot, whos: Mapping[int, Who], now: int
    ) -> Node:
        use = state.ledger.nodes.get(self.node_id)
        before = state.ledger.known_node(self.node_id)
        self._claim(state, use, snapshot, whos)
        self._watch_pace(snapshot)
        node = self._node(snapshot, before, use, now)
        if before is not None and snapshot.problem is not None and not node.gpus:
            return _out_of_reach(before, snapshot.problem)
        return node

    def _claim(
        self, state: State, use: NodeUse | None, snapshot: Snapshot, whos: Mapping[int, Who]
    ) -> None:
        self.ownership.begin(state, self.node_id, whos)
        self.processes = {}
        for gpu in snapshot.gpus if use is not None else ():
            assert use is not None
            there = tuple(whos[process.pid] for process in gpu.processes)
            claims = {who.pid: self.ownership.claim(state, use, gpu.index, who) for who in there}
            self.processes[gpu.index] = GpuProcesses(there, claims)

    def _watch_pace(self, snapshot: Snapshot) -> None:
        paces = [
            Pace(g.index, g.gpu_type, g.sm_clock_mhz, g.utilisation_percent, g.throttle)
            for g in snapshot.gpus
        ]
        rules = self.rules.slowness
        self._lags = watch_pace(self._lags, paces, self._steady, rules)
        self.slow = reports(self._lags, self._steady, rules)

    def _node(self, snapshot: Snapshot, known: Node | None, use: NodeUse | None, now: int) -> Node:
        # By UUID: an index may name another card after a reboot.
        before = {gpu.uuid: gpu for gpu in (known.gpus if known is not None else ())}
        gpus = tuple(
            Gpu(
                index=reading.index,
                uuid=reading.uuid,
                gpu_type=reading.gpu_type,
                mem_mib=reading.memory_mib,
                nvlink_group=reading.nvlink_group,
                numa_node=reading.numa_node,
                slice_of=reading.slice_of,
                problem=self._problem(reading, snapshot, now),
                paused=before[reading.uuid].paused if reading.uuid in before else None,
                foreign=self._foreign_use(reading, before.get(reading.uuid), use),
                heat=self._heat(reading, before.get(reading.uuid)),
            )
            for reading in snapshot.gpus
        )
        return Node(
            self.node_id,
            held_out(gpus, use, self.held_by_others),
            self.cpu_millis,
            self.mem_mib,
            self.simulated,
            self._labels,
            self.engine,
        )

    def _problem(self, reading: GpuReading, snapshot: Snapshot, now: int) -> str | None:
        if reading.problem is not None and snapshot.problem is not None:
            return reading.problem  # the driver as a whole: nothing is known of the GPU itself
        signs = Signs(
            lost=reading.problem,
            ecc_uncorrected=reading.ecc_uncorrected,
            remap_pending=reading.remap_pending,
            remap_failed=reading.remap_failed,
            xids=reading.xids,
            xid_count=reading.xid_count,
        )
        before = self._health.get(reading.uuid, HEALTHY)
        health = examine(before, signs, now, self.rules.probation_ms)
        if health != HEALTHY:
            self._health[reading.uuid] = health
        left = self.processes.get(reading.index, GpuProcesses()).of(Belongs.SURVIVOR)
        problem = problem_of(health, self.rules.probation_ms)
        if problem is None and left:
            key = self.processes[reading.index].claimed[left[0].pid].key
            problem = _quarantined(left[0], key)
        return problem

    def _new_health(self) -> dict[tuple[str, str], bytes | None]:
        return {
            self._document(uuid): msgspec.json.encode(health)
            for uuid, health in sorted(self._health.items())
            if health != self._recorded.get(uuid)
        }

    def _foreign_use(
        self, reading: GpuReading, before: Gpu | None, use: NodeUse | None
    ) -> str | None:
        rules = self.rules.foreign
        # Where no job can be, nobody decides by it: no need to put it on record.
        if rules is None or reading.problem is not None or not self.engine:
            return None
        there = self.processes.get(reading.index, GpuProcesses())
        ours = use is not None and use.gpu_millis.get(reading.index, 0) > 0
        ours = ours or bool(there.of(Belongs.SURVIVOR))
        # Who cannot be seen may well be ours where we have jobs, and is not where we have none.
        others = there.of(Belongs.FOREIGN) + ([] if ours else there.of(Belongs.UNSEEN))
        watch = self._foreign.get(reading.uuid, ExternalUseWatch(taken=_is_taken(before)))
        pids = tuple(sorted(who.pid for who in others))
        after = watch_external_use(watch, _foreign_use_of(reading, pids, ours), self._steady, rules)
        self._foreign[reading.uuid] = after
        if not after.taken:
            return None
        known = before.foreign if before is not None else None
        if known is not None and watch.taken and watch.pids == pids:
            return known  # its figures change with every reading, and nobody decides by them
        return _foreign_sentence(reading, others)

    def _heat(self, reading: GpuReading, before: Gpu | None) -> Heat:
        if self.rules.heat is None or not self.engine:
            return Heat.COOL
        last = before.heat if before is not None else Heat.COOL
        return heat_of(reading.temperature_c, last, self.rules.heat)


def _is_taken(before: Gpu | None) -> bool:
    return before is not None and before.foreign is not None


def _foreign_use_of(reading: GpuReading, pids: Sequence[int], ours: bool) -> ExternalUse:
    theirs = [process for process in reading.processes if process.pid in pids]
    held = [process.memory_mib for process in theirs if process.memory_mib is not None]
    loads = [process.sm_percent for process in theirs if process.sm_percent is not None]
    alone = len(theirs) == len(reading.processes) and bool(theirs)
    return ExternalUse(
        memory_mib=reading.memory_mib,
        pids=tuple(pids),
        held_mib=sum(held) if held else None,
        # The driver tells whose a load is only where several share it.
        load_percent=min(100, sum(loads))
        if loads
        else (reading.utilisation_percent if alone else None),
        ours=ours,
        used_mib=reading.memory_used_mib,
        busy_percent=reading.utilisation_percent,
    )


def _foreign_sentence(reading: GpuReading, others: Sequence[Who]) -> str:
    memory = {process.pid: process.memory_mib for process in reading.processes}
    if not others:
        used = reading.memory_used_mib or 0
        load = reading.utilisation_percent or 0
        return f"used by processes that are not listed: {used} MiB of memory, {load}% busy"
    ranked = sorted(others, key=lambda who: (-(memory.get(who.pid) or 0), who.pid))
    named = [
        f"{who.user or 'somebody'}'s process {who.pid}"
        + (f" ({who.command})" if who.command else "")
        + ("" if memory.get(who.pid) is None else f" with {memory[who.pid]} MiB")
        for who in ranked[:_NAMED]
    ]
    more = len(ranked) - _NAMED
    return "used by " + ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _quarantined(who: Who, key: AttemptKey | None) -> str:
    of = f" of job {key.job_id}" if key is not None else ""
    return f"quarantined: process {who.pid}{of} is still running"


def _with_gpus(node: Node, changed: Mapping[int, Gpu]) -> Node:
    return replace(node, gpus=tuple(changed.get(gpu.index, gpu) for gpu in node.gpus))


def held_out(gpus: tuple[Gpu, ...], use: NodeUse | None, count: int) -> tuple[Gpu, ...]:
    """The same with as many GPUs in other hands, of those that no job of ours has.

    Which they are nobody knows, and nobody need: they are counted. The last ones, so that it stays
    the same ones from look to look.
    """
    if not count:
        return gpus
    ours = {} if use is None else use.gpu_millis
    free = [gpu.index for gpu in gpus if not ours.get(gpu.index, 0)]
    taken = set(sorted(free)[-count:])
    return tuple(replace(gpu, foreign=_OTHERS) if gpu.index in taken else gpu for gpu in gpus)


def without_foreign(node: Node, indexes: Sequence[int]) -> Node:
    """The same with these GPUs no longer used by others."""
    free = {g.index: replace(g, foreign=None) for g in node.gpus if g.index in indexes}
    return _with_gpus(node, free)


def _out_of_reach(node: Node, problem: str) -> Node:
    # A driver that tells nothing has not taken the GPUs away, nor what an operator said of them.
    return replace(node, gpus=tuple(replace(gpu, problem=problem) for gpu in node.gpus))


def _stepped(known: Mapping[str, GpuHealth], by: int) -> dict[str, GpuHealth]:
    return {
        uuid: replace(
            health,
            fault_at=health.fault_at + by if health.fault_at else 0,
            clean_since=None if health.clean_since is None else health.clean_since + by,
        )
        for uuid, health in known.items()
    }
