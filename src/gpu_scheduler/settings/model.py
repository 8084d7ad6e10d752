"""The settings themselves: sections, defaults, and what each key means.

The descriptions are what the sample file and the reference page print, so they are written for the
person who edits the file.
"""

from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from gpu_scheduler.core.ids import TenantId
from gpu_scheduler.core.tenant import Tenant
from gpu_scheduler.core.units import CPU, GPU, GPU_STEP
from gpu_scheduler.settings.process import default_data_dir

_MAX_SECONDS = 366 * 86_400  # a year; more is a slip of the keyboard
_MAX_AMOUNT = 2**53 - 1  # the widest integer that JSON readers everywhere keep exact


def _refuse_bool(value: object) -> object:
    # pydantic would take true for 1, and YAML writes `yes` and `on` as true.
    if isinstance(value, bool):
        raise PydanticCustomError("not_a_number", "must be a number, not true or false")
    return value


def _expand(path: Path) -> Path:
    return path.expanduser()


def _refuse_empty(value: object) -> object:
    if value == "":
        raise PydanticCustomError("not_a_path", "must be a path; leave the key out for the default")
    return value


def _in_gpu_steps(amount: Decimal) -> Decimal:
    if amount * GPU % GPU_STEP:
        raise ValueError("must be a number of GPUs in steps of 0.01")
    return amount


