"""Requests and answers of `/api/v1`, shared by the service and its clients."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, FailFast, Field, WithJsonSchema

from tgpu.wire.bounds import (
    NO_NUL,
    WIDEST,
    AnyVariables,
    Argument,
    Arguments,
    Int,
    Labels,
    RequestModel,
    Sweep,
    Text,
    Variables,
    Word,
)
from tgpu.wire.estimates_v1 import EstimateModel
from tgpu.wire.mail import MailAddress, MailEvent

# Kept by the conversion, which has better words for it.
_Count = {"minimum": 0.01, "maximum": 100_000}
LONGEST_COUNT = 64
GpuIndex = Annotated[int, Field(ge=0, le=1_000_000)]
GpuType = Annotated[str, Field(min_length=1, max_length=64, pattern=NO_NUL)]
NodeName = Annotated[str, Field(min_length=1, max_length=256, pattern=NO_NUL)]
# An index, or a name with its node as "b/3"; the conversion has better words for what is neither.
GpuWord = GpuIndex | Annotated[str, Field(max_length=300, pattern=NO_NUL)]
GpuWords = Annotated[list[GpuWord], Field(max_length=1024), FailFast()]
NodeNames = Annotated[list[NodeName], Field(max_length=1024), FailFast()]
GpuCount = (
    Annotated[float, WithJsonSchema({"type": "number", **_Count})]
    | Annotated[int, WithJsonSchema({"type": "integer", **_Count, "minimum": 1})]
    | Annotated[str, WithJsonSchema({"type": "string", "maxLength": LONGEST_COUNT})]
)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class AfterModel(RequestModel):
    """Another job that must end first."""

    job_id: Word
    kind: Literal["ok", "any"] = "ok"


class ArrayRequest(RequestModel):
    """A job for each index ("1-100", "1,3,5-9"); at most `max_running` of them at once."""

    indexes: Annotated[Argument, Field(examples=["1-100"])]
    max_running: Annotated[int | None, Field(ge=1, le=WIDEST)] = None


class SubmitRequest(RequestModel):
    """A job to queue. Without a command it is a lease: its GPUs are held until completed."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "bert-training",
                    "command": ["python", "train.py"],
                    "args": ["--epochs", "100"],
                    "gpu_count": 1,
                    "priority": 1000,
                    "max_runtime_minutes": 120,
                    "environment": {"SEED": "1"},
                },
                {"command": ["./step.sh"], "gpu_count": 0.5, "array": {"indexes": "1-100"}},
                {"gpu_count": 2, "max_runtime": 3600},
                {
                    "command": ["python", "train.py"],
                    "workers": 4,
                    "gpu_count": 8,
                    "gpu_types": ["H100", "A100"],
                    "labels": {"rack": "r1"},
                    "deadline": "2030-01-31T09:00:00Z",
                    "checkpoint_signal": "USR1",
                },
            ]
        }
    )

    job_id: Word | None = None
    # Left out: the caller's only tenant, or `default` where that is one of theirs.
    tenant_id: Word | None = Field(
        default=None, validation_alias=AliasChoices("tenant_id", "project_id")
    )
    name: Text = ""
    user: Word = ""
    queue: Annotated[str, Field(min_length=1, max_length=128, pattern=NO_NUL)] = "default"
    priority: Int | None = None  # by default what the tenant's tier says: 500 for a normal one
    # Of a gang: all of them start at once or none does. What follows is of each worker.
    workers: Annotated[int, Field(ge=1, le=10_000)] = 1
    gpu_count: GpuCount = Field(
        default=1, validation_alias=AliasChoices("gpu_count", "gpus", "num_gpus")
    )
    gpu_type: GpuType | None = None
    gpu_types: Annotated[
        list[GpuType], Field(max_length=64), FailFast()
    ] = []  # any, the best first
    gpu_memory_each_mb: Annotated[int, Field(ge=0, le=WIDEST)] = 0  # that each GPU has, all of it
    gpu_memory_mb: Annotated[int, Field(ge=0, le=WIDEST)] = 0
    cpu_cores: Annotated[float, Field(ge=0, le=1_000_000)] = 0
    memory_mb: Annotated[int, Field(ge=0, le=WIDEST)] = 0
    command: Arguments = []
    args: Arguments = []
    image: Text = ""
    environment: Variables = {}
    # The submitter's whole environment, under `environment`; the command line sends it.
    base_environment: AnyVariables = {}
    # Variables that are given to the job and shown to nobody: on record sealed, hidden by value.
    secrets: Variables = {}
    working_dir: Text = ""
    max_runtime_minutes: Annotated[float | None, Field(gt=0, le=WIDEST)] = None
    max_runtime: Annotated[float | None, Field(gt=0, le=WIDEST)] = None  # seconds
    gang_scheduling: bool = False
    allowed_gpus: GpuWords = []
    excluded_gpus: GpuWords = []
    nodes: NodeNames = []
    excluded_nodes: NodeNames = []
    labels: Labels = {}  # its nodes carry all of these
    exclusive: bool = False  # no other jobs on its nodes
    same_island: bool = False  # the GPUs of a worker are connected by NVLink
    spread: bool = False
    deadline: Word | None = None  # ISO 8601, with its zone
    preemptible: bool = True
    checkpoint_signal: Annotated[int, Field(ge=1, le=1000)] | Word | None = (
        None  # sent first when it is preempted
    )
    reservation: Word | None = None  # runs on the GPUs of this reservation
    requeue: bool = False
    max_retries: Annotated[int, Field(ge=0, le=1000)] = 0
    backoff_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10
    hold: bool = False
    after: Annotated[list[AfterModel], Field(max_length=10_000), FailFast()] = []
    array: ArrayRequest | None = None
    params: Sweep = {}  # a sweep: {name} in the command is replaced
    # Where the number of GPUs comes from: gpu_count, or what the model needs that the command names
    # by --llm or --model, by table and estimate (model) or by its past runs (learned).
    size_by: Literal["given", "model", "learned"] = "given"
    # The Python environment that the command runs in: one of these.
    conda: Text = ""  # name or path
    venv: Text = ""  # its directory
    uv: Text = ""  # the directory of a project
    screen: bool = False  # runs in a GNU screen session, for `tgpu attach`
    tmux: bool = False  # the same with tmux
    # MiB of each of its two logs: beginning and end are kept. 0 for none, where that may be
    log_limit_mb: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    mail_to: Annotated[
        list[MailAddress], Field(max_length=20), FailFast()
    ] = []  # addresses told of it
    # … of these; its end, where addresses are given and this is not
    mail_on: Annotated[list[MailEvent], Field(max_length=20), FailFast()] = []


