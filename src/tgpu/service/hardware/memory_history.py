"""Records the peak GPU memory of jobs by model.

A peak is written down as it grows, not when a job ends: so a service that is killed loses little.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.prediction.model_size import key_of, model_of
from tgpu.core.state.cluster_state import Entry, State
from tgpu.service.hardware.node_hardware import GpuProcesses, Hardware
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import JobQuery, Store

_JOB: Final = "job_peak"  # documents: MiB, by job
_MODEL: Final = "model_peak"  # documents: the last runs, by model
_JOBS_KEPT: Final = 10_000
_MODELS_KEPT: Final = 2_000
_RUNS_KEPT: Final = 20
_LONGEST_NAME: Final = 200
# A peak that has grown by less than this is not worth a disk flush.
_GROWTH_PERCENT: Final = 5
_GROWTH_MIB: Final = 64

Documents = dict[tuple[str, str], bytes | None]


@dataclass(frozen=True, slots=True)
class ModelRun:
    """One job of a model."""

    job_id: str
    peak_mib: int  # of one worker, over all its GPUs


@dataclass(frozen=True, slots=True)
class ModelPeaks:
    """The last runs of a model, oldest first."""

    runs: tuple[ModelRun, ...] = ()
    count: int = 0  # of all runs, also those no longer listed

    @property
    def highest_mib(self) -> int:
        return max((run.peak_mib for run in self.runs), default=0)

    def with_run(self, new: ModelRun) -> "ModelPeaks":
        """A run that is listed already has grown."""
        for place, run in enumerate(self.runs):
            if run.job_id == new.job_id:
                return replace(self, runs=(*self.runs[:place], new, *self.runs[place + 1 :]))
        return ModelPeaks((*self.runs, new)[-_RUNS_KEPT:], self.count + 1)


class MemoryHistory:
    def __init__(self, hardware: Callable[[], Sequence[Hardware]]) -> None:
        """`hardware` of all nodes there are: a gang may be on several."""
        self._hardware = hardware
        self._store: Store | None = None
        self._jobs: dict[str, int] = {}  # MiB over all GPUs, oldest first
        self._models: dict[str, ModelPeaks] = {}
        self._model_of: dict[JobId, str | None] = {}  # of jobs that run

    async def open(self, store: Store) -> None:
        self._store = store
        self._jobs = {name: int(body) for name, body in (await store.documents(_JOB)).items()}
        models = await store.documents(_MODEL)
        self._models = {n: msgspec.json.decode(b, type=ModelPeaks) for n, b in models.items()}

    def of_job(self, job_id: str) -> int | None:
        """MiB on all its GPUs together, at most; None where it was never seen on one."""
        return self._jobs.get(job_id)

    def of_model(self, model: str) -> ModelPeaks | None:
        return self._models.get(key_of(model))

    async def observe(self, state: State, writer: Writer) -> None:
        """Go by the hardware's newest reading."""
        used = self._used()
        running = [e for e in state.placed() if e.progress.state is JobState.RUNNING]
        grown = [
            (entry, mib)
            for entry in running
            if (mib := used.get((entry.job.job_id, entry.progress.attempt), 0))
            and self._is_news(entry.job.job_id, mib)
        ]
        if not grown:
            return
        await self._find_models(running)
        jobs = {str(entry.job.job_id): mib for entry, mib in grown}
        models = self._grown_models(grown)
        documents = self._documents(jobs, models)

        def decide(_: State) -> Decision[None]:
            return Decision(None, documents=documents, applied=partial(self._keep, jobs, models))

        await writer.do(decide, jobs)

    def _used(self) -> dict[tuple[str, int], int]:
        """MiB of each attempt, over all GPUs."""
        found: dict[tuple[str, int], int] = {}
        for hardware in self._hardware():
            for gpu in hardware.fresh_readings():
                claims = hardware.processes.get(gpu.index, GpuProcesses()).claimed
                for process in gpu.processes:
                    claimed = claims.get(process.pid)
                    if claimed is not None and claimed.key is not None:
                        name = (claimed.key.job_id, claimed.key.attempt)
                        found[name] = found.get(name, 0) + (process.memory_mib or 0)
        return found

    def _is_news(self, job_id: str, mib: int) -> bool:
        known = self._jobs.get(job_id)
        if known is None:
            return True
        return mib >= known + max(_GROWTH_MIB, known * _GROWTH_PERCENT // 100)

    async def _find_models(self, running: list[Entry]) -> None:
        """What each command says; asked of the store once for each job."""
        there = {entry.job.job_id for entry in running}
        self._model_of = {job: model for job, model in self._model_of.items() if job in there}
        new = tuple(sorted(there - self._model_of.keys()))
        assert self._store is not None
        for stored in await self._store.jobs(JobQuery(job_ids=new, limit=len(new))) if new else ():
            model = model_of(stored.detail.argv)
            self._model_of[stored.job.job_id] = None if model is None else key_of(model)

    def _grown_models(self, grown: list[tuple[Entry, int]]) -> dict[str, ModelPeaks]:
        models: dict[str, ModelPeaks] = {}
        for entry, mib in grown:
            model = self._model_of.get(entry.job.job_id)
            if not model or len(model) > _LONGEST_NAME:
                continue
            before = models.get(model) or self._models.get(model, ModelPeaks())
            each = -(-mib // entry.job.request.workers)
            models[model] = before.with_run(ModelRun(entry.job.job_id, each))
        return models

    def _documents(self, jobs: Mapping[str, int], models: Mapping[str, ModelPeaks]) -> Documents:
        made: Documents = {(_JOB, job): str(mib).encode() for job, mib in jobs.items()}
        made |= {(_MODEL, name): msgspec.json.encode(peaks) for name, peaks in models.items()}
        gone = [(_JOB, name) for name in _surplus(self._jobs, jobs, _JOBS_KEPT)]
        gone += [(_MODEL, name) for name in _surplus(self._models, models, _MODELS_KEPT)]
        return made | dict.fromkeys(gone)

    def _keep(self, jobs: Mapping[str, int], models: Mapping[str, ModelPeaks]) -> None:
        for name in _surplus(self._jobs, jobs, _JOBS_KEPT):
            del self._jobs[name]
        for name in _surplus(self._models, models, _MODELS_KEPT):
            del self._models[name]
        self._jobs.update(jobs)
        self._models.update(models)


def _surplus(known: Mapping[str, object], new: Mapping[str, object], kept: int) -> list[str]:
    """The oldest, which have to go when the new ones come."""
    count = len(known.keys() | new.keys()) - kept
    return list(islice((name for name in known if name not in new), max(0, count)))
