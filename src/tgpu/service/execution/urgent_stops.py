"""Cancels that the store cannot record yet: the engine stops the job at once, the record follows.

Everything else is recorded before it is done. An end that was asked for is the one thing that may
go the other way round: it takes nothing from anybody, it may be repeated, and the engine keeps for
itself that it was told, so whoever comes after us sees that the job was stopped and did not fail by
itself.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from tgpu.core.errors import SchedulerError
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import PLACED, JobState
from tgpu.core.state.cluster_state import State
from tgpu.engines.api import Engine, EngineUnavailable
from tgpu.service.attempt_key import attempt_key
from tgpu.service.commands.selection_commands import Changed
from tgpu.service.recording import audit
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import StoreUnavailable

_log = structlog.get_logger("gpu_scheduler.attempts")

_RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Cancelled:
    state: JobState
    unrecorded: str | None = None  # why it is not on record yet, though the engine was told


class UrgentStops:
    def __init__(
        self,
        state: State,
        engine: Engine,
        writer: Writer,
        record: Callable[[JobId], Awaitable[object]],
        epoch: int = 0,
    ) -> None:
        """`record` puts a cancel on record, and raises StoreUnavailable while it cannot."""
        self._state = state
        self._engine = engine
        self._writer = writer
        self._record = record
        self._epoch = epoch
        self._recording: dict[JobId, asyncio.Task[None]] = {}

    async def stop(self, job_id: JobId, problem: StoreUnavailable) -> Cancelled:
        """End a job that runs. Raises the problem where there is nothing that could be ended."""
        entry = self._state.entry(job_id)
        if entry is None or entry.progress.state not in PLACED or entry.job.options.lease:
            raise problem
        try:
            key = attempt_key(entry.job, entry.progress.attempt)
            await self._engine.stop([key], epoch=self._epoch)
        except EngineUnavailable as error:
            raise StoreUnavailable(
                f"{problem}; and the engine cannot be told to end job {job_id}: {error}"
            ) from None
        _log.warning("a job is ended before that is on record", job_id=job_id, problem=str(problem))
        if job_id not in self._recording:
            # A task of this very call: the audit row of the record names who asked for it.
            task = asyncio.create_task(self._keep_trying(job_id), name=f"cancel {job_id}")
            self._recording[job_id] = task
            task.add_done_callback(lambda _: self._recording.pop(job_id, None))
        return Cancelled(entry.progress.state, str(problem))

    async def stop_all(
        self, job_ids: Iterable[JobId], states: Collection[JobState], problem: StoreUnavailable
    ) -> Changed:
        """The same for those of many that run; the rest is left as it is."""
        moved: dict[JobId, JobState] = {}
        for job_id in job_ids:
            entry = self._state.entry(job_id)
            if entry is None or (states and entry.progress.state not in states):
                continue
            if entry.progress.state in PLACED and not entry.job.options.lease:
                moved[job_id] = (await self.stop(job_id, problem)).state
        if not moved:
            raise problem
        return Changed(moved, {}, unrecorded=str(problem))

    def problems(self) -> list[str]:
        if not self._recording:
            return []
        jobs = ", ".join(list(self._recording)[:5])
        return [f"cancels carried out but not recorded yet: {len(self._recording)} (job {jobs})"]

    async def close(self) -> None:
        tasks = list(self._recording.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_trying(self, job_id: JobId) -> None:
        while True:
            try:
                await self._record(job_id)
                return
            except StoreUnavailable:
                await asyncio.sleep(_RETRY_SECONDS)
            except SchedulerError:  # over by now: its end is on record, as one that was stopped
                await self._name_who_asked()
                return

    async def _name_who_asked(self) -> None:
        trail = audit.current()
        if trail is None:
            return
        row = trail.row(audit.OK, "ended before it could be recorded")
        with contextlib.suppress(SchedulerError):
            await self._writer.do(lambda _: Decision(None, audit=[row]), [])
