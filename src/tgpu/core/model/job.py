"""A job as submitted. Its current state is in `lifecycle.Progress`."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from tgpu.core.model.ids import DEFAULT_QUEUE, JobId, NodeId, TenantId
from tgpu.core.model.node import GpuChoice

DEFAULT_PRIORITY: Final = 500


@dataclass(frozen=True, slots=True)
class Where:
    """Where a job may run. Empty allows everything."""

    gpu_types: tuple[str, ...] = ()  # any of these will do, the best first
    gpu_mem_each_mib: int = 0  # each of its GPUs has at least this much
    gpus: tuple[GpuChoice, ...] = ()  # only these; a bare index is that GPU of each node
    not_gpus: tuple[GpuChoice, ...] = ()
    nodes: tuple[str, ...] = ()
    not_nodes: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()  # its nodes carry all of these
    exclusive: bool = False  # no other jobs on its nodes
    same_island: bool = False  # the GPUs of a worker reach each other over NVLink
    spread: bool = False  # workers and shares where most is free, not where least is

    def allows_gpu(self, node_id: NodeId, index: int) -> bool:
        """Whether the names of GPUs leave this one to the job."""
        gpus, not_gpus = self.gpus, self.not_gpus
        if gpus and index not in gpus and (node_id, index) not in gpus:
            return False
        return not not_gpus or not (index in not_gpus or (node_id, index) in not_gpus)


ANYWHERE: Final = Where()


@dataclass(frozen=True, slots=True)
class Request:
    """The resources of one job. Zero means that the job does not say, and is promised none.

    Amounts are of the whole job. A gang is a job of several workers: each gets an equal part, all
    start at once or none does.
    """

    gpu_millis: int
    gpu_type: str | None = None  # None takes any one type
    gpu_mem_mib: int = 0  # over all its GPUs together
    cpu_millis: int = 0
    mem_mib: int = 0
    workers: int = 1  # divides every amount
    where: Where = ANYWHERE

    def of_a_worker(self) -> tuple[int, int, int]:
        """GPU thousandths, CPU thousandths and MiB of memory that each worker gets."""
        count = self.workers
        return self.gpu_millis // count, self.cpu_millis // count, self.mem_mib // count


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
    """How a job is run. Jobs that are alike share one object: a million of them is no memory."""

    time_limit_ms: int | None = None
    max_retries: int = 0
    backoff_ms: int = 10_000  # before the first retry; doubled for each further one
    requeue: bool = False  # run again when the machine, not the job, failed
    lease: bool = False  # no command: holds its GPUs until completed or its time is up
    user: str = ""  # whose share of the tenant's it counts for
    deadline_at: int | None = None  # should be over by then: more urgent as that comes nearer
    preemptible: bool = True  # may be preempted, where its tenant allows it too
    checkpoint_signal: int | None = None  # sent first when it is preempted; None: TERM alone
    booking: str | None = None  # runs on the GPUs of this booking
    # Its part of a GPU's compute, where its memory makes it count for a larger part.
    compute_millis: int | None = None


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
    # Random, the same for all jobs of one submission; "" for those of versions that had none.
    nonce: str = ""

    @property
    def identity(self) -> str:
        """128 bits in hex that no other job has, not even one of the same id in another database.

        Made out of nonce and id, so that the million jobs of a bulk share one text in memory.
        """
        if not self.nonce:
            return ""
        return hashlib.blake2b(f"{self.nonce} {self.job_id}".encode(), digest_size=16).hexdigest()

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
    screen: bool = False  # in a GNU screen session, to which people can attach
    mail_to: tuple[str, ...] = ()  # addresses that are told of it
    mail_on: tuple[str, ...] = ()  # … of these: "start", "end", "failure", …
    tmux: bool = False  # the same with tmux
    log_limit_mib: int | None = None  # of each of its logs; None: as the service is set, 0: none
    owner: str = ""  # who submitted it, as the audit log names them; empty: an older version
    account: str = ""  # the name of `uid` when it was submitted
    # Variables that nobody is shown, by name; their values are on record sealed alone.
    secrets: tuple[tuple[str, str], ...] = ()
    run_in: tuple[str, str] | None = None  # "conda", "venv" or "uv", and its name or path


NO_DETAIL: Final = Detail()


def name_of(job: Job) -> JobId:
    """By which people name what was submitted: an element goes by the name of its array."""
    return job.job_id if job.array is None else JobId(job.array.array_id)


class JobClass(NamedTuple):
    """Jobs that no rule can tell apart except by age. See `core/state/waiting_queue.py`.

    A tuple and not a dataclass because every job that comes in makes and hashes one: a third of
    the time.
    """

    tenant_id: TenantId
    queue: str
    priority: int
    request: Request
    user: str = ""
    time_limit_ms: int | None = None
    deadline_at: int | None = None
    booking: str | None = None
    array_id: str | None = None  # only for arrays with a cap
    array_max: int | None = None
    level: int = 0  # of the GPU time it had in earlier attempts: see `core/accounting/attained.py`


def class_of(job: Job, level: int = 0) -> JobClass:
    array, options = job.array, job.options
    capped = array is not None and array.max_running is not None
    return JobClass(
        job.tenant_id,
        job.queue,
        job.priority,
        job.request,
        options.user,
        options.time_limit_ms,
        options.deadline_at,
        options.booking,
        array.array_id if array is not None and capped else None,
        array.max_running if array is not None and capped else None,
        level,
    )
