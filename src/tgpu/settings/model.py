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
        raise ValueError("must be a whole path, beginning with / or ~")
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
        description="Order of the queue: priority, fifo, fairshare, shortest, backfill, quickest; "
        "las or adaptive, which also preempt running jobs; or the name of an "
        "installed policy.",
    )
    aging_seconds: Annotated[int, Field(ge=1, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=60,
        description="A waiting job gains `aging_step` points of priority each time this passes.",
    )
    aging_step: Annotated[int, Field(ge=0, le=1_000_000), NOT_BOOL] = Field(
        default=1, description="Points gained each time; 0 for no ageing."
    )
    shortest_bound_seconds: Annotated[int, Field(ge=0, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=3600,
        description="Under the policy shortest, jobs that waited longer than this come first.",
    )
    quickest_bound_seconds: Annotated[int, Field(ge=0, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=14 * 86_400,
        description="Under the policy quickest, jobs that waited longer than this come first.",
    )
    backfill_over: Literal["priority", "fifo", "fairshare", "shortest"] = Field(
        default="priority", description="The order of the jobs under the policy backfill."
    )
    fair_share_half_life_hours: Annotated[
        float, Field(ge=0, le=87_600, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=168.0,
        description="GPU time this long ago counts half in the fair share; 0 counts only the GPUs "
        "held now.",
    )
    backfill: Literal["greedy", "easy", "conservative", "strict"] = Field(
        default="easy",
        description="Which jobs may start before others that come first and cannot start yet: "
        "greedy, all that fit; easy, those that do not delay the first of them; conservative, "
        "those that delay none of them; strict, none.",
    )
    placement: Literal["fragmentation", "consolidated"] = Field(
        default="fragmentation",
        description="Which place a job gets: fragmentation, where the usual requests, learnt from "
        "past jobs, lose least; consolidated, the fullest node that does, and gangs on as few "
        "nodes as if all were free.",
    )
    reservation_depth: Annotated[int, Field(ge=1, le=100_000), NOT_BOOL] = Field(
        default=100, description="Jobs that get a reservation where backfill is conservative."
    )
    hold_after_seconds: Annotated[int, Field(ge=0, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=3600,
        description="Jobs that waited this long are not overtaken on the GPUs they will get; 0 for "
        "never.",
    )
    enable_preemption: bool = Field(
        default=False,
        description="Whether running jobs are preempted for more important ones, or as the policy "
        "says, and lent quota is reclaimed.",
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
    max_running_jobs: Annotated[int, Field(ge=0, le=_MAX_AMOUNT), NOT_BOOL] = Field(
        default=0,
        description="Maximum of running jobs over all tenants; 0 for no limit.",
    )
    enable_gang_scheduling: bool = Field(
        default=True, description="Whether jobs may have several workers that start together."
    )
    enable_thermal_aware: bool = Field(
        default=True, description="Give a hot GPU no new job, and prefer cooler ones."
    )
    thermal_threshold: Annotated[float, Field(ge=0, le=150, allow_inf_nan=False), NOT_BOOL] = Field(
        default=75.0, description="Degrees Celsius from which a GPU is hot."
    )
    thermal_margin: Annotated[float, Field(ge=0, le=50, allow_inf_nan=False), NOT_BOOL] = Field(
        default=5.0, description="Degrees below the threshold that a hot GPU must cool down to."
    )
    booking_unused_minutes: Annotated[
        float, Field(ge=0, le=525_600, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=15.0,
        description="A reservation in which no job ran or waits this long after its start is given "
        "back, where it does not say otherwise; 0 keeps it until it ends.",
    )
    booking_max_hours: Annotated[float, Field(ge=0.01, le=8760, allow_inf_nan=False), NOT_BOOL] = (
        Field(default=168.0, description="How long a reservation may be.")
    )
    booking_max_days_ahead: Annotated[
        float, Field(ge=0.01, le=3650, allow_inf_nan=False), NOT_BOOL
    ] = Field(default=30.0, description="How far ahead a reservation may begin.")


class ApiSettings(Section):
    """Where the service listens."""

    host: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        default="127.0.0.1",
        description="Address of the HTTP port; others than loopback need auth.enabled.",
    )
    http_port: Annotated[int, Field(ge=0, le=65_535), NOT_BOOL] = Field(
        default=8080, description="TCP port of the REST API; 0 for none, when a socket is enough."
    )
    grpc_port: Annotated[int, Field(ge=0, le=65_535), NOT_BOOL] = Field(
        default=9090,
        description="TCP port of gRPC, which agents use too; 0 for none, as without an HTTP port.",
    )
    metrics_port: Annotated[int, Field(ge=0, le=65_535), NOT_BOOL] = Field(
        default=9091,
        description="TCP port of the metrics alone, beside /metrics on the HTTP port; 0 for none.",
    )
    socket: FilePath | None = Field(
        default=None,
        description="Unix socket to listen on as well; only its owner can open it, or every user "
        "of the machine with auth.local_users.",
    )
    shutdown_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False), NOT_BOOL] = Field(
        default=2, description="When the service ends, requests under way get this long to finish."
    )
    insecure_listen: bool = Field(
        default=False,
        description="Listen on an address that other machines reach, without authentication; "
        "as root only where no jobs run (engine.kind: none).",
    )
    allowed_hosts: tuple[Annotated[str, Field(min_length=1, max_length=255)], ...] = Field(
        default=(),
        description="Names that callers without a key may ask for this machine by, besides "
        "its addresses, localhost and its own name.",
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
        description="Ask callers for an API key or a token. Off, those who started the service, "
        "and root, are admins, and others are refused unless local_users serves them.",
    )
    local_users: bool | None = Field(
        default=None,
        description="Serve every user of this machine under their own name, over the Unix socket "
        "and over loopback, with jobs that run as them; on by default where root runs the service.",
    )
    map: tuple[MapRuleSettings, ...] = Field(
        default=(),
        description="Which tenants users of this machine belong to, by user, group, pattern and "
        "default; without it to the tenant of their own name, else to default.",
    )
    map_cache_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False), NOT_BOOL] = (
        Field(
            default=30,
            description="For how long the system's answer about a user's groups is believed; who "
            "leaves a group loses its tenants within this time.",
        )
    )
    jwt_secret_file: FilePath | None = Field(
        default=None,
        description="File with the secret (32 bytes or more) that HS256 tokens are signed with.",
    )
    jwt_jwks_file: FilePath | None = Field(
        default=None, description="File with the public keys (JWKS) of RS256 tokens."
    )
    jwt_jwks_url: Annotated[str, Field(max_length=2000)] = Field(
        default="", description="Address of the public keys (JWKS) of RS256 tokens."
    )
    jwt_audience: Annotated[str, Field(max_length=1000)] = Field(
        default="", description="Audience (aud) that tokens must have; not checked when empty."
    )
    jwt_issuer: Annotated[str, Field(max_length=1000)] = Field(
        default="", description="Issuer (iss) that tokens must have; not checked when empty."
    )
    jwt_role_claim: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="role", description="Claim of a token with the role; dots lead into objects."
    )
    jwt_tenants_claim: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="tenants",
        description="Claim of a token with the list of tenants; dots lead into objects.",
    )


