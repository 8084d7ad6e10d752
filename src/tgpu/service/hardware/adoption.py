"""Adopts processes that were started by hand: each becomes a lease on its GPUs."""

from dataclasses import dataclass, replace

import msgspec

from tgpu.core.errors import Conflict, InvalidRequest, NotFound
from tgpu.core.model import lifecycle
from tgpu.core.model.events import Event, JobMoved, NodeSet
from tgpu.core.model.ids import DEFAULT_QUEUE, DEFAULT_TENANT, JobId, TenantId
from tgpu.core.model.job import Detail, Options, Request
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.node import Placement, Share
from tgpu.core.model.units import GPU
from tgpu.core.state.cluster_state import State
from tgpu.service.commands.jobs import JobCommands
from tgpu.service.commands.submission import Submission
from tgpu.service.hardware.node_hardware import Hardware, without_foreign
from tgpu.service.hardware.processes import Who, booted_at, is_same, look_up
from tgpu.service.recording.clock import Clock, boot_id
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store

_ADOPTED = "adopted"  # documents: the process of each adopted lease that is not over


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    started_at: int
    booted_at: int | None = None  # as the clock had it then
    boot: str = ""


class ProcessAdoption:
    def __init__(self, hardware: Hardware, writer: Writer, clock: Clock) -> None:
        self._hardware = hardware
        self._writer = writer
        self._clock = clock
        self._processes: dict[JobId, _Process] = {}

    @property
    def job_ids(self) -> frozenset[JobId]:
        return frozenset(self._processes)

    async def open(self, store: Store) -> None:
        for job_id, text in (await store.documents(_ADOPTED)).items():
            found = msgspec.json.decode(text, type=_Process)
            if found.booted_at is not None and found.boot == boot_id():
                # The clock may have been set since; when the machine was started has not changed.
                moved = found.started_at - found.booted_at + booted_at()
                found = replace(found, started_at=moved)
            self._processes[JobId(job_id)] = found

    async def adopt(
        self,
        jobs: JobCommands,
        state: State,
        pid: int,
        *,
        tenant_id: TenantId = DEFAULT_TENANT,
        queue: str = DEFAULT_QUEUE,
        name: str = "",
    ) -> JobId:
        """The id of a new lease with the GPUs that the process is on, for as long as it runs."""
        who, indexes = self._find(pid)
        shares = self._shares(state, indexes)
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
            await self._writer.do(lambda state: self._start(state, job_id, who, indexes), None)
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
            if not placed or not is_same(Who(process.pid, started_at=process.started_at)):
                over.append(job_id)
        if over:
            await self._writer.do(lambda state: self._complete(state, over), over)
            for job_id in over:
                self._processes.pop(job_id, None)

    def _find(self, pid: int) -> tuple[Who, list[int]]:
        """The process and the GPUs it is on; refuses what cannot be adopted."""
        who = look_up([pid])[pid]
        if not who.is_seen:
            raise NotFound("process", str(pid), "no process with this id runs here")
        on = [
            (index, there.claimed[pid])
            for index, there in sorted(self._hardware.processes.items())
            if pid in there.claimed
        ]
        if not on:
            raise InvalidRequest(
                "pid", pid, "this process uses no GPU; tgpu gpus shows those that do"
            )
        for _, claimed in on:
            if claimed.key is not None:
                raise Conflict(f"process {pid} belongs to job {claimed.key.job_id} already")
        return who, [index for index, _ in on]

    def _shares(self, state: State, indexes: list[int]) -> tuple[Share, ...]:
        """All of each GPU that no job has."""
        use = state.ledger.nodes[self._hardware.node_id]
        shares = tuple(Share(i, GPU - use.gpu_millis.get(i, 0)) for i in indexes)
        for share in shares:
            if share.millis <= 0:
                raise Conflict(
                    f"all of GPU {share.gpu_index} belongs to a job: nothing is left for a lease"
                )
        return shares

    def _start(self, state: State, job_id: JobId, who: Who, indexes: list[int]) -> Decision[None]:
        entry = state.entry(job_id)
        shares = self._shares(state, indexes)
        if entry is None or entry.job.request.gpu_millis != sum(s.millis for s in shares):
            raise Conflict("the GPUs of this process were given to a job meanwhile; try again")
        now = self._clock.now()
        node = state.ledger.nodes[self._hardware.node_id].node
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
        process = _Process(who.pid, who.started_at, booted_at(), boot_id())
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
