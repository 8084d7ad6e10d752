"""A whole scheduler inside a program, without a server: for scripts, notebooks and tests.

    from tgpu.embedded import Scheduler, SchedulerConfig

    scheduler = Scheduler(SchedulerConfig(num_gpus=2))
    scheduler.start()
    job_id = scheduler.add_job("train.py", args=["--epochs", "3"], gpus=2)
    scheduler.wait(job_id)
    scheduler.stop()

It is the service itself on an event loop of its own thread. Jobs are real processes under the same
supervisor, so they survive the program unless it cancels them.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from tgpu import __version__
from tgpu.api.translate.submissions import submission_of
from tgpu.app import make_notices, make_service
from tgpu.core.model.events import Event, JobMoved
from tgpu.core.model.ids import DEFAULT_TENANT, JobId, TenantId
from tgpu.core.model.job import Detail
from tgpu.core.model.plan import Plan
from tgpu.devices.api import GPUProvider
from tgpu.devices.detect import Detected, detect
from tgpu.service.commands.submission import Submission
from tgpu.service.identity.run_as import NOT_SHARED
from tgpu.service.recording.observer import Observer
from tgpu.service.service import Service
from tgpu.settings import Settings, load_settings
from tgpu.settings.process import process_environ
from tgpu.store.api import DecisionId
from tgpu.text.gpu_names import gpu_name
from tgpu.wire.v1 import SubmitRequest

__all__ = ["GPUProvider", "HealthMonitor", "MetricsProvider", "Scheduler", "SchedulerConfig"]

T = TypeVar("T")

_START_SECONDS = 60.0
_HEALTH_SECONDS = 1.0


class MetricsProvider(Protocol):
    """Is told figures as they arise. Calls come from the scheduler's thread: be quick."""

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None: ...