class LimitSettings(Section):
    """How much one caller may ask for."""

    requests_per_second: Annotated[
        float, Field(ge=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL
    ] = Field(default=0, description="Requests per second for each caller; 0 for no limit.")
    burst: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=100, description="Burst of requests that a caller may make after a pause."
    )
    max_body_mb: Annotated[int, Field(ge=1, le=10_000), NOT_BOOL] = Field(
        default=2, description="Largest body of an ordinary request, in MiB; of gRPC too."
    )
    max_batch_mb: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=64, description="Largest body of POST /jobs/batch, in MiB; it is read as a stream."
    )
    max_ingest_mb: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=1024, description="Largest file for POST /ingest, in MiB; it is read as a stream."
    )
    connections: Annotated[int, Field(ge=16, le=1_000_000), NOT_BOOL] = Field(
        default=4096,
        description="Connections over TCP at once, as far as descriptors allow; the Unix socket "
        "and gRPC have a quarter as many each, for themselves.",
    )
    connections_per_caller: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=1024,
        description="Connections of one address, or of one user of this machine; never more than "
        "half of all.",
    )
    streams: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=1024, description="Streams of events and exports of the journal at once."
    )
    streams_per_caller: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=128, description="The same, of one caller."
    )
    head_seconds: Annotated[float, Field(ge=0.1, le=3600, allow_inf_nan=False), NOT_BOOL] = Field(
        default=10, description="Time for the head of a request, and for the handshake of TLS."
    )
    body_seconds: Annotated[float, Field(ge=0.1, le=86_400, allow_inf_nan=False), NOT_BOOL] = Field(
        default=60,
        description="Time for the body of a request; POST /ingest and POST /jobs/batch may take "
        "longer while they keep coming.",
    )
    idle_seconds: Annotated[float, Field(ge=0.1, le=86_400, allow_inf_nan=False), NOT_BOOL] = Field(
        default=10, description="Time between two requests after which a connection is closed."
    )


