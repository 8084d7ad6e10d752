"""The settings themselves: sections, defaults, and what each key means.

The descriptions are what the sample file and the reference page print, so they are written for the
person who edits the file.
"""

from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import AfterValidator, Field, model_validator

from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Budget, MembersSee, OverBudget, Tenant, Tier, UserLimits, Window
from tgpu.core.model.units import CPU, GPU, GPU_HOUR, GPU_STEP
from tgpu.settings.fields import NOT_BOOL, ON_OR_OFF, FilePath, SecretText, Section
from tgpu.settings.notices import NoticeSettings
from tgpu.settings.process import default_data_dir
from tgpu.settings.user_map import MapRuleSettings

_MAX_SECONDS = 366 * 86_400  # a year; more is a slip of the keyboard
_MAX_AMOUNT = 2**53 - 1  # the widest integer that JSON readers everywhere keep exact


def _refuse_relative(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("must be an absolute path, beginning with / or ~")
    return path


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


GpuAmount = Annotated[
    Decimal,
    Field(ge=0, le=100_000, allow_inf_nan=False),
    NOT_BOOL,
    AfterValidator(_in_gpu_steps),
]
Amount = Annotated[int, Field(ge=0, le=_MAX_AMOUNT), NOT_BOOL]
# As useradd takes them. A number is no name: it would mean whoever has it next.
UserName = Annotated[str, Field(max_length=32, pattern=r"^([A-Za-z_][A-Za-z0-9_.-]*\$?)?$")]
LabelName = Annotated[str, Field(max_length=256, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$")]


# As wide as JSON numbers are exact.
Priority = Annotated[int, Field(ge=-(2**53 - 1), le=2**53 - 1), NOT_BOOL]


class Misplaced(ValueError):
    """A rule about several sections; `path` is where people should look."""

    def __init__(self, path: tuple[str, ...], sentence: str) -> None:
        super().__init__(sentence)
        self.path = path


class SchedulerSettings(Section):
    """Who is served first, and when the scheduler looks."""

    policy: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="priority",
        description="Order of the queue: priority, fifo, fairshare, shortest, backfill or "
        "quickest; las or adaptive, which also preempt running jobs; or an installed "
        "policy.",
    )
    aging_seconds: Annotated[int, Field(ge=1, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=60,
        description="Interval at which a waiting job gains `aging_step` points of priority.",
    )
    aging_step: Annotated[int, Field(ge=0, le=1_000_000), NOT_BOOL] = Field(
        default=1, description="Priority points gained per interval; 0 for no ageing."
    )
    shortest_bound_seconds: Annotated[int, Field(ge=0, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=3600,
        description="With the policy shortest, jobs that have waited longer than this go first.",
    )
    quickest_bound_seconds: Annotated[int, Field(ge=0, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=14 * 86_400,
        description="With the policy quickest, jobs that have waited longer than this go first.",
    )
    backfill_over: Literal["priority", "fifo", "fairshare", "shortest"] = Field(
        default="priority", description="Order of the queue with the policy backfill."
    )
    fair_share_half_life_hours: Annotated[
        float, Field(ge=0, le=87_600, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=168.0,
        description="Half-life of GPU time in the fair share; 0 counts only the GPUs held now.",
    )
    backfill: Literal["greedy", "easy", "conservative", "strict"] = Field(
        default="easy",
        description="Which jobs may start before jobs ahead of them that cannot start yet: "
        "greedy, all that fit; easy, those that do not delay the first of them; "
        "conservative, those that delay none of them; strict, none.",
    )
    placement: Literal["fragmentation", "consolidated"] = Field(
        default="fragmentation",
        description="Where jobs are placed: fragmentation, where typical requests (learnt from "
        "past jobs) lose the least free capacity; consolidated, on the fullest node "
        "with room, and gangs on as few nodes as an empty cluster would need.",
    )
    reservation_depth: Annotated[int, Field(ge=1, le=100_000), NOT_BOOL] = Field(
        default=100,
        description="Number of jobs that get a reservation when backfill is conservative.",
    )
    hold_after_seconds: Annotated[int, Field(ge=0, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=3600,
        description="A job that has waited this long is no longer overtaken on the GPUs it will "
        "get; 0 for never.",
    )
    enable_preemption: bool = Field(
        default=False,
        description="Preempt running jobs for more important ones, or as the policy says, and "
        "reclaim lent quota.",
    )
    preempt_margin: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=1,
        description="How much higher a job's priority must be than that of the jobs it preempts.",
    )
    preempt_min_run_seconds: Annotated[int, Field(ge=0, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=300, description="Minimum run time before a job may be preempted."
    )
    preempt_spare_seconds: Annotated[int, Field(ge=0, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=60, description="Jobs that end by themselves within this time are not preempted."
    )
    preempt_most_times: Annotated[int, Field(ge=0, le=1_000_000), NOT_BOOL] = Field(
        default=3,
        description="Maximum preemptions per job; not under las and adaptive.",
    )
    scheduling_interval_ms: Annotated[int, Field(ge=10, le=3_600_000), NOT_BOOL] = Field(
        default=1000, description="A cycle runs when something changes, and at least this often."
    )
    clock: Literal["auto", "manual"] = Field(
        default="auto",
        description="With manual, nothing happens until POST /schedule?now=N sets the time.",
    )
    max_queue_size: Annotated[int, Field(ge=0, le=_MAX_AMOUNT), NOT_BOOL] = Field(
        default=1_000_000,
        description="Maximum number of waiting jobs; further submissions are rejected. 0 for no "
        "limit.",
    )
    max_running_jobs: Annotated[int, Field(ge=0, le=_MAX_AMOUNT), NOT_BOOL] = Field(
        default=0,
        description="Maximum number of running jobs of all tenants; 0 for no limit.",
    )
    enable_gang_scheduling: bool = Field(
        default=True, description="Allow jobs with several workers that start together."
    )
    enable_thermal_aware: bool = Field(
        default=True, description="Start no jobs on hot GPUs, and prefer cooler ones."
    )
    thermal_threshold: Annotated[float, Field(ge=0, le=150, allow_inf_nan=False), NOT_BOOL] = Field(
        default=75.0, description="Temperature from which a GPU is hot, in degrees Celsius."
    )
    thermal_margin: Annotated[float, Field(ge=0, le=50, allow_inf_nan=False), NOT_BOOL] = Field(
        default=5.0, description="Degrees that a hot GPU must cool down below the threshold."
    )
    booking_unused_minutes: Annotated[
        float, Field(ge=0, le=525_600, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=15.0,
        description="A reservation is released if no job has run or waits in it this long after "
        "its start, unless it says otherwise; 0 keeps it until it ends.",
    )
    booking_max_hours: Annotated[float, Field(ge=0.01, le=8760, allow_inf_nan=False), NOT_BOOL] = (
        Field(default=168.0, description="Maximum length of a reservation.")
    )
    booking_max_days_ahead: Annotated[
        float, Field(ge=0.01, le=3650, allow_inf_nan=False), NOT_BOOL
    ] = Field(default=30.0, description="How far ahead a reservation may start.")


class ApiSettings(Section):
    """Where the service listens."""

    host: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        default="127.0.0.1",
        description="Address to listen on; any but loopback needs auth.enabled.",
    )
    http_port: Annotated[int, Field(ge=0, le=65_535), NOT_BOOL] = Field(
        default=8080, description="TCP port of the REST API; 0 for none, if a socket is enough."
    )
    grpc_port: Annotated[int, Field(ge=0, le=65_535), NOT_BOOL] = Field(
        default=9090,
        description="TCP port of gRPC, also for agents; 0 for none. Without an HTTP port there "
        "is none.",
    )
    metrics_port: Annotated[int, Field(ge=0, le=65_535), NOT_BOOL] = Field(
        default=9091,
        description="Separate TCP port for metrics, in addition to /metrics on the HTTP port; 0 "
        "for none.",
    )
    socket: FilePath | None = Field(
        default=None,
        description="Unix socket to listen on as well; only its owner can open it, or with "
        "auth.local_users every user of the machine.",
    )
    shutdown_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False), NOT_BOOL] = Field(
        default=2, description="Time for open requests to finish when the service stops."
    )
    insecure_listen: bool = Field(
        default=False,
        description="Listen to other machines without authentication; as root only with "
        "engine.kind: none.",
    )
    allowed_hosts: tuple[Annotated[str, Field(min_length=1, max_length=255)], ...] = Field(
        default=(),
        description="Host names that callers without a key may use for this machine, besides its "
        "addresses, localhost and its own name.",
    )
    tls_cert: FilePath | None = Field(
        default=None,
        description="Certificate (PEM, with its chain) of the TCP ports; without one they are "
        "not encrypted.",
    )
    tls_key: FilePath | None = Field(default=None, description="Private key of tls_cert (PEM).")

    @model_validator(mode="after")
    def _listens_somewhere(self) -> "ApiSettings":
        if self.http_port == 0 and self.socket is None:
            raise ValueError(
                "http_port is 0 and no socket is set, so nobody could reach the service: "
                "set http_port to a port such as 8080, or socket to a path"
            )
        self._refuse_one_port_twice()
        return self

    def _refuse_one_port_twice(self) -> None:
        if not self.http_port:
            return  # then there are no other ports either
        taken: dict[int, str] = {}
        for name in ("http_port", "grpc_port", "metrics_port"):
            port = getattr(self, name)
            if port in taken:
                raise ValueError(f"{taken[port]} and {name} are both {port}: choose two")
            if port:
                taken[port] = name


class AuthSettings(Section):
    """Who callers are: API keys, tokens (JWT), and users of this machine on the Unix socket."""

    enabled: bool = Field(
        default=False,
        description="Require an API key or token. If off, the user who started the service and "
        "root are admins, and others are rejected unless local_users serves them.",
    )
    local_users: bool | None = Field(
        default=None,
        description="Serve every user of this machine as themselves, over the Unix socket and "
        "loopback, with jobs that run as them; on by default if root runs the service.",
    )
    map: tuple[MapRuleSettings, ...] = Field(
        default=(),
        description="Tenants of the users of this machine, by user, group, pattern and default; "
        "without it, the tenant with their own name, else default.",
    )
    map_cache_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False), NOT_BOOL] = (
        Field(
            default=30,
            description="How long the groups of a user are cached; a user who leaves a group "
            "loses its tenants within this time.",
        )
    )
    jwt_secret_file: FilePath | None = Field(
        default=None,
        description="File with the secret (32 bytes or more) of HS256 tokens.",
    )
    jwt_jwks_file: FilePath | None = Field(
        default=None, description="File with the public keys (JWKS) of RS256 tokens."
    )
    jwt_jwks_url: Annotated[str, Field(max_length=2000)] = Field(
        default="", description="Address of the public keys (JWKS) of RS256 tokens."
    )
    jwt_audience: Annotated[str, Field(max_length=1000)] = Field(
        default="", description="Required audience (aud) of tokens; not checked if empty."
    )
    jwt_issuer: Annotated[str, Field(max_length=1000)] = Field(
        default="", description="Required issuer (iss) of tokens; not checked if empty."
    )
    jwt_role_claim: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="role", description="Token claim with the role; dots separate nested objects."
    )
    jwt_tenants_claim: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="tenants",
        description="Token claim with the list of tenants; dots separate nested objects.",
    )


class LimitSettings(Section):
    """How much one caller may ask for."""

    requests_per_second: Annotated[
        float, Field(ge=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL
    ] = Field(default=0, description="Requests per second for each caller; 0 for no limit.")
    burst: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=100, description="Maximum burst of requests for each caller."
    )
    max_body_mb: Annotated[int, Field(ge=1, le=10_000), NOT_BOOL] = Field(
        default=2, description="Maximum body of an ordinary request, also over gRPC, in MiB."
    )
    max_batch_mb: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=64, description="Maximum body of POST /jobs/batch, in MiB; it is read as a stream."
    )
    max_ingest_mb: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=1024, description="Maximum file of POST /ingest, in MiB; it is read as a stream."
    )
    connections: Annotated[int, Field(ge=16, le=1_000_000), NOT_BOOL] = Field(
        default=4096,
        description="Maximum TCP connections, as far as file descriptors allow; the Unix socket "
        "and gRPC each have a quarter as many of their own.",
    )
    connections_per_caller: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=1024,
        description="Maximum connections from one address, or one user of this machine; never more "
        "than half of all.",
    )
    streams: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=1024, description="Maximum event streams and journal exports at once."
    )
    streams_per_caller: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=128, description="The same for one caller."
    )
    head_seconds: Annotated[float, Field(ge=0.1, le=3600, allow_inf_nan=False), NOT_BOOL] = Field(
        default=10, description="Timeout for the head of a request, and for the TLS handshake."
    )
    body_seconds: Annotated[float, Field(ge=0.1, le=86_400, allow_inf_nan=False), NOT_BOOL] = Field(
        default=60,
        description="Timeout for the body of a request; POST /ingest and POST /jobs/batch may take "
        "longer while data arrives.",
    )
    idle_seconds: Annotated[float, Field(ge=0.1, le=86_400, allow_inf_nan=False), NOT_BOOL] = Field(
        default=10, description="Idle time after which a connection is closed."
    )


