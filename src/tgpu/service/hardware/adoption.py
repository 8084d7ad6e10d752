"""Adopts processes that were started by hand: each becomes a lease on its GPUs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from tgpu.core.errors import Conflict, InvalidRequest, NotFound
from tgpu.core.model import lifecycle
from tgpu.core.model.events import Event, JobMoved, NodeSet
from tgpu.core.model.ids import DEFAULT_QUEUE, DEFAULT_TENANT, JobId, NodeId, TenantId
from tgpu.core.model.job import Detail, Options, Request
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.node import Placement, Share
from tgpu.core.model.units import GPU
from tgpu.core.state.cluster_state import State
from tgpu.engines.node_processes import Boot, NodeProcesses, Who
from tgpu.service.commands.gpu_choice import NO_ENGINE, gpu_word
from tgpu.service.commands.jobs import JobCommands
from tgpu.service.commands.submission import Submission
from tgpu.service.hardware.node_hardware import Hardware, without_foreign
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store

_ADOPTED = "adopted"  # documents: the process of each adopted lease that is not over


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    started_at: int
    booted_at: int | None = None  # as the clock had it then
    boot: str = ""
    node: str = ""  # "" in rows of versions that knew one node


class ProcessAdoption:
    """On every node whose processes can be seen."""

    def __init__(
        self,
        known_hardware: Callable[[], Sequence[Hardware]],
        writer: Writer,
        clock: Clock,
        *,
        first: NodeId,
    ) -> None:
        """`first` is the node of processes that are on record without one."""
        self._known_hardware = known_hardware
        self._writer = writer
        self._clock = clock
        self._first = first
        self._processes: dict[JobId, _Process] = {}

    @property
    def job_ids(self) -> frozenset[JobId]:
        return frozenset(self._processes)

    async def open(self, store: Store) -> None:
        for job_id, text in (await store.documents(_ADOPTED)).items():
            found = msgspec.json.decode(text, type=_Process)
            found = replace(found, node=found.node or self._first)
            boot = await self._boot(found.node)
            if found.booted_at is not None and boot is not None and found.boot == boot.boot_id:
                # The clock may have been set since; when the machine was started has not changed.
                found = replace(found, started_at=found.started_at - found.booted_at + boot.at)
            self._processes[JobId(job_id)] = found

    async def adopt(
        self,
        jobs: JobCommands,
        state: State,
        pid: int,
        *,
        node: str | None = None,
        tenant_id: TenantId = DEFAULT_TENANT,
        queue: str = DEFAULT_QUEUE,
        name: str = "",
    ) -> JobId:
        """The id of a new lease with the GPUs that the process is on, for as long as it runs."""
        found = await self._find(pid, node)
        shares = self._shares(state, found)
        who = found.who
        submitted = await jobs.submit(
            Submission(
                # On hold until it has its GPUs, so that no cycle gives it others.
                request=Request(sum(share.millis for share in shares)),
                tenant_id=tenant_id,
                queue=queue,
                options=Options(lease=True, user=who.user or "", preemptible=False),
                held=True,
                detail=Detail(name=name or who.command or f"process {pid}", user=who.user or ""),
            )
        )
        job_id = submitted.base_id
        try:
            await self._writer.do(lambda state: self._start(state, job_id, found), None)
        except Conflict as error:
            await jobs.cancel(job_id, str(error))
            raise
        return job_id

    async def watch(self, state: State) -> None:
        """Complete the leases whose process is gone."""
        over = []
        for job_id, process in sorted(self._processes.items()):
            entry = state.entry(job_id)
            placed = entry is not None and entry.progress.state is JobState.RUNNING
            if not placed or not self._may_run(process):
                over.append(job_id)
        if over:
            await self._writer.do(lambda state: self._complete(state, over), over)
            for job_id in over:
                self._processes.pop(job_id, None)

    async def _find(self, pid: int, node: str | None) -> "_Found":
        """The process and the GPUs it is on; refuses what cannot be adopted."""
        there = [each for each in self._visible(node) if _gpus_with(each, pid)]
        if len(there) > 1:
            names = ", ".join(each.node_id for each in there)
            raise Conflict(f"nodes {names} each have a process {pid}: say on which node it runs")
        for hardware in there or self._visible(node):
            processes = hardware.node_processes
            assert processes is not None
            who = (await processes.look_up([pid], {}))[pid]
            if who.is_seen:
                indexes = _gpus_of_nobody(hardware, pid)
                return _Found(hardware.node_id, who, indexes, await processes.boot())
        where = "here" if node is None else f"on node {node}"
        raise NotFound("process", str(pid), f"no process with this id runs {where}")

    def _visible(self, node: str | None) -> list[Hardware]:
        """Where processes can be seen; refuses a node where they cannot, or that is not there."""
        known = self._known_hardware()
        named = [each for each in known if node in (None, each.node_id)]
        if not named:
            names = ", ".join(each.node_id for each in known)
            raise NotFound("node", str(node), f"there are: {names}")
        found = [each for each in named if each.node_processes is not None]
        if not found:
            names = ", ".join(each.node_id for each in named)
            raise Conflict(
                f"the processes of node {names} cannot be seen from here, so whose they are is not "
                "known and none can be adopted"
            )
        return found

    async def _boot(self, node: str) -> Boot | None:
        processes = self._processes_of(node)
        return None if processes is None else await processes.boot()

    def _processes_of(self, node: str) -> NodeProcesses | None:
        there = (each for each in self._known_hardware() if each.node_id == node)
        hardware = next(there, None)
        return None if hardware is None else hardware.node_processes

    def _may_run(self, process: _Process) -> bool:
        """Of a node that nobody can look at, nothing is known to be gone."""
        processes = self._processes_of(process.node)
        who = Who(process.pid, started_at=process.started_at)
        return processes is None or processes.may_run(who)

    @staticmethod
    def _shares(state: State, found: "_Found") -> tuple[Share, ...]:
        """All of each GPU that no job has."""
        use = state.ledger.nodes.get(found.node_id)
        if use is None:
            raise Conflict(f"node {found.node_id} only reports: {NO_ENGINE}")
        shares = tuple(Share(i, GPU - use.gpu_millis.get(i, 0)) for i in found.gpu_indexes)
        for share in shares:
            if share.millis <= 0:
                name = gpu_word(state.ledger, found.node_id, share.gpu_index)
                raise Conflict(f"all of GPU {name} belongs to a job: nothing is left for a lease")
        return shares

    def _start(self, state: State, job_id: JobId, found: "_Found") -> Decision[None]:
        entry = state.entry(job_id)
        shares = self._shares(state, found)
        if entry is None or entry.job.request.gpu_millis != sum(s.millis for s in shares):
            raise Conflict("the GPUs of this process were given to a job meanwhile; try again")
        now, who, indexes = self._clock.now(), found.who, found.gpu_indexes
        node = state.ledger.nodes[found.node_id].node
        types = {gpu.index: gpu.gpu_type for gpu in node.gpus}
        placement = Placement(node.node_id, types[indexes[0]], shares)
        free = lifecycle.hold(job_id, entry.progress, held=False)
        placed = lifecycle.place(job_id, free, placement, now)
        running = lifecycle.run(job_id, placed, now, who.pid)
        events: list[Event] = [
            JobMoved(now, job_id, Move.RELEASE, free),
            JobMoved(now, job_id, Move.START, placed),
            JobMoved(now, job_id, Move.RUN, running),
            # It is ours from here on; the next reading would say so too.
            NodeSet(now, without_foreign(node, indexes)),
        ]
        assert who.started_at is not None
        boot = found.boot
        process = _Process(who.pid, who.started_at, boot.at, boot.boot_id, node.node_id)
        return Decision(
            None,
            events,
            documents={(_ADOPTED, job_id): msgspec.json.encode(process)},
            applied=lambda: self._processes.setdefault(job_id, process),
        )

    def _complete(self, state: State, over: list[JobId]) -> Decision[None]:
        now = self._clock.now()
        events = []
        for job_id in over:
            entry = state.entry(job_id)
            if entry is not None and entry.progress.state is JobState.RUNNING:
                cause = "its process ended"
                ended = lifecycle.end(
                    job_id, entry.progress, JobState.COMPLETED, now, exit_code=0, cause=cause
                )
                events.append(JobMoved(now, job_id, Move.COMPLETE, ended))
        return Decision(None, events, documents={(_ADOPTED, job_id): None for job_id in over})


@dataclass(frozen=True, slots=True)
class _Found:
    """A process that may be adopted."""

    node_id: NodeId
    who: Who
    gpu_indexes: list[int]
    boot: Boot


def _gpus_with(hardware: Hardware, pid: int) -> list[int]:
    return [i for i, there in sorted(hardware.processes.items()) if pid in there.claimed]


def _gpus_of_nobody(hardware: Hardware, pid: int) -> list[int]:
    """The GPUs that a process of no job is on."""
    indexes = _gpus_with(hardware, pid)
    if not indexes:
        remedy = "this process uses no GPU; tgpu gpus shows those that do"
        raise InvalidRequest("pid", pid, remedy)
    for index in indexes:
        key = hardware.processes[index].claimed[pid].key
        if key is not None:
            raise Conflict(f"process {pid} belongs to job {key.job_id} already")
    return indexes