class DatabaseSettings(Section):
    """Where jobs are kept."""

    kind: Literal["sqlite", "memory", "postgresql"] = Field(
        default="sqlite",
        description="sqlite keeps jobs in a file; memory forgets them when the service ends; "
        "postgresql is chosen by setting host or url.",
    )
    path: FilePath | None = Field(
        default=None,
        description="File of the SQLite database; tgpu.db in the data directory by default.",
    )
    ballast_mb: Annotated[int, Field(ge=0, le=1_000_000), NOT_BOOL] = Field(
        default=32,
        description="MiB of the data directory's disk kept back, to be given up for ends and "
        "cancels when it is full; a twentieth of a small disk, 0 for none.",
    )
    url: SecretText | None = Field(
        default=None,
        description="PostgreSQL as one address: postgresql://user:password@host:5432/database.",
    )
    host: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None,
        description="Host of PostgreSQL, or the directory of its socket.",
    )
    port: Annotated[int, Field(ge=1, le=65_535), NOT_BOOL] = Field(
        default=5432, description="TCP port of PostgreSQL."
    )
    user: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="User of PostgreSQL; the one the service runs as by default."
    )
    password: SecretText | None = Field(
        default=None, description="Password for PostgreSQL; never shown."
    )
    database: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        default="gpu_scheduler", description="Name of the database in PostgreSQL."
    )
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = Field(
        default="prefer", description="Whether PostgreSQL is talked to through TLS."
    )
    timeout_seconds: Annotated[float, Field(ge=0.5, le=600), NOT_BOOL] = Field(
        default=10,
        description="How long a request waits for a database that does not answer, in seconds.",
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
        description="Redis that gateways share, such as redis://:password@host:6379/0.",
    )
    cache_seconds: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False), NOT_BOOL] = Field(
        default=1.0,
        description="How long gateways may answer a read from their cache; 0 for never.",
    )


GpuCount = Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False), NOT_BOOL]