class DatabaseSettings(Section):
    """Where jobs are kept."""

    kind: Literal["sqlite", "memory", "postgresql"] = Field(
        default="sqlite",
        description="sqlite keeps jobs in a file; memory loses them when the service stops; "
        "postgresql is chosen by setting host or url.",
    )
    path: FilePath | None = Field(
        default=None,
        description="SQLite file; default: tgpu.db in the data directory.",
    )
    ballast_mb: Annotated[int, Field(ge=0, le=1_000_000), NOT_BOOL] = Field(
        default=32,
        description="MiB reserved on the disk of the data directory, freed when it is full so that "
        "ends and cancels can be recorded; at most a twentieth of the disk. 0 for none.",
    )
    url: SecretText | None = Field(
        default=None,
        description="PostgreSQL URL: postgresql://user:password@host:5432/database.",
    )
    host: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None,
        description="PostgreSQL host, or the directory of its socket.",
    )
    port: Annotated[int, Field(ge=1, le=65_535), NOT_BOOL] = Field(
        default=5432, description="PostgreSQL port."
    )
    user: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="PostgreSQL user; default: the user who runs the service."
    )
    password: SecretText | None = Field(
        default=None, description="PostgreSQL password; never shown."
    )
    database: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        default="gpu_scheduler", description="PostgreSQL database."
    )
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = Field(
        default="prefer", description="TLS mode of the connection to PostgreSQL."
    )
    timeout_seconds: Annotated[float, Field(ge=0.5, le=600), NOT_BOOL] = Field(
        default=10,
        description="Timeout for a database that does not answer, in seconds.",
    )

    @model_validator(mode="before")
    @classmethod
    def _host_chooses_postgresql(cls, given: Any) -> Any:
        if isinstance(given, dict) and "kind" not in given:
            named = given.get("host") is not None or given.get("url") is not None
            return {**given, "kind": "postgresql"} if named else given
        return given

    @model_validator(mode="after")
    def _names_one_database(self) -> "DatabaseSettings":
        named = [name for name in ("host", "url") if getattr(self, name) is not None]
        if self.kind == "postgresql" and not named:
            raise ValueError("kind is postgresql, and neither host nor url says where it is")
        if self.kind != "postgresql" and named:
            raise ValueError(
                f"kind is {self.kind}, and {named[0]} is for postgresql only: leave one of them out"
            )
        if self.url is not None and not _is_postgres_url(self.url.get_secret_value()):
            raise ValueError("url must be written as postgresql://user:password@host:5432/database")
        doubled = self.model_fields_set & {"host", "port", "user", "database"}
        if self.url is not None and doubled:
            raise ValueError(
                f"url and {', '.join(sorted(doubled))} are both set: the url says it all, "
                "so leave out either"
            )
        return self

    def postgres_url(self) -> str:
        """Where PostgreSQL is, with the password: for the store alone, never for people."""
        query = f"sslmode={self.sslmode}"
        password = None if self.password is None else quote(self.password.get_secret_value(), "")
        if self.url is not None:
            url = self.url.get_secret_value()
            parts = [] if password is None else [f"password={password}"]
            parts += [query] if "sslmode" in self.model_fields_set else []
            return url + ("&" if "?" in url else "?") * bool(parts) + "&".join(parts)
        user = "" if self.user is None else quote(self.user, "")
        login = user if password is None else f"{user}:{password}"
        host = self.host or ""
        place = f"[{host}]" if ":" in host else quote(host, "")
        database = quote(self.database, "")
        return f"postgresql://{login}{'@' * bool(login)}{place}:{self.port}/{database}?{query}"


