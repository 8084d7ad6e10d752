"""Requests and answers about tenants, queues and quotas of `/api/v1`."""

from typing import Annotated, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    RootModel,
)

from tgpu.wire.bounds import NO_NUL, WIDEST, BoundedModel, RequestModel, Word, at_most
from tgpu.wire.user_limits_v1 import (
    Amount,
    Gpus,
    UserLimitsModel,
    UsersByName,
    UserUseModel,
    UserWord,
)

TierName = Literal["low", "normal", "high", "urgent"]
Priority = Annotated[int, Field(ge=-WIDEST, le=WIDEST)]
# A kind of GPU for each of these; a cluster has a handful.
GpusByType = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Gpus],
    Field(max_length=256),
    FailFast(),
    BeforeValidator(at_most(256)),
]
Cores = Annotated[float, Field(ge=0, le=1_000_000)]
# Tenants of one cohort lend each other what they do not use; empty: it stands alone.
Cohort = Annotated[str, Field(max_length=128, pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$")]
# The local user its jobs run as, as useradd takes names; empty: what the settings say.
UserName = Annotated[str, Field(max_length=32, pattern=r"^([A-Za-z_][A-Za-z0-9_.-]*\$?)?$")]
# What members see of each other's jobs; "logs": the jobs, and what they print.
MembersSeeName = Literal["nothing", "jobs", "logs"]
Weight = Annotated[float, Field(ge=0.001, le=1000)]  # counted in thousandths


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class BudgetModel(BoundedModel):
    """GPU time per window, as GPU-hours or as their cost at billing.cost_per_gpu_hour.

    A request gives one of the two; an answer has both if GPU time has a price.
    """

    gpu_hours: Annotated[float, Field(gt=0, le=1_000_000_000)] | None = None
    cost: Annotated[float, Field(gt=0, le=1_000_000_000_000)] | None = None
    window: Literal["day", "week", "month", "total"] = "month"
    action: Literal["warn", "hold", "stop"] = "warn"


class TenantLimits(BoundedModel):
    """What a tenant's running jobs may have together. A limit left out does not limit."""

    max_gpus: Gpus | None = None
    max_gpus_by_type: GpusByType = {}
    max_gpu_memory_mb: Amount | None = None
    max_cpu_cores: Cores | None = None
    max_memory_mb: Amount | None = None
    max_concurrent_jobs: Amount | None = None
    max_borrow_gpus: Gpus | None = None  # from its cohort, beyond max_gpus
    max_lend_gpus: Gpus | None = None  # of max_gpus, to its cohort
    budget: BudgetModel | None = None
    # Of jobs of its users; left out: security.max_priority
    max_priority: Priority | None = None


class TenantCreate(TenantLimits):
    model_config = ConfigDict(
        extra="forbid",
        populate_by_name=True,
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "ML Research Team",
                    "max_gpus": 16,
                    "max_gpu_memory_mb": 200000,
                    "max_cpu_cores": 64,
                    "max_memory_mb": 500000,
                    "max_concurrent_jobs": 20,
                    "cohort": "science",
                    "budget": {"gpu_hours": 5000, "window": "month", "action": "hold"},
                }
            ]
        },
    )

    id: Word | None = Field(
        default=None, validation_alias=AliasChoices("id", "tenant_id", "project_id")
    )
    name: Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL)]
    priority_tier: TierName = "normal"
    fair_share_weight: Weight = 1.0
    allow_preemption: bool = True
    enforce_quota: bool = True
    cohort: Cohort = ""
    run_as: UserName = ""
    system_user: bool = False  # make a user for its jobs, in place of naming one
    members_see: MembersSeeName = "jobs"
    user_limits: UserLimitsModel = UserLimitsModel()  # of each of its users …
    users: UsersByName = {}  # … but for these