class SubmitAnswer(_Model):
    job_id: str
    status: str = "submitted"
    message: str = "Job submitted successfully"
    job_ids: list[str] = []  # all of them, for an array or a sweep
    warnings: list[str] = []


class ReasonModel(_Model):
    """Why a job waits: the code for programs, the sentence and the next command for people."""

    code: str
    message: str
    remedy: str = ""
    facts: dict[str, int | str] = {}


class ArrayProgressModel(_Model):
    """Progress of an array or sweep that a list shows as one row."""

    total: int
    states: dict[str, int]  # how many are in which; states that none is in are left out
    first_index: int
    last_index: int
    started_at: str | None = None  # of the first that started
    ended_at: str | None = None  # of the last that ended so far


class ArrayModel(_Model):
    array_id: str
    index: int
    max_running: int | None = None
    progress: ArrayProgressModel | None = None  # in a folded list: the job stands for all of them


class UsageModel(_Model):
    user_cpu_seconds: float
    system_cpu_seconds: float
    max_rss_mb: float


class ConstraintsModel(_Model):
    """Where a job may run."""

    gpu_types: list[str] = []
    gpu_memory_each_mb: int = 0
    allowed_gpus: list[int | str] = []  # an index, or with its node "b/3"
    excluded_gpus: list[int | str] = []
    nodes: list[str] = []
    excluded_nodes: list[str] = []
    labels: dict[str, str] = {}
    exclusive: bool = False
    same_island: bool = False
    spread: bool = False