class HealthMonitor(Protocol):
    """Is told when the scheduler's health changes; no problems means that it is well."""

    def report(self, problems: Sequence[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The few settings a program usually sets; `settings` takes all the others, by dotted key."""

    num_gpus: int | None = None  # simulated GPUs; None takes those of this machine
    queue_size_limit: int | None = None
    data_dir: Path | None = None  # None: a scratch directory, gone when the scheduler stops
    config_file: Path | None = None
    settings: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: str | Path, **changes: Any) -> "SchedulerConfig":
        return cls(config_file=Path(path), **changes)

    def load(self, data_dir: Path) -> Settings:
        flags: dict[str, object] = {"data_dir": str(data_dir)}
        if self.num_gpus is not None:
            flags["devices.gpus"] = f"sim:{self.num_gpus}xA100"
        if self.queue_size_limit is not None:
            flags["scheduler.max_queue_size"] = self.queue_size_limit
        return load_settings(self.config_file, {**flags, **self.settings})


class Scheduler:
    """Start, add jobs, look, stop. Every call is safe from any thread but the scheduler's own."""

    def __init__(
        self,
        config: SchedulerConfig | None = None,
        *,
        gpu_provider: GPUProvider | None = None,
        metrics_provider: MetricsProvider | None = None,
        health_monitor: HealthMonitor | None = None,
    ) -> None:
        self._config = config or SchedulerConfig()
        self._gpu_provider = gpu_provider
        self._metrics = metrics_provider
        self._health = health_monitor
        self._scratch: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._service: Service | None = None
        self._ending: asyncio.Event | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> bool:
        """Load, look at the GPUs, take back what runs. True; raises what stands in the way."""
        if self._thread is not None:
            raise RuntimeError("this scheduler is started already")
        data_dir = self._config.data_dir
        if data_dir is None:
            self._scratch = tempfile.mkdtemp(prefix="tgpu-")
            data_dir = Path(self._scratch)
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings = self._config.load(data_dir)
        detected = (
            Detected(self._gpu_provider, "GPUs of the provider that was passed in")
            if self._gpu_provider is not None
            else detect(settings.devices.gpus)
        )
        ready = threading.Event()
        failure: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(self._live(settings, data_dir, detected, ready))
            except BaseException as error:
                failure.append(error)
            finally:
                ready.set()

        self._thread = threading.Thread(target=run, name="tgpu", daemon=True)
        self._thread.start()
        if not ready.wait(_START_SECONDS):
            raise TimeoutError(f"the scheduler was not ready within {_START_SECONDS:.0f} s")
        if failure:
            self._thread.join()
            self._thread = None
            raise failure[0]
        return True

    def stop(self) -> bool:
        """End the scheduler; running jobs go on. False if it was not started."""
        if self._thread is None or self._loop is None or self._ending is None:
            return False
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(_START_SECONDS)
        self._thread = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
        return True

    def add_job(
        self,
        script: str | os.PathLike[str],
        args: Sequence[str] = (),
        priority: int | None = None,
        *,
        gpus: float = 1,
        gpu_type: str | None = None,
        tenant_id: str = DEFAULT_TENANT,
        name: str = "",
        environment: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        max_runtime_seconds: float | None = None,
        workers: int = 1,
        deadline: datetime | None = None,
        preemptible: bool = True,
        checkpoint_signal: int | str | None = None,
        constraints: Mapping[str, object] | None = None,
    ) -> str:
        """Queue a script: a `.py` file under this Python, anything else as the program it is.

        `secrets` are variables that nobody is shown. `gpus` are of each worker. `constraints` say
        where it may run, by the names of POST /api/v1/jobs: `{"gpu_types": ["H100", "A100"]}`.
        """
        path = os.fspath(script)
        program = [sys.executable, path] if path.endswith(".py") else [path]
        wanted = submission_of(
            SubmitRequest.model_validate(
                {
                    **(constraints or {}),
                    "gpu_count": gpus,
                    "gpu_type": gpu_type,
                    "workers": workers,
                    "max_runtime": max_runtime_seconds,
                    "deadline": None if deadline is None else deadline.astimezone().isoformat(),
                    "preemptible": preemptible,
                    "checkpoint_signal": checkpoint_signal,
                    "secrets": dict(secrets or {}),
                }
            )
        )
        submission = Submission(
            request=wanted.request,
            tenant_id=TenantId(tenant_id),
            priority=priority,
            options=wanted.options,
            detail=Detail(
                name=name,
                argv=(*program, *args),
                cwd=os.getcwd(),
                env=tuple(sorted((environment or {}).items())),
                secrets=wanted.detail.secrets,
            ),
            base_environment=process_environ(),
        )
        service = self._running()
        return self._call(service.jobs.submit(submission)).base_id

    def cancel_job(self, job_id: str) -> str:
        """End a job; the state it is in then."""
        return str(self._call(self._running().jobs.cancel(JobId(job_id))))

    def get_job(self, job_id: str) -> dict[str, Any]:
        """A job's state, exit code and GPUs."""
        stored = self._call(self._running().job(job_id))
        placement = stored.progress.placement
        return {
            "job_id": stored.job.job_id,
            "state": str(stored.progress.state),
            "exit_code": stored.progress.exit_code,
            "cause": stored.progress.cause,
            "gpus": placement.first_indexes() if placement else [],
            "gpu_names": [gpu_name(*gpu) for gpu in placement.gpus()] if placement else [],
            "nodes": [part.node_id for part in placement.parts()] if placement else [],
        }

    def wait(self, job_id: str, timeout_seconds: float = 3600.0) -> dict[str, Any]:
        """The job once it is over, or as it stands after the timeout."""
        self._call(self._running().wait_until_over(JobId(job_id), timeout_seconds))
        return self.get_job(job_id)

    def get_status(self) -> dict[str, Any]:
        """Version, health, jobs by state, and the GPUs with what is allocated of each."""
        return self._call(_status(self._running()))

    def _running(self) -> Service:
        if self._service is None:
            raise RuntimeError("this scheduler is not started; call start() first")
        return self._service

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            coroutine.close()
            raise RuntimeError("this scheduler is not started; call start() first")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _live(
        self, settings: Settings, data_dir: Path, detected: Detected, ready: threading.Event
    ) -> None:
        observers = [_Reporter(self._metrics)] if self._metrics is not None else []
        # Nobody calls from outside: whatever the settings say of callers, jobs are the program's.
        service = make_service(settings, data_dir, detected, observers, NOT_SHARED)
        notices = make_notices(settings, service)
        await service.open()
        await notices.open()
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        self._service = service
        ready.set()
        try:
            await self._watch_health(service, self._ending)
        finally:
            self._service = None
            service.feed.close()
            await notices.close()
            await service.close()

    async def _watch_health(self, service: Service, ending: asyncio.Event) -> None:
        last: list[str] | None = None
        while not ending.is_set():
            problems = service.problems()
            if self._health is not None and problems != last:
                self._health.report(problems)
                last = problems
            try:
                async with asyncio.timeout(_HEALTH_SECONDS):
                    await ending.wait()
            except TimeoutError:
                continue


async def _status(service: Service) -> dict[str, Any]:
    problems = service.problems()
    gpus = [
        {
            "index": gpu.index,
            "node": held.node.node_id,
            "gpu_name": gpu_name(held.node.node_id, gpu.index),
            "gpu_type": gpu.gpu_type,
            "allocated": held.taken_millis(gpu) / 1000,
            "paused": gpu.paused,
            "problem": gpu.problem,
        }
        for held in service.reads.node_allocations()
        for gpu in held.node.gpus
    ]
    return {
        "version": __version__,
        "status": "running",
        "uptime_seconds": service.uptime_seconds(),
        "healthy": not problems,
        "problems": problems,
        "jobs": {str(name): count for name, count in service.reads.job_counts().items()},
        "resources": gpus,
    }


class _Reporter(Observer):
    """Passes the service's figures on to a program's own metrics."""

    def __init__(self, metrics: MetricsProvider) -> None:
        self._record: Callable[[str, float, Mapping[str, str]], None] = metrics.record

    def committed(
        self,
        events: Sequence[Event],
        causes: Sequence[str | None],
        seconds: float,
        decisions: Sequence[DecisionId] = (),
    ) -> None:
        self._record("commit_seconds", seconds, {})
        for event in events:
            if isinstance(event, JobMoved):
                self._record("jobs_total", 1.0, {"state": str(event.progress.state)})

    def cycled(self, plan: Plan, seconds: float) -> None:
        self._record("scheduling_latency_seconds", seconds, {})