class RedisSettings(Section):
    """What gateways (`tgpu gateway`) share; the service itself needs no Redis."""

    url: SecretText | None = Field(
        default=None,
        description="Redis shared by gateways, such as redis://:password@host:6379/0.",
    )
    cache_seconds: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False), NOT_BOOL] = Field(
        default=1.0,
        description="How long gateways cache answers to reads; 0 for no cache.",
    )


GpuCount = Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False), NOT_BOOL]


class PredictionSettings(Section):
    """How long jobs will run."""

    predictor: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="history",
        description="history (from similar past jobs), limit (only the time limit), none, gbm "
        "(boosted trees, needs the extra ml), or an installed predictor.",
    )
    estimate_interval_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=5.0,
        description="How often start estimates are updated; 0 for never.",
    )
    estimate_budget_ms: Annotated[int, Field(ge=1, le=60_000)] = Field(
        default=250,
        description="Computing time for each update; jobs beyond it get a rough estimate.",
    )
    estimate_jobs: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2000,
        description="Number of waiting jobs that are projected one by one, in queue order.",
    )


class QuotaSettings(Section):
    """Who says how much each tenant may have."""

    provider: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="local",
        description="local for the limits set here and through the API, k8s, slurm, or the name "
        "of an installed provider.",
    )
    k8s_namespace: Annotated[str, Field(min_length=1, max_length=63)] | None = Field(
        default=None, description="Namespace whose ResourceQuotas the k8s provider reads."
    )
    k8s_create_resource_quotas: bool = Field(
        default=False, description="Let the k8s provider create missing ResourceQuotas."
    )
    slurm_account_prefix: Annotated[str, Field(max_length=100)] = Field(
        default="project-",
        description="Prefix of the account names of tenants in Slurm.",
    )
    slurm_rest_api_url: Annotated[str, Field(max_length=1000, pattern=r"^https?://")] | None = (
        Field(default=None, description="URL of slurmrestd, beginning with http:// or https://.")
    )
    slurm_auth_token: SecretText | None = Field(
        default=None, description="Token for slurmrestd; never shown."
    )
    adjust: bool = Field(
        default=False,
        description="Adjust the borrowing limits of tenants in cohorts to their past usage.",
    )
    adjust_interval_seconds: Annotated[int, Field(ge=1, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=3600, description="Seconds between adjustments; usage is averaged over this time."
    )
    adjust_min_borrow: GpuCount = Field(default=0.0, description="Lowest borrowing limit, in GPUs.")
    adjust_max_borrow: GpuCount = Field(
        default=8.0, description="Highest borrowing limit, in GPUs."
    )
    adjust_step: GpuCount = Field(
        default=1.0, description="Change of a borrowing limit at a time, in GPUs."
    )

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> "QuotaSettings":
        if self.adjust_min_borrow > self.adjust_max_borrow:
            raise ValueError("must have an adjust_min_borrow that is not above adjust_max_borrow")
        return self


class BillingSettings(Section):
    """What GPU time costs."""

    cost_per_gpu_hour: Annotated[
        float, Field(ge=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL
    ] = Field(default=0.0, description="Price of one GPU for one hour, in your currency.")


class DeviceSettings(Section):
    """Which GPUs there are, and how they are watched."""

    gpus: Annotated[str, AfterValidator(_gpu_spec)] = Field(
        default="auto",
        description="GPUs to use: auto, nvml, nvidia-smi, or simulated ones such as sim:8xA100 or "
        "sim:4xA100,2xH100.",
    )
    monitor_interval_seconds: Annotated[
        float, Field(ge=0.1, le=3600, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=5,
        description="Interval between readings of temperature, memory and processes of the GPUs.",
    )
    expected_gpus: Annotated[int, Field(ge=0, le=100_000), NOT_BOOL] | None = Field(
        default=None,
        description="Expected number of GPUs: the service warns if it finds another number, and "
        "simulates this many if there is no driver.",
    )
    driver_timeout_seconds: Annotated[
        float, Field(ge=0.1, le=600, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=5, description="Timeout for the driver; a slower one is reported as a problem."
    )
    cpu_overcommit: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False), NOT_BOOL] = Field(
        default=1.0, description="CPU cores available to jobs, as a multiple of those of the node."
    )
    memory_overcommit: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False), NOT_BOOL] = (
        Field(
            default=1.0, description="Memory available to jobs, as a multiple of that of the node."
        )
    )
    labels: dict[LabelName, Annotated[str, Field(max_length=256)]] = Field(
        default={},
        description="Labels of this machine, for example rack: r1; jobs can require them.",
    )
    memory_threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), NOT_BOOL] = Field(
        default=0.8,
        description="A GPU takes no new jobs while other programs hold this fraction of its "
        "memory.",
    )
    load_threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), NOT_BOOL] = Field(
        default=0.8,
        description="A GPU takes no new jobs while other programs keep it this busy.",
    )
    allocation_precision: Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False), NOT_BOOL] = (
        Field(default=0.01, description="Step size of GPU fractions.")
    )
    probation_seconds: Annotated[
        float, Field(ge=0, le=31_622_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=600,
        description="After an error, a GPU takes no new jobs until it has had none for this long.",
    )
    idle_percent: Annotated[int, Field(ge=1, le=100), NOT_BOOL] = Field(
        default=5, description="Utilisation below which a GPU counts as idle."
    )
    idle_window_seconds: Annotated[
        float, Field(ge=0, le=31_622_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=1800,
        description="A job whose GPUs are idle for this long is flagged, after twice as long "
        "warned, and after three times its queue's idle_action applies; 0 for never. "
        "For simulated GPUs only if it is set.",
    )
    memory_overuse: Literal["off", "warn", "end"] = Field(
        default="warn",
        description="What happens to a job that uses more memory of a shared GPU than its share.",
    )
    memory_grace_seconds: Annotated[
        float, Field(ge=0, le=31_622_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=60,
        description="With memory_overuse: end, the time between the warning and the end of the "
        "job.",
    )


class EngineSettings(Section):
    """How jobs are run."""

    kind: Literal["local", "none"] = Field(
        default="local",
        description="local runs commands on this machine; with none, every job is a lease.",
    )
    grace_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False), NOT_BOOL] = Field(
        default=10, description="Time between TERM and KILL when a job is stopped."
    )
    checkpoint_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False), NOT_BOOL] = (
        Field(
            default=60,
            description="Time between the checkpoint signal of a preempted job and TERM.",
        )
    )
    run_as: Annotated[str, Field(max_length=64)] = Field(
        default="",
        description="User for jobs of API keys and tokens if their tenant has no run_as: one for "
        "each tenant with tgpu-{tenant}, otherwise for one tenant only.",
    )
    jobs_as_service_user: bool = Field(
        default=False,
        description="With auth.enabled but without root: run jobs as the user of the service, so "
        "that everyone who may submit has all its rights.",
    )
    screen: bool = Field(
        default=False,
        description="Run every job in a session of GNU screen that users can attach to.",
    )
    tmux: bool = Field(default=False, description="The same in tmux; not both.")
    prolog: Annotated[tuple[str, ...], Field(max_length=64)] = Field(
        default=(),
        description="Program and arguments to run before each attempt, as the user of the service.",
    )
    epilog: Annotated[tuple[str, ...], Field(max_length=64)] = Field(
        default=(),
        description="Program and arguments to run after each attempt, however it ended, before its "
        "GPUs are freed.",
    )
    hook_timeout_seconds: Annotated[
        float, Field(gt=0, le=86_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=60,
        description="Timeout of a prolog or epilog; after it, it is killed and has failed.",
    )
    prolog_failures: Annotated[int, Field(ge=0, le=1000), NOT_BOOL] = Field(
        default=3,
        description="Number of failed prologs in a row after which this machine takes no new "
        "jobs; 0 for never.",
    )
    epilog_holds: bool = Field(
        default=False, description="After a failed epilog, this machine takes no new jobs."
    )
    fence_gpus: Annotated[Literal["auto", "on", "off"], ON_OR_OFF] = Field(
        default="auto",
        description="Let the kernel keep a job from opening other GPUs: auto, if it can; on, "
        "start no job without; off, rely on CUDA_VISIBLE_DEVICES.",
    )


class BudgetSettings(Section):
    """GPU time a tenant may use in each window."""

    gpu_hours: (
        Annotated[float, Field(gt=0, le=1_000_000_000, allow_inf_nan=False), NOT_BOOL] | None
    ) = Field(default=None, description="As GPU-hours.")
    cost: (
        Annotated[float, Field(gt=0, le=1_000_000_000_000, allow_inf_nan=False), NOT_BOOL] | None
    ) = Field(default=None, description="As money, at billing.cost_per_gpu_hour.")
    window: Literal["day", "week", "month", "total"] = Field(
        default="month", description="Windows begin at midnight UTC, weeks on Mondays."
    )
    action: Literal["warn", "hold", "stop"] = Field(
        default="warn",
        description="When it is used up: warn, start no more jobs, or stop running ones too.",
    )

    @model_validator(mode="after")
    def _has_one_amount(self) -> "BudgetSettings":
        if (self.gpu_hours is None) == (self.cost is None):
            raise ValueError("must have one of gpu_hours and cost, for example gpu_hours: 500")
        return self

    def to_budget(self, cost_per_gpu_hour: float) -> Budget:
        hours = Decimal(str(self.gpu_hours or 0))
        if self.cost is not None:
            hours = Decimal(str(self.cost)) / Decimal(str(cost_per_gpu_hour))
        amount = max(1, int(hours * GPU_HOUR))
        return Budget(amount, Window(self.window), OverBudget(self.action))


class UserLimitsSettings(Section):
    """What one user of a tenant may have of it; a limit left out does not limit."""

    max_gpus: GpuAmount | None = Field(default=None, description="GPUs at once.")
    max_concurrent_jobs: Amount | None = Field(default=None, description="Jobs running at once.")
    max_gpu_hours_per_day: (
        Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL] | None
    ) = Field(default=None, description="GPU-hours from midnight to midnight, UTC.")

    def to_limits(self) -> UserLimits:
        hours = self.max_gpu_hours_per_day
        return UserLimits(
            _millis_or_none(self.max_gpus),
            self.max_concurrent_jobs,
            None if hours is None else round(hours * GPU_HOUR),
        )