def _gpu_spec(text: str) -> str:
    # Only the kind is checked here; what follows "sim:" is read by the devices, which know it.
    if text in ("auto", "nvml", "nvidia-smi") or (text.startswith("sim:") and text != "sim:"):
        return text
    raise ValueError("must be auto, nvml, nvidia-smi or a simulated node such as sim:8xA100")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`. A name other than localhost counts as reachable."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


# After the limits in an Annotated: pydantic keeps limits in the schema only next to the type.
NOT_BOOL = BeforeValidator(_refuse_bool)
FilePath = Annotated[Path, BeforeValidator(_refuse_empty), AfterValidator(_expand)]
GpuAmount = Annotated[
    Decimal,
    Field(ge=0, le=100_000, allow_inf_nan=False),
    NOT_BOOL,
    AfterValidator(_in_gpu_steps),
]
Amount = Annotated[int, Field(ge=0, le=_MAX_AMOUNT), NOT_BOOL]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)


class SchedulerSettings(_Section):
    """Who is served first, and when the scheduler looks."""

    policy: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="priority",
        description="Order of the queue: priority, fifo, fairshare, backfill, or the name of an "
        "installed policy.",
    )
    aging_seconds: Annotated[int, Field(ge=1, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=60, description="A waiting job gains one point of priority each time this passes."
    )
    scheduling_interval_ms: Annotated[int, Field(ge=10, le=3_600_000), NOT_BOOL] = Field(
        default=1000, description="A cycle runs when something changed, and at least this often."
    )
    clock: Literal["auto", "manual"] = Field(
        default="auto",
        description="With manual, nothing happens until POST /schedule?now=N says the time.",
    )
    max_queue_size: Annotated[int, Field(ge=0, le=_MAX_AMOUNT), NOT_BOOL] = Field(
        default=1_000_000,
        description="Submissions are refused while this many jobs wait; 0 for no limit.",
    )


class ApiSettings(_Section):
    """Where the service listens."""

    host: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        default="127.0.0.1",
        description="Address of the HTTP port; others than loopback must be insisted on.",
    )
    http_port: Annotated[int, Field(ge=0, le=65_535), NOT_BOOL] = Field(
        default=8080, description="TCP port of the REST API; 0 for none, when a socket is enough."
    )
    metrics_port: Annotated[int, Field(ge=0, le=65_535), NOT_BOOL] = Field(
        default=9091,
        description="TCP port of the metrics alone, beside /metrics on the HTTP port; 0 for none.",
    )
    socket: FilePath | None = Field(
        default=None, description="Unix socket to listen on as well; only its owner can open it."
    )
    insecure_listen: bool = Field(
        default=False,
        description="Listen on an address that other machines reach, without authentication.",
    )

    @model_validator(mode="after")
    def _listens_somewhere_safe(self) -> "ApiSettings":
        if self.http_port == 0 and self.socket is None:
            raise ValueError(
                "http_port is 0 and no socket is set, so nobody could reach the service: "
                "set http_port to a port such as 8080, or socket to a path"
            )
        if self.http_port and self.http_port == self.metrics_port:
            raise ValueError(f"http_port and metrics_port are both {self.http_port}: choose two")
        if self.http_port and not self.insecure_listen and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host!r} can be reached from other machines, and anyone who reaches it "
                "could run commands as you: use 127.0.0.1, or insist with --insecure-listen "
                "(api.insecure_listen: true)"
            )
        return self


class DatabaseSettings(_Section):
    """Where jobs are kept."""

    kind: Literal["sqlite", "memory"] = Field(
        default="sqlite",
        description="sqlite keeps jobs in a file; memory forgets them when the service ends.",
    )
    path: FilePath | None = Field(
        default=None,
        description="File of the SQLite database; tgpu.db in the data directory by default.",
    )


class DeviceSettings(_Section):
    """Which GPUs there are, and how they are watched."""

    gpus: Annotated[str, AfterValidator(_gpu_spec)] = Field(
        default="auto",
        description="auto, nvml, nvidia-smi, or a simulated node such as sim:8xA100 or "
        "sim:4xA100,2xH100.",
    )
    monitor_interval_seconds: Annotated[
        float, Field(ge=0.1, le=3600, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=5, description="How often temperature, memory and processes of the GPUs are read."
    )
    driver_timeout_seconds: Annotated[
        float, Field(ge=0.1, le=600, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=5, description="A driver that takes longer to answer is reported as a problem."
    )
    cpu_overcommit: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False), NOT_BOOL] = Field(
        default=1.0, description="CPU cores given to jobs, as a multiple of those the node has."
    )
    memory_overcommit: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False), NOT_BOOL] = (
        Field(default=1.0, description="Memory given to jobs, as a multiple of what the node has.")
    )


class EngineSettings(_Section):
    """How jobs are run."""

    kind: Literal["local", "none"] = Field(
        default="local",
        description="local runs commands on this machine; none makes every job a lease.",
    )
    grace_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False), NOT_BOOL] = Field(
        default=10, description="A job that is ended gets TERM, and KILL this much later."
    )


class TenantSettings(_Section):
    """A tenant and what its running jobs may have together; a limit left out does not limit."""

    tenant_id: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s/]+$")] = Field(
        description="Name of the tenant (or project) that jobs are submitted for."
    )
    max_gpus: GpuAmount | None = Field(default=None, description="GPUs of all types together.")
    max_gpus_by_type: dict[Annotated[str, Field(min_length=1, max_length=64)], GpuAmount] = Field(
        default={},
        description="GPUs of each type, for example A100: 2; types left out are not limited.",
    )
    max_gpu_memory_mb: Amount | None = Field(default=None, description="GPU memory in MiB.")
    max_cpu_cores: (
        Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL] | None
    ) = Field(default=None, description="CPU cores.")
    max_memory_mb: Amount | None = Field(default=None, description="Memory in MiB.")
    max_concurrent_jobs: Amount | None = Field(default=None, description="Jobs running at once.")

    def to_tenant(self) -> Tenant:
        """The same in the integers that the core counts with."""
        by_type = sorted(self.max_gpus_by_type.items())
        return Tenant(
            tenant_id=TenantId(self.tenant_id),
            max_gpu_millis=None if self.max_gpus is None else _gpu_millis(self.max_gpus),
            max_gpu_millis_by_type=tuple((name, _gpu_millis(gpus)) for name, gpus in by_type),
            max_gpu_mem_mib=self.max_gpu_memory_mb,
            max_cpu_millis=None if self.max_cpu_cores is None else round(self.max_cpu_cores * CPU),
            max_mem_mib=self.max_memory_mb,
            max_running_jobs=self.max_concurrent_jobs,
        )


class LoggingSettings(_Section):
    """What the service says about itself, and where."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="The least important lines that are still written."
    )
    format: Literal["console", "json"] = Field(
        default="console", description="console for people, json for machines: one object a line."
    )
    file: FilePath | None = Field(
        default=None,
        description="File the log is appended to; the standard error stream by default.",
    )
    max_size_mb: Annotated[int, Field(ge=0, le=1_000_000), NOT_BOOL] = Field(
        default=100,
        description="The file is set aside at this many MiB and a new one begun; 0 for never.",
    )
    backup_count: Annotated[int, Field(ge=0, le=10_000), NOT_BOOL] = Field(
        default=5, description="Files set aside that are kept; older ones are deleted."
    )


class Settings(_Section):
    """Everything that can be set. Immutable: a changed setting is a new start of the service."""

    data_dir: FilePath | None = Field(
        default=None,
        description="Database, logs and job directories; $XDG_DATA_HOME/tgpu or "
        "~/.local/share/tgpu by default.",
    )
    scheduler: SchedulerSettings = SchedulerSettings()
    api: ApiSettings = ApiSettings()
    database: DatabaseSettings = DatabaseSettings()
    devices: DeviceSettings = DeviceSettings()
    engine: EngineSettings = EngineSettings()
    tenants: tuple[TenantSettings, ...] = Field(
        default=(),
        description="Who may have how much. Left out: one tenant named default, without limits.",
    )
    logging: LoggingSettings = LoggingSettings()

    @property
    def data_directory(self) -> Path:
        """Where everything lives: `data_dir`, or the default one."""
        return self.data_dir or default_data_dir()

    @property
    def database_path(self) -> Path:
        return self.database.path or self.data_directory / "tgpu.db"

    @model_validator(mode="after")
    def _tenants_differ(self) -> "Settings":
        seen: set[str] = set()
        for tenant in self.tenants:
            if tenant.tenant_id in seen:
                raise ValueError(
                    f"tenants: {tenant.tenant_id!r} is there twice; name each one once"
                )
            seen.add(tenant.tenant_id)
        return self


def _gpu_millis(gpus: Decimal) -> int:
    return int(gpus * GPU)
