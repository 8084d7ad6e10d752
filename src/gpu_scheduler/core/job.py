"""A job as its owner described it. What has become of it is in `lifecycle.Progress`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from gpu_scheduler.core.ids import DEFAULT_QUEUE, JobId, TenantId

DEFAULT_PRIORITY: Final = 500


@dataclass(frozen=True, slots=True)
class Request:
    """The resources of one job. Zero means that the job does not say, and is promised none."""

    gpu_millis: int
    gpu_type: str | None = None  # None takes any one type
    gpu_mem_mib: int = 0  # over all its GPUs together
    cpu_millis: int = 0
    mem_mib: int = 0


class DependencyKind(StrEnum):
    OK = "ok"  # only once the other job has completed
    ANY = "any"  # once it is over, however it ended


@dataclass(frozen=True, slots=True)
class Dependency:
    job_id: JobId
    kind: DependencyKind


@dataclass(frozen=True, slots=True)
class Array:
    """The array a job is an element of; `max_running` elements may run at once."""

    array_id: str
    index: int
    max_running: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """What few jobs set. Jobs that are alike share one object: a million of them is no memory."""

    time_limit_ms: int | None = None
    max_retries: int = 0
    backoff_ms: int = 10_000  # before the first retry; doubled for each further one
    requeue: bool = False  # run again when the machine, not the job, failed
    lease: bool = False  # no command: holds its GPUs until completed or its time is up
    allowed_gpus: tuple[int, ...] = ()  # indexes on a node; empty allows all


NO_OPTIONS: Final = Options()


@dataclass(frozen=True, slots=True)
class Job:
    job_id: JobId
    tenant_id: TenantId
    priority: int
    submitted_at: int
    request: Request
    queue: str = DEFAULT_QUEUE
    options: Options = NO_OPTIONS
    after: tuple[Dependency, ...] = ()
    array: Array | None = None

    @property
    def project_id(self) -> TenantId:
        """Tenants and projects are the same thing."""
        return self.tenant_id


@dataclass(frozen=True, slots=True)
class Detail:
    """What its owner said of a job that no decision looks at. Not kept in the state."""

    name: str = ""
    user: str = ""
    argv: tuple[str, ...] = ()
    cwd: str = ""
    env_id: str | None = None  # the submitter's environment, stored once for all who share it
    env: tuple[tuple[str, str], ...] = ()  # the job's own additions to it
    image: str = ""
    params: tuple[tuple[str, str], ...] = ()  # the point of a sweep
    rerun_of: JobId | None = None
    uid: int | None = None  # the local user it runs as; None: whoever runs the service


NO_DETAIL: Final = Detail()


class JobClass(NamedTuple):
    """Jobs that no rule can tell apart except by age. See `core/queue.py`.

    A tuple and not a dataclass because every job that comes in makes and hashes one: a third of
    the time.
    """

    tenant_id: TenantId
    queue: str
    priority: int
    request: Request
    allowed_gpus: tuple[int, ...] = ()
    array_id: str | None = None  # only for arrays with a cap
    array_max: int | None = None


def class_of(job: Job) -> JobClass:
    array = job.array
    capped = array is not None and array.max_running is not None
    return JobClass(
        job.tenant_id,
        job.queue,
        job.priority,
        job.request,
        job.options.allowed_gpus,
        array.array_id if array is not None and capped else None,
        array.max_running if array is not None and capped else None,
    )