class TenantPatch(RequestModel):
    """Missing fields stay; null removes a limit."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"max_gpus": 32, "max_cpu_cores": None}]}
    )

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL)] = ""
    max_gpus: Gpus | None = None
    max_gpus_by_type: GpusByType = {}
    max_gpu_memory_mb: Amount | None = None
    max_cpu_cores: Cores | None = None
    max_memory_mb: Amount | None = None
    max_concurrent_jobs: Amount | None = None
    max_borrow_gpus: Gpus | None = None
    max_lend_gpus: Gpus | None = None
    budget: BudgetModel | None = None
    max_priority: Priority | None = None
    cohort: Cohort = ""
    priority_tier: TierName = "normal"
    fair_share_weight: Weight = 1.0
    allow_preemption: bool = True
    enforce_quota: bool = True
    active: bool = True
    run_as: UserName = ""
    system_user: bool = False
    members_see: MembersSeeName = "jobs"
    user_limits: UserLimitsModel = UserLimitsModel()
    # Those that are named; null: what each user has
    users: Annotated[
        dict[UserWord, UserLimitsModel | None],
        Field(max_length=1000),
        BeforeValidator(at_most(1000)),
    ] = {}


class UsageModel(_Model):
    """Usage in total or on one day."""

    gpu_hours: float
    gpu_seconds: float  # the same, exact to the millisecond
    jobs_completed: int
    jobs_failed: int
    jobs_cancelled: int
    cost: float  # at cost_per_gpu_hour


class DailyUsageModel(UsageModel):
    date: str  # UTC


class TenantModel(TenantLimits):
    id: str
    name: str
    priority_tier: TierName
    fair_share_weight: float
    allow_preemption: bool
    enforce_quota: bool
    cohort: str = ""
    run_as: str = ""
    members_see: MembersSeeName = "jobs"
    user_limits: UserLimitsModel = UserLimitsModel()
    users: dict[str, UserLimitsModel] = {}  # that have limits of their own
    active: bool
    created_at: str
    current_gpus: float
    borrowed_gpus: float = 0.0  # of these, beyond its own max_gpus
    lent_gpus: float = 0.0  # of its unused max_gpus, what others of its cohort have
    current_gpus_by_type: dict[str, float]
    current_gpu_memory_mb: int
    current_cpu_cores: float
    current_memory_mb: int
    current_jobs: int
    usage: UsageModel


class TenantList(_Model):
    tenants: list[TenantModel]


class TenantUsage(_Model):
    tenant_id: str
    total: UsageModel
    days: list[DailyUsageModel]


QueueName = Annotated[str, Field(min_length=1, max_length=128, pattern=NO_NUL)]
QueuePriority = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
PolicyName = Annotated[str, Field(max_length=100)]
WaitTarget = Annotated[float, Field(gt=0, le=366 * 86_400)]
IdleAction = Literal["warn", "hold", "end"]


class QueueCreate(RequestModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "project_id": "default",
                    "name": "training",
                    "priority": 10,
                    "max_concurrent_jobs": 5,
                }
            ]
        }
    )

    # Left out: the caller's only tenant, or `default` where that is one of theirs.
    project_id: Word | None = Field(
        default=None, validation_alias=AliasChoices("project_id", "tenant_id")
    )
    name: QueueName
    priority: QueuePriority = 0
    max_concurrent_jobs: Amount | None = None
    enabled: bool = True
    policy: PolicyName = ""  # its own order of its jobs; empty: the service's
    wait_target_seconds: WaitTarget | None = None  # its jobs should start within this
    idle_action: IdleAction = "warn"  # for jobs whose GPUs do nothing


class QueuePatch(RequestModel):
    """Missing fields stay; null removes `max_concurrent_jobs` or `wait_target_seconds`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"priority": 20, "max_concurrent_jobs": None}]}
    )

    priority: QueuePriority = 0
    max_concurrent_jobs: Amount | None = None
    enabled: bool = True
    policy: PolicyName = ""
    wait_target_seconds: WaitTarget | None = None
    idle_action: IdleAction = "warn"


class QueueModel(_Model):
    id: str  # "project:name"
    project_id: str
    name: str
    priority: int
    max_concurrent_jobs: int | None
    enabled: bool
    policy: str = ""
    wait_target_seconds: float | None = None
    idle_action: str = "warn"
    running_jobs: int
    pending_jobs: int
    total_jobs: int


class QueueList(RootModel[list[QueueModel]]):
    """Higher ones first."""


class QuotaPatch(RequestModel):
    """In cores, GiB and GPUs. Missing fields stay; null removes a limit."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"cpu_quota": 100, "memory_quota": 500, "gpu_quota": 8}]}
    )

    cpu_quota: Cores | None = None
    memory_quota: Annotated[float, Field(ge=0, le=1_000_000_000)] | None = None
    gpu_quota: Gpus | None = None
    enforce_quota: bool = True


class QuotaModel(_Model):
    """A project's quota and its use; null for no limit."""

    project_id: str
    cpu_quota: float | None
    used_cpu: float
    available_cpu: float | None
    cpu_usage_percent: float | None
    memory_quota: float | None
    used_memory: float
    available_memory: float | None
    memory_usage_percent: float | None
    gpu_quota: float | None
    used_gpu: float
    available_gpu: float | None
    gpu_usage_percent: float | None
    borrowed_gpu: float = 0.0  # of used_gpu, beyond gpu_quota
    lent_gpu: float = 0.0  # of gpu_quota, unused, what others of its cohort have
    enforce_quota: bool
    provider: str
    synced_at: str
    user_limits: UserLimitsModel = UserLimitsModel()  # of each user who has none by name
    users: list[UserUseModel] = []


class SchedulerInfo(_Model):
    policy: str
    quota_provider: str
    active_queues: int
    pending_jobs: int


class TriggerRequest(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"project_id": "default"}]})

    project_id: Word | None = Field(
        default=None, validation_alias=AliasChoices("project_id", "tenant_id")
    )


class TriggerAnswer(_Model):
    scheduled_count: int
    remaining_pending: int