class PredictionSettings(Section):
    """How long jobs will run."""

    predictor: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="history",
        description="history (from similar past jobs), limit (the time limit alone), none, gbm "
        "(boosted trees, needs the extra ml), or the name of an installed predictor.",
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
        description="Number of waiting jobs projected one by one, the next ones first.",
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
        default=False, description="Whether the k8s provider makes ResourceQuotas that are missing."
    )
    slurm_account_prefix: Annotated[str, Field(max_length=100)] = Field(
        default="project-",
        description="What the slurm provider puts before a tenant's id to name its account.",
    )
    slurm_rest_api_url: Annotated[str, Field(max_length=1000, pattern=r"^https?://")] | None = (
        Field(
            default=None, description="Address of slurmrestd, beginning with http:// or https://."
        )
    )
    slurm_auth_token: SecretText | None = Field(
        default=None, description="Token for slurmrestd; never shown."
    )
    adjust: bool = Field(
        default=False,
        description="Whether borrowing limits of tenants in cohorts follow their past use.",
    )
    adjust_interval_seconds: Annotated[int, Field(ge=1, le=_MAX_SECONDS), NOT_BOOL] = Field(
        default=3600, description="Seconds between adjustments; use is averaged over them."
    )
    adjust_min_borrow: GpuCount = Field(
        default=0.0, description="GPUs below which no borrowing limit is adjusted."
    )
    adjust_max_borrow: GpuCount = Field(
        default=8.0, description="GPUs above which no borrowing limit is adjusted."
    )
    adjust_step: GpuCount = Field(
        default=1.0, description="GPUs by which a borrowing limit moves at a time."
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
        description="auto, nvml, nvidia-smi, or a simulated node such as sim:8xA100 or "
        "sim:4xA100,2xH100.",
    )
    monitor_interval_seconds: Annotated[
        float, Field(ge=0.1, le=3600, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=5, description="How often temperature, memory and processes of the GPUs are read."
    )
    expected_gpus: Annotated[int, Field(ge=0, le=100_000), NOT_BOOL] | None = Field(
        default=None,
        description="How many GPUs there should be: a start that finds another number warns, and "
        "where there is no driver this many are simulated.",
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
    labels: dict[LabelName, Annotated[str, Field(max_length=256)]] = Field(
        default={},
        description="Labels of this machine, for example rack: r1; jobs can ask for them.",
    )
    memory_threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), NOT_BOOL] = Field(
        default=0.8,
        description="A GPU takes no new job while processes that are not ours hold this part of "
        "its memory.",
    )
    load_threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), NOT_BOOL] = Field(
        default=0.8,
        description="A GPU takes no new job while processes that are not ours keep it this busy.",
    )
    allocation_precision: Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False), NOT_BOOL] = (
        Field(default=0.01, description="Parts of GPUs are given out in steps of this size.")
    )
    probation_seconds: Annotated[
        float, Field(ge=0, le=31_622_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=600,
        description="A GPU that had an error takes no new job until it was clean for this long.",
    )
    idle_percent: Annotated[int, Field(ge=1, le=100), NOT_BOOL] = Field(
        default=5, description="A GPU that is less busy than this does nothing."
    )
    idle_window_seconds: Annotated[
        float, Field(ge=0, le=31_622_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=1800,
        description="A job whose GPUs are idle for this long gets a note, after twice as long "
        "warned, after three times dealt with as its queue says; 0 never. On simulated GPUs only "
        "where it is set.",
    )
    memory_overuse: Literal["off", "warn", "end"] = Field(
        default="warn",
        description="What becomes of a job that uses more of a shared GPU's memory than its share.",
    )
    memory_grace_seconds: Annotated[
        float, Field(ge=0, le=31_622_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=60,
        description="With memory_overuse: end, the time between the warning and the end.",
    )


class EngineSettings(Section):
    """How jobs are run."""

    kind: Literal["local", "none"] = Field(
        default="local",
        description="local runs commands on this machine; none makes every job a lease.",
    )
    grace_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False), NOT_BOOL] = Field(
        default=10, description="A job that is ended gets TERM, and KILL this much later."
    )
    checkpoint_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False), NOT_BOOL] = (
        Field(
            default=60,
            description="A preempted job that asked for a signal to checkpoint gets TERM this much "
            "after it.",
        )
    )
    run_as: Annotated[str, Field(max_length=64)] = Field(
        default="",
        description="User that jobs of API keys and tokens run as where their tenant has no "
        "run_as: one for each with tgpu-{tenant}, else for one tenant only.",
    )
    jobs_as_service_user: bool = Field(
        default=False,
        description="With auth.enabled, where no root runs the service: jobs run as its own user, "
        "so every caller who may submit has all its rights.",
    )
    screen: bool = Field(
        default=False,
        description="Run every job in a session of GNU screen, to which people can attach.",
    )
    tmux: bool = Field(default=False, description="The same in tmux; one of the two.")
    prolog: Annotated[tuple[str, ...], Field(max_length=64)] = Field(
        default=(),
        description="Program and arguments that run on this machine before each attempt, as the "
        "service's user.",
    )
    epilog: Annotated[tuple[str, ...], Field(max_length=64)] = Field(
        default=(),
        description="The same behind each attempt, however it ended, before its GPUs go to others.",
    )
    hook_timeout_seconds: Annotated[
        float, Field(gt=0, le=86_400, allow_inf_nan=False), NOT_BOOL
    ] = Field(default=60, description="A prolog or epilog that takes longer is killed: it failed.")
    prolog_failures: Annotated[int, Field(ge=0, le=1000), NOT_BOOL] = Field(
        default=3,
        description="When so many prologs in a row have failed, this machine takes no new jobs; 0 "
        "for never.",
    )
    epilog_holds: bool = Field(
        default=False, description="One epilog that fails keeps new jobs off this machine."
    )
    fence_gpus: Annotated[Literal["auto", "on", "off"], ON_OR_OFF] = Field(
        default="auto",
        description="The kernel lets a job open no GPUs but its own: auto where it can, on starts "
        "no job without, off leaves it to CUDA_VISIBLE_DEVICES.",
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
        description="Once it is used up: say so, start no more of its jobs, or end them too.",
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
    name: Annotated[str, Field(max_length=200)] = Field(
        default="", description="What people call it; its id by default."
    )
    priority_tier: Literal["low", "normal", "high", "urgent"] = Field(
        default="normal",
        description="Priority of its jobs that name none: 100, 500, 1000 or 2000.",
    )
    fair_share_weight: Annotated[float, Field(ge=0.001, le=1000, allow_inf_nan=False), NOT_BOOL] = (
        Field(default=1.0, description="Its part of the machine under policy fairshare.")
    )
    allow_preemption: bool = Field(
        default=True, description="Whether its jobs may be preempted by more important ones."
    )
    enforce_quota: bool = Field(
        default=True, description="Enforce the quota; with false its limits are only shown."
    )
    cohort: Annotated[str, Field(max_length=128, pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$")] = (
        Field(
            default="",
            description="Tenants of one cohort lend each other what they do not use of max_gpus.",
        )
    )
    max_borrow_gpus: GpuAmount | None = Field(
        default=None, description="GPUs it may borrow beyond max_gpus; all there are by default."
    )
    max_lend_gpus: GpuAmount | None = Field(
        default=None, description="GPUs of its max_gpus it lends; all it does not use by default."
    )
    budget: BudgetSettings | None = Field(
        default=None,
        description="GPU time in each window: gpu_hours or cost, window (day, week, month, "
        "total), action (warn, hold, stop).",
    )
    max_priority: Priority | None = Field(
        default=None,
        description="Highest priority its users may give a job; security.max_priority by default.",
    )
    run_as: UserName = Field(
        default="",
        description="Local user that jobs of its API keys and tokens run as; each has its own.",
    )
    members_see: Literal["nothing", "jobs", "logs"] = Field(
        default="jobs",
        description="What its members see of each other's jobs: nothing, the jobs, or their logs "
        "too. Changing them is for their owners, administrators of the tenant and operators.",
    )

    user_limits: UserLimitsSettings = Field(
        default=UserLimitsSettings(),
        description="What each of its users may have: max_gpus, max_concurrent_jobs, "
        "max_gpu_hours_per_day.",
    )
    users: dict[
        Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s/]+$")],
        UserLimitsSettings,
    ] = Field(
        default={},
        description="The same for some by name, in the place of what each may have.",
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
    ] = Field(default=30, description="A node that is silent for this long is shown as offline.")


class FileSettings(Section):
    """Files that the service reads while it runs."""

    jobs_file: FilePath | None = Field(
        default=None,
        description="File with a job on each line, for example jobs.txt; each new line is queued.",
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
            description="Time limit of jobs with a command that were submitted without one; 0 for "
            "none.",
        )
    )
    log_limit_mb: Annotated[int, Field(ge=0, le=1_000_000_000), NOT_BOOL] = Field(
        default=1024,
        description="MiB that each of a job's two logs may take up, and the most that a job may "
        "ask for: its beginning and its end are kept; 0 for no limit.",
    )
    max_assignment_attempts: Annotated[int, Field(ge=1, le=1_000_000), NOT_BOOL] = Field(
        default=5,
        description="A line whose job failed is tried again when the file is saved, this often "
        "in all.",
    )
    assignment_retry_wait_s: Annotated[
        float, Field(ge=0, le=_MAX_SECONDS, allow_inf_nan=False), NOT_BOOL
    ] = Field(
        default=5.0,
        description="Seconds before a line that failed, or could not be queued, is tried again.",
    )