class TenantSettings(Section):
    """A tenant and what its running jobs may have together; a limit left out does not limit."""

    tenant_id: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s/]+$")] = Field(
        description="Id of the tenant (or project)."
    )
    max_gpus: GpuAmount | None = Field(default=None, description="GPUs in total.")
    max_gpus_by_type: dict[Annotated[str, Field(min_length=1, max_length=64)], GpuAmount] = Field(
        default={},
        description="GPUs by type, for example A100: 2; other types are not limited.",
    )
    max_gpu_memory_mb: Amount | None = Field(default=None, description="GPU memory in MiB.")
    max_cpu_cores: (
        Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL] | None
    ) = Field(default=None, description="CPU cores.")
    max_memory_mb: Amount | None = Field(default=None, description="Memory in MiB.")
    max_concurrent_jobs: Amount | None = Field(default=None, description="Jobs running at once.")
    name: Annotated[str, Field(max_length=200)] = Field(
        default="", description="Display name; default: its id."
    )
    priority_tier: Literal["low", "normal", "high", "urgent"] = Field(
        default="normal",
        description="Default priority of its jobs: 100, 500, 1000 or 2000.",
    )
    fair_share_weight: Annotated[float, Field(ge=0.001, le=1000, allow_inf_nan=False), NOT_BOOL] = (
        Field(default=1.0, description="Its weight under the policy fairshare.")
    )
    allow_preemption: bool = Field(
        default=True, description="Whether its jobs may be preempted for more important ones."
    )
    enforce_quota: bool = Field(
        default=True, description="Enforce its limits; with false they are only shown."
    )
    cohort: Annotated[str, Field(max_length=128, pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$")] = (
        Field(
            default="",
            description="Tenants of one cohort lend each other their unused max_gpus.",
        )
    )
    max_borrow_gpus: GpuAmount | None = Field(
        default=None, description="GPUs it may borrow beyond max_gpus; default: no limit."
    )
    max_lend_gpus: GpuAmount | None = Field(
        default=None, description="GPUs of its max_gpus that it lends; default: all unused."
    )
    budget: BudgetSettings | None = Field(
        default=None,
        description="GPU time per window: gpu_hours or cost, window (day, week, month, total), "
        "action (warn, hold, stop).",
    )
    max_priority: Priority | None = Field(
        default=None,
        description="Highest priority its users may set; default: security.max_priority.",
    )
    run_as: UserName = Field(
        default="",
        description="Local user for jobs of its API keys and tokens; each tenant needs its own.",
    )
    members_see: Literal["nothing", "jobs", "logs"] = Field(
        default="jobs",
        description="What members see of each other's jobs: nothing, the jobs, or their logs "
        "too. Only owners, administrators of the tenant and operators may change "
        "jobs.",
    )

    user_limits: UserLimitsSettings = Field(
        default=UserLimitsSettings(),
        description="Limits for each of its users: max_gpus, max_concurrent_jobs, "
        "max_gpu_hours_per_day.",
    )
    users: dict[
        Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s/]+$")],
        UserLimitsSettings,
    ] = Field(
        default={},
        description="Limits for single users by name, which replace user_limits.",
    )

    def to_tenant(self, cost_per_gpu_hour: float = 0.0) -> Tenant:
        """The same in the integers that the core counts with."""
        by_type = sorted(self.max_gpus_by_type.items())
        return Tenant(
            tenant_id=TenantId(self.tenant_id),
            max_gpu_millis=_millis_or_none(self.max_gpus),
            max_gpu_millis_by_type=tuple((name, _gpu_millis(gpus)) for name, gpus in by_type),
            max_gpu_mem_mib=self.max_gpu_memory_mb,
            max_cpu_millis=None if self.max_cpu_cores is None else round(self.max_cpu_cores * CPU),
            max_mem_mib=self.max_memory_mb,
            max_running_jobs=self.max_concurrent_jobs,
            name=self.name,
            tier=Tier(self.priority_tier),
            weight_millis=round(self.fair_share_weight * 1000),
            allow_preemption=self.allow_preemption,
            enforce_quota=self.enforce_quota,
            cohort=self.cohort,
            borrow_millis=_millis_or_none(self.max_borrow_gpus),
            lend_millis=_millis_or_none(self.max_lend_gpus),
            budget=None if self.budget is None else self.budget.to_budget(cost_per_gpu_hour),
            max_priority=self.max_priority,
            run_as=self.run_as,
            members_see=MembersSee(self.members_see),
            user_limits=self.user_limits.to_limits(),
            limits_by_user=tuple(
                (user, each.to_limits()) for user, each in sorted(self.users.items())
            ),
        )