class PredictionModel(_Model):
    """How long a job will run from its start, based on similar jobs."""

    p50_seconds: float  # half of such jobs are over by then
    p90_seconds: float  # … and nine of ten by then
    level: str  # how alike they are: command, name, user, tenant, size, any; or elapsed, limit
    samples: int  # how many they are


class PlacementModel(_Model):
    """The placement of one worker."""

    node: str
    gpus: list[int]


class JobModel(_Model):
    """The current state of a job. Times are ISO 8601 in UTC."""

    job_id: str
    tenant_id: str
    name: str
    user: str
    queue: str
    state: str
    held: bool
    priority: int
    gpu_count: float  # of all its workers together, as all amounts here
    gpu_type: str | None
    gpu_memory_mb: int
    cpu_cores: float
    memory_mb: int
    command: list[str]
    working_dir: str
    image: str
    environment: dict[str, str]  # the job's own; values of secret-looking names are masked
    secrets: list[str] = []  # names of variables that it is given and nobody is shown
    submitted_at: str
    started_at: str | None
    ended_at: str | None
    gpus: list[int]  # indexes on `node`, of all its workers there; of the newest attempt
    node: str | None  # of its first worker
    gpu_names: list[str] = []  # of all its workers, as "b/3": the node and the index there
    gpu_text: str = ""  # the same for people: "0-1", or with several nodes "a/0-1,b/0"
    pid: int | None
    exit_code: int | None
    signal: int | None
    cause: str | None
    attempt: int
    restarts: int
    max_retries: int
    requeue: bool
    max_runtime_minutes: float | None
    after: list[AfterModel]
    array: ArrayModel | None
    params: dict[str, str]
    reason: ReasonModel | None  # while it waits
    log_dir: str | None
    rerun_of: str | None = None  # the job whose content it runs again
    workers: int = 1
    gpus_per_worker: float = 1
    constraints: ConstraintsModel | None = None  # left out where it has none
    placements: list[PlacementModel] = []  # by worker, of the newest attempt
    deadline: str | None = None
    preemptible: bool = True
    checkpoint_signal: str | None = None
    checkpoint_at: str | None = None
    paused_at: str | None = None  # its processes stand still since then; it keeps its GPUs
    paused_by: str | None = None
    paused_seconds: float = 0  # that its newest attempt has stood still, all together
    reservation: str | None = None
    preemptions: int = 0  # times it was preempted
    lost_gpu_seconds: float = 0  # what those times cost it
    # Whose fault it was that it failed or had to run again: user_error, cuda_out_of_memory,
    # host_out_of_memory, xid, lost_gpu, time_limit, preempted, node, evicted, image, refused.
    # `cause` is the sentence.
    failure: str | None = None
    session: str | None = None  # of screen or tmux, while it runs in one
    runs_in: str | None = None  # its Python environment, as "conda ml" or "venv .venv"
    log_limit_mb: int | None = None  # of each of its two logs, where it asked for one
    prediction: PredictionModel | None = None  # only where one job is asked for that is not over
    estimate: EstimateModel | None = None  # of its start, while it waits and somebody can tell


class JobList(_Model):
    jobs: list[JobModel]  # newest first
    next_cursor: int | None  # pass as `cursor` for the next page; null at the end
    total: int | None = None  # on all pages together, where `count` asks for it


class ActionAnswer(_Model):
    """Result of a request to change a job."""

    job_id: str
    status: str  # the job's state afterwards
    message: str
    recorded: bool = True  # false: it is done, and will be on record when the store works again


class BlockerModel(_Model):
    """A job that has, or will get, what another waits for."""

    job_id: str | None  # null where it is of a tenant that the caller does not see
    tenant_id: str | None
    user: str | None
    gpu_count: float
    node: str | None  # where it is in the way
    gpus: list[int]  # its GPUs there
    gpu_names: list[str] = []  # all of its GPUs, also those of workers on other nodes
    ends_by: str | None  # by its time limit; null where it has none
    paused: bool = False  # it stands still, with what it has