class LoggingSettings(Section):
    """What the service says about itself, and where."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Log level: the least important lines that are written."
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


class SecuritySettings(Section):
    """What jobs may run, and how much of the machine one of them may use."""

    allowed_script_paths: tuple[Annotated[FilePath, AfterValidator(_refuse_relative)], ...] = Field(
        default=(),
        description="Folders that the scripts of jobs must lie in, links resolved; empty for "
        "anywhere.",
    )
    enable_resource_limits: bool = Field(
        default=True, description="Whether the limits below hold; those left out never do."
    )
    max_memory_per_job_gb: (
        Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL] | None
    ) = Field(
        default=None,
        description="GiB of memory that a job may ask for and use; where there are no control "
        "groups, that each of its processes may use.",
    )
    max_cpu_hours: (
        Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False), NOT_BOOL] | None
    ) = Field(
        default=None,
        description="CPU time of each process of a job; over it, it is ended.",
    )
    max_open_files: Annotated[int, Field(ge=16, le=1_000_000_000), NOT_BOOL] | None = Field(
        default=None, description="Files that each process of a job may have open at once."
    )
    secret_key_file: Annotated[FilePath, AfterValidator(_refuse_relative)] | None = Field(
        default=None,
        description="Keys that secrets in the database are encrypted with; secret.key in the data "
        "directory by default.",
    )
    max_priority: Priority | None = Field(
        default=1999,
        description="Highest priority that callers may set who are not operators or admins for all "
        "tenants; null for any.",
    )


class Settings(Section):
    """Everything that can be set. Immutable: a changed setting is a new start of the service."""

    data_dir: FilePath | None = Field(
        default=None,
        description="Database, logs and job directories; $XDG_DATA_HOME/tgpu or "
        "~/.local/share/tgpu by default.",
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
        description="Who may have how much. Left out: one tenant named default, without limits.",
    )
    notices: tuple[NoticeSettings, ...] = Field(
        default=(),
        description="Whom the service tells what happened: mail, webhook, slack or desktop.",
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
                "could run commands as you: use 127.0.0.1, have callers identified with "
                "auth.enabled: true, or insist with --insecure-listen (api.insecure_listen: true)",
            )
        return self

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

    @model_validator(mode="after")
    def _notices_differ(self) -> "Settings":
        names = [notice.name for notice in self.notices]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"notices: {name!r} is there twice; name each one once")
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