class AgentSettings(Section):
    """Machines that report through `tgpu agent`."""

    offline_after_seconds: Annotated[
        float, Field(ge=0.1, le=86_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=30, description="A node that has not reported for this long is shown as offline."
    )


class FileSettings(Section):
    """Files that the service reads while it runs."""

    jobs_file: FilePath | None = Field(
        default=None,
        description="Watched file with one job per line, for example jobs.txt; each new line is "
        "queued.",
    )
    jobs_tenant: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s/]+$")] = Field(
        default="default", description="Tenant of the jobs in the jobs file."
    )
    monitor_interval_s: Annotated[
        float, Field(ge=0.1, le=86_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=30.0,
        description="The jobs file is read as soon as it changes, and at least this often.",
    )
    llm_config_file: FilePath | None = Field(
        default=None,
        description="File with the GPUs that models need, for example llm_config.json.",
    )


class JobSettings(Section):
    """What holds for jobs that do not say it, and how often lines of the jobs file are tried."""

    time_limit_s: Annotated[float, Field(ge=0, le=_MAX_SECONDS, allow_inf_nan=False), NOT_BOOL] = (
        Field(
            default=0,
            description="Default time limit of jobs with a command; 0 for none.",
        )
    )
    log_limit_mb: Annotated[int, Field(ge=0, le=1_000_000_000), NOT_BOOL] = Field(
        default=1024,
        description="Maximum size of each of a job's two logs, in MiB, and the most a job may "
        "ask for; the beginning and the end are kept. 0 for no limit.",
    )
    max_assignment_attempts: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=5,
        description="A line whose job failed is tried again when the file is saved, this many "
        "times in total.",
    )
    assignment_retry_wait_s: Annotated[
        float, Field(ge=0, le=_MAX_SECONDS, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=5.0,
        description="Seconds before a line that failed or could not be queued is tried again.",
    )


class LoggingSettings(Section):
    """What the service says about itself, and where."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Lowest level of log lines to write."
    )
    format: Literal["console", "json"] = Field(
        default="console", description="console for people; json for machines, one object per line."
    )
    file: FilePath | None = Field(
        default=None,
        description="Log file; default: standard error.",
    )
    max_size_mb: Annotated[int, Field(ge=0, le=1_000_000), NOT_BOOL] = Field(
        default=100,
        description="Size at which the log file is rotated, in MiB; 0 for never.",
    )
    backup_count: Annotated[int, Field(ge=0, le=10_000), NOT_BOOL] = Field(
        default=5, description="Number of rotated log files to keep."
    )


class SecuritySettings(Section):
    """What jobs may run, and how much of the machine one of them may use."""

    allowed_script_paths: tuple[Annotated[FilePath, AfterValidator(_refuse_relative)], ...] = Field(
        default=(),
        description="Folders that job scripts must be in, links resolved; empty for anywhere.",
    )
    enable_resource_limits: bool = Field(default=True, description="Enforce the limits below.")
    max_memory_per_job_gb: (
        Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL] | None
    ) = Field(
        default=None,
        description="Memory that a job may request and use, in GiB; without control groups, that "
        "each of its processes may use.",
    )
    max_cpu_hours: (
        Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL] | None
    ) = Field(
        default=None,
        description="Maximum CPU hours of each process of a job; a process over it is killed.",
    )
    max_open_files: Annotated[int, Field(ge=16, le=1_000_000_000), NOT_BOOL] | None = Field(
        default=None, description="Maximum open files of each process of a job."
    )
    secret_key_file: Annotated[FilePath, AfterValidator(_refuse_relative)] | None = Field(
        default=None,
        description="File with the keys that encrypt secrets in the database; default: "
        "secret.key in the data directory.",
    )
    max_priority: Priority | None = Field(
        default=1999,
        description="Highest priority that callers may set, except operators and admins of all "
        "tenants; null for any.",
    )


class Settings(Section):
    """Everything that can be set. Immutable: a changed setting is a new start of the service."""

    data_dir: FilePath | None = Field(
        default=None,
        description="Directory for the database, logs and job directories; default: "
        "$XDG_DATA_HOME/tgpu or ~/.local/share/tgpu.",
    )
    scheduler: SchedulerSettings = SchedulerSettings()
    api: ApiSettings = ApiSettings()
    auth: AuthSettings = AuthSettings()
    limits: LimitSettings = LimitSettings()
    database: DatabaseSettings = DatabaseSettings()
    redis: RedisSettings = RedisSettings()
    devices: DeviceSettings = DeviceSettings()
    engine: EngineSettings = EngineSettings()
    agents: AgentSettings = AgentSettings()
    quota: QuotaSettings = QuotaSettings()
    prediction: PredictionSettings = PredictionSettings()
    billing: BillingSettings = BillingSettings()
    tenants: tuple[TenantSettings, ...] = Field(
        default=(),
        description="Tenants and their limits. If left out: one tenant named default, without "
        "limits.",
    )
    notices: tuple[NoticeSettings, ...] = Field(
        default=(),
        description="Notifications by mail, webhook, Slack or on the desktop.",
    )
    files: FileSettings = FileSettings()
    jobs: JobSettings = JobSettings()
    logging: LoggingSettings = LoggingSettings()
    security: SecuritySettings = SecuritySettings()

    @property
    def data_directory(self) -> Path:
        """Where everything lives: `data_dir`, or the default one."""
        return self.data_dir or default_data_dir()

    def serves_local_users(self, uid: int) -> bool:
        """Whether a service that runs as `uid` serves other users of this machine.

        One without authentication that is reached by its Unix socket alone is its owner's own.
        """
        if self.auth.local_users is not None:
            return self.auth.local_users
        return uid == 0 and (self.auth.enabled or self.api.http_port != 0)

    @property
    def database_path(self) -> Path:
        return self.database.path or self.data_directory / "tgpu.db"

    @model_validator(mode="after")
    def _listens_somewhere_safe(self) -> "Settings":
        host = self.api.host
        if not self.api.http_port or self.api.insecure_listen or self.auth.enabled:
            return self
        if not is_loopback(host):
            raise Misplaced(
                ("api",),
                f"host {host!r} can be reached from other machines, and anyone who reaches it "
                "could run commands as you: use 127.0.0.1, turn on authentication with "
                "auth.enabled: true, or use --insecure-listen (api.insecure_listen: true)",
            )
        return self

    @model_validator(mode="after")
    def _tenants_differ(self) -> "Settings":
        seen: set[str] = set()
        for tenant in self.tenants:
            if tenant.tenant_id in seen:
                raise ValueError(
                    f"tenants: {tenant.tenant_id!r} is given twice; name each one once"
                )
            seen.add(tenant.tenant_id)
        return self

    @model_validator(mode="after")
    def _notices_differ(self) -> "Settings":
        names = [notice.name for notice in self.notices]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"notices: {name!r} is given twice; name each one once")
        if sum(notice.for_jobs for notice in self.notices) > 1:
            raise ValueError("notices: two have for_jobs: true, and owners would get all twice")
        return self

    @model_validator(mode="after")
    def _money_has_a_price(self) -> "Settings":
        for tenant in self.tenants:
            budget = tenant.budget
            if (
                budget is not None
                and budget.cost is not None
                and not self.billing.cost_per_gpu_hour
            ):
                raise Misplaced(
                    ("tenants",),
                    f"the budget of {tenant.tenant_id!r} is money, and GPU time has no price: set "
                    "billing.cost_per_gpu_hour, or give the budget as gpu_hours",
                )
        return self


def _is_postgres_url(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _millis_or_none(gpus: Decimal | None) -> int | None:
    return None if gpus is None else _gpu_millis(gpus)


def _gpu_millis(gpus: Decimal) -> int:
    return int(gpus * GPU)