class AheadModel(_Model):
    """The jobs ahead of another in the queue."""

    count: int
    first: list[str]  # a few, the next one first; those of tenants the caller does not see left out


FieldValue = float | int | str | bool | list[str] | dict[str, str] | None


class ChangeModel(_Model):
    """A change that would start a job: the fields of a submission to change."""

    sentence: str
    command: str  # submits it with the change and ends the old one; empty for arrays
    fields: dict[str, FieldValue]


class WhyAnswer(_Model):
    """Why a job waits. The fields after the reason are set while it waits."""

    job_id: str
    state: str
    reason: ReasonModel
    blockers: list[BlockerModel] = []  # who ends first, first; 20 at most
    blocker_count: int = 0  # of all of them
    ahead: AheadModel | None = None
    starts_by: str | None = None  # at the latest, where it has a reservation
    change: ChangeModel | None = None  # the cheapest after which it would start now
    estimate: EstimateModel | None = None  # of its start, where somebody can tell


class GpuProcessModel(_Model):
    pid: int
    user: str | None
    command: str | None
    memory_mb: int
    job_id: str | None  # None: not ours
    started_at: str | None = None  # None: not told
    age_seconds: float | None = None


class GpuReservationModel(_Model):
    """When a GPU is reserved. Its tenant is shown to callers who may see it."""

    id: str | None
    tenant_id: str | None
    starts_at: str
    ends_at: str


class GpuModel(_Model):
    index: int  # on its node
    uuid: str
    name: str
    gpu_type: str
    memory_mb: int
    memory_used_mb: int | None
    temperature_c: int | None
    utilisation_percent: int | None
    nvlink_group: int | None
    numa_node: int | None
    status: str  # "free", "busy", "shared", "foreign", "paused", "hot" or "problem"
    allocated: float  # the part that jobs have: 0 to 1
    jobs: list[str]
    paused: str | None  # the reason, while paused
    problem: str | None
    foreign: str | None = None  # who else uses it, while that keeps it from new jobs
    slow: str | None = None  # throttled, or slower than its siblings; it takes jobs all the same
    slice_of: int | None = None  # a MIG slice: the index of the GPU it is cut from
    mps: bool | None = None  # whether an MPS server shares it between programs
    processes: list[GpuProcessModel]
    reservations: list[GpuReservationModel] = []  # by start
    node: str = ""
    gpu_name: str = ""  # node and index, as "b/3"


class GpuList(_Model):
    """The GPUs that jobs can use, by node, then index."""

    provider: str
    simulated: bool
    problem: str | None
    node: str  # the first of them; what is said above is of this one
    gpus: list[GpuModel]


class PauseRequest(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "too hot"}]})

    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=NO_NUL)] = (
        "paused by an operator"
    )


class AdoptRequest(RequestModel):
    """A process that was started by hand, to turn into a lease on its GPUs."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"pid": 4711}]})

    pid: Annotated[int, Field(ge=1, le=2**31 - 1)]
    tenant_id: Annotated[str, Field(min_length=1, max_length=256, pattern=NO_NUL)] | None = None
    queue: Annotated[str, Field(min_length=1, max_length=256, pattern=NO_NUL)] = "default"
    name: Annotated[str, Field(max_length=256, pattern=NO_NUL)] = ""
    # Where it runs; needed where processes of several nodes have this number.
    node: Annotated[str, Field(min_length=1, max_length=256, pattern=NO_NUL)] | None = None


class ClusterStatus(_Model):
    total_nodes: int
    online_nodes: int
    total_gpus: int
    available_gpus: float
    used_gpus: float = 0  # that jobs have
    total_jobs: int
    running_jobs: int
    pending_jobs: int
    jobs_by_state: dict[str, int]
    simulated: bool
    provider: str
    problem: str | None
    engine: str
    store: str
    policy: str
    clock: str
    version: str
    uptime_seconds: float
    data_dir: str | None


class Health(_Model):
    status: str  # "healthy", or "degraded" with the problems
    version: str
    pid: int
    problems: list[str]


class ErrorBody(_Model):
    code: str
    message: str
    details: list[Any] = []


class ErrorAnswer(_Model):
    error: ErrorBody
