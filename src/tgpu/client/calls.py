"""Every call of the API, described once for the synchronous and asynchronous client. Pure
functions."""

from collections.abc import Sequence
from typing import Final, Literal, TypedDict, Unpack

from tgpu.client.call import (
    Call,
    Headers,
    LogChunk,
    Query,
    decode_as,
    encoded,
    log_chunk,
    no_content,
    path_of,
)
from tgpu.wire.arrays_v1 import ArraySummary
from tgpu.wire.budgets_v1 import BudgetList
from tgpu.wire.estimates_v1 import AccuracyAnswer, EstimateAnswer
from tgpu.wire.events_v1 import EventList
from tgpu.wire.job_change_v1 import JobChange
from tgpu.wire.jobs_file_v1 import JobsFileAnswer
from tgpu.wire.keys_v1 import (
    AuditList,
    KeyCreate,
    KeyCreated,
    KeyList,
    KeyModel,
    WhoAmI,
)
from tgpu.wire.metrics_v1 import MetricsAnswer
from tgpu.wire.nodes_v1 import NodeList, NodeModel
from tgpu.wire.notices_v1 import NoticeList, NoticeTried
from tgpu.wire.preemptions_v1 import PreemptionList
from tgpu.wire.receipt_v1 import ReceiptModel
from tgpu.wire.reservations_v1 import (
    ReservationCreate,
    ReservationList,
    ReservationModel,
)
from tgpu.wire.root_v1 import (
    LoadAnswer,
    PlainJobModel,
    PlainJobRequest,
    PlainSubmitAnswer,
    Stats,
    TickAnswer,
)
from tgpu.wire.selection_v1 import SelectionAnswer, SelectionRequest
from tgpu.wire.share_v1 import ShareList
from tgpu.wire.sizes_v1 import SizeAnswer
from tgpu.wire.tenants_v1 import (
    QueueCreate,
    QueueList,
    QueueModel,
    QueuePatch,
    QuotaModel,
    QuotaPatch,
    SchedulerInfo,
    TenantCreate,
    TenantList,
    TenantModel,
    TenantPatch,
    TenantUsage,
    TriggerAnswer,
    TriggerRequest,
)
from tgpu.wire.user_limits_v1 import UserLimitsPatch, UserUseList
from tgpu.wire.v1 import (
    ActionAnswer,
    AdoptRequest,
    ClusterStatus,
    GpuList,
    GpuModel,
    Health,
    JobList,
    JobModel,
    PauseRequest,
    SubmitAnswer,
    SubmitRequest,
    WhyAnswer,
)

PAGE: Final = 1000  # the most jobs that the service gives at once
Format = Literal["ndjson", "csv"]


class JobFilter(TypedDict, total=False):
    """Which jobs; all of these must hold."""

    states: Sequence[str]
    tenant_id: str | None
    name: str | None  # a part of it
    user: str | None
    array_id: str | None
    fold: bool  # an array or sweep is one job, with `array.progress`


# -- the service itself --------------------------------------------------------------------------


def health() -> Call[Health]:
    return Call("GET", "/api/v1/health", decode_as(Health))


def cluster_status() -> Call[ClusterStatus]:
    return Call("GET", "/api/v1/cluster/status", decode_as(ClusterStatus))


def cluster_metrics() -> Call[MetricsAnswer]:
    return Call("GET", "/api/v1/cluster/metrics", decode_as(MetricsAnswer))


def scheduler_info() -> Call[SchedulerInfo]:
    return Call("GET", "/api/v1/jobs/scheduler/info", decode_as(SchedulerInfo))


def trigger(project_id: str | None) -> Call[TriggerAnswer]:
    body = TriggerRequest() if project_id is None else TriggerRequest(project_id=project_id)
    return Call(
        "POST", "/api/v1/jobs/scheduler/trigger", decode_as(TriggerAnswer), body=encoded(body)
    )


# -- jobs ----------------------------------------------------------------------------------------


def submit(request: SubmitRequest) -> Call[SubmitAnswer]:
    # Not `encoded`: the command line sets every field, and most of them to what they are anyway.
    body = request.model_dump_json(exclude_defaults=True).encode()
    return Call("POST", "/api/v1/jobs", decode_as(SubmitAnswer), body=body)


def estimate(request: SubmitRequest) -> Call[EstimateAnswer]:
    body = request.model_dump_json(exclude_defaults=True).encode()
    return Call("POST", "/api/v1/jobs/estimate", decode_as(EstimateAnswer), body=body)


def accuracy(days: float, tenant_id: str | None) -> Call[AccuracyAnswer]:
    query = {"days": days, "tenant_id": tenant_id}
    return Call("GET", "/api/v1/scheduler/accuracy", decode_as(AccuracyAnswer), query)


def list_jobs(
    limit: int, cursor: int | None, count: bool = False, **wanted: Unpack[JobFilter]
) -> Call[JobList]:
    query = {
        "state": ",".join(wanted.get("states", ())) or None,
        "tenant_id": wanted.get("tenant_id"),
        "name": wanted.get("name"),
        "user": wanted.get("user"),
        "array_id": wanted.get("array_id"),
        "fold": "true" if wanted.get("fold") else None,
        "limit": limit,
        "cursor": cursor,
        "count": "true" if count else None,
    }
    return Call("GET", "/api/v1/jobs", decode_as(JobList), query)


def get_job(job_id: str, to: str | None = None) -> Call[JobModel]:
    return Call("GET", path_of("jobs", job_id), decode_as(JobModel), {"to": to})


def select(request: SelectionRequest) -> Call[SelectionAnswer]:
    # Thousands of jobs take their time: each that is run again is checked and sealed anew.
    body = encoded(request)
    return Call(
        "POST", "/api/v1/jobs/select", decode_as(SelectionAnswer), body=body, poll_seconds=60
    )


def get_array(array_id: str) -> Call[ArraySummary]:
    return Call("GET", path_of("arrays", array_id, kind="array"), decode_as(ArraySummary))


def wait_array(array_id: str, timeout_seconds: float) -> Call[ArraySummary]:
    path = path_of("arrays", array_id, "wait", kind="array")
    query = {"timeout": timeout_seconds}
    return Call("GET", path, decode_as(ArraySummary), query, poll_seconds=timeout_seconds)


def cancel_job(job_id: str) -> Call[ActionAnswer]:
    return Call("DELETE", path_of("jobs", job_id), decode_as(ActionAnswer))


def edit_job(job_id: str, change: JobChange) -> Call[ActionAnswer]:
    return Call("PATCH", path_of("jobs", job_id), decode_as(ActionAnswer), body=encoded(change))


def rerank_job(job_id: str, priority: int) -> Call[ActionAnswer]:
    body = encoded(JobChange(priority=priority))
    return Call("PATCH", path_of("jobs", job_id), decode_as(ActionAnswer), body=body)


def hold_job(job_id: str) -> Call[ActionAnswer]:
    return Call("POST", path_of("jobs", job_id, "hold"), decode_as(ActionAnswer))


def release_job(job_id: str) -> Call[ActionAnswer]:
    return Call("POST", path_of("jobs", job_id, "release"), decode_as(ActionAnswer))


def complete_job(job_id: str) -> Call[ActionAnswer]:
    return Call("POST", path_of("jobs", job_id, "complete"), decode_as(ActionAnswer))


def pause_job(job_id: str) -> Call[ActionAnswer]:
    return Call("POST", path_of("jobs", job_id, "pause"), decode_as(ActionAnswer))


def resume_job(job_id: str) -> Call[ActionAnswer]:
    return Call("POST", path_of("jobs", job_id, "resume"), decode_as(ActionAnswer))


def checkpoint_job(job_id: str) -> Call[ActionAnswer]:
    return Call("POST", path_of("jobs", job_id, "checkpoint"), decode_as(ActionAnswer))


def preemptions(tenant_id: str | None, limit: int) -> Call[PreemptionList]:
    query = {"tenant_id": tenant_id, "limit": limit}
    return Call("GET", "/api/v1/preemptions", decode_as(PreemptionList), query)


def rerun_job(job_id: str) -> Call[SubmitAnswer]:
    return Call("POST", path_of("jobs", job_id, "rerun"), decode_as(SubmitAnswer))


def receipt(job_id: str) -> Call[ReceiptModel]:
    return Call("GET", path_of("jobs", job_id, "receipt"), decode_as(ReceiptModel))


def why(job_id: str) -> Call[WhyAnswer]:
    return Call("GET", path_of("jobs", job_id, "why"), decode_as(WhyAnswer))


def wait_job(job_id: str, timeout_seconds: float) -> Call[JobModel]:
    return Call(
        "GET",
        path_of("jobs", job_id, "wait"),
        decode_as(JobModel),
        {"timeout": timeout_seconds},
        poll_seconds=timeout_seconds,
    )


def read_log(
    job_id: str,
    stream: str,
    *,
    offset: int = 0,
    limit: int = 1_000_000,
    attempt: int | None = None,
    wait_seconds: float = 0,
) -> Call[LogChunk]:
    query: Query = {
        "stream": stream,
        "offset": offset,
        "limit": limit,
        "attempt": attempt,
        "wait": wait_seconds or None,
    }
    path = path_of("jobs", job_id, "logs")
    return Call("GET", path, log_chunk, query, poll_seconds=wait_seconds)


def job_events(job_id: str, after: int, limit: int) -> Call[EventList]:
    query = {"after": after, "limit": limit}
    return Call("GET", path_of("jobs", job_id, "events"), decode_as(EventList), query)


def events(
    after: int | None, job_id: str | None, tenant_id: str | None, readings: bool
) -> Call[None]:
    """To be read as a stream."""
    query = {
        "after": after,
        "job_id": job_id,
        "tenant_id": tenant_id,
        "readings": None if readings else "false",
    }
    return Call("GET", "/api/v1/events", no_content, query)


def journal(after: int, commands: bool) -> Call[None]:
    """To be read as a stream."""
    query = {"after": after, "commands": "true" if commands else None}
    return Call("GET", "/api/v1/journal", no_content, query)


# -- GPUs and machines ---------------------------------------------------------------------------


def gpus() -> Call[GpuList]:
    return Call("GET", "/api/v1/gpus", decode_as(GpuList))


def pause_gpu(gpu: int | str, reason: str | None) -> Call[GpuModel]:
    """By its index, or with several nodes by its name, "b/3"."""
    body = PauseRequest() if reason is None else PauseRequest(reason=reason)
    return Call("POST", _gpu_path(gpu, "pause"), decode_as(GpuModel), body=encoded(body))


def resume_gpu(gpu: int | str) -> Call[GpuModel]:
    return Call("POST", _gpu_path(gpu, "resume"), decode_as(GpuModel))


def _gpu_path(gpu: int | str, action: str) -> str:
    return path_of("gpus", *str(gpu).split("/"), action, kind="GPU")


def adopt(
    pid: int, tenant_id: str | None, queue: str, name: str, node: str | None = None
) -> Call[JobModel]:
    body = AdoptRequest(pid=pid, tenant_id=tenant_id, queue=queue, name=name, node=node)
    return Call("POST", "/api/v1/adopt", decode_as(JobModel), body=encoded(body))


def nodes() -> Call[NodeList]:
    return Call("GET", "/api/v1/nodes", decode_as(NodeList))


def get_node(name: str) -> Call[NodeModel]:
    return Call("GET", path_of("nodes", name, kind="node"), decode_as(NodeModel))


def forget_node(name: str) -> Call[None]:
    return Call("DELETE", path_of("nodes", name, kind="node"), no_content)


# -- tenants -------------------------------------------------------------------------------------


def list_tenants() -> Call[TenantList]:
    return Call("GET", "/api/v1/tenants", decode_as(TenantList))


def create_tenant(tenant: TenantCreate) -> Call[TenantModel]:
    return Call("POST", "/api/v1/tenants", decode_as(TenantModel), body=encoded(tenant))


def get_tenant(tenant_id: str) -> Call[TenantModel]:
    return Call("GET", _tenant(tenant_id), decode_as(TenantModel))


def change_tenant(tenant_id: str, change: TenantPatch) -> Call[TenantModel]:
    return Call("PATCH", _tenant(tenant_id), decode_as(TenantModel), body=encoded(change))


def deactivate_tenant(tenant_id: str) -> Call[TenantModel]:
    return Call("DELETE", _tenant(tenant_id), decode_as(TenantModel))


def tenant_usage(tenant_id: str, days: int) -> Call[TenantUsage]:
    path = path_of("tenants", tenant_id, "usage", kind="tenant")
    return Call("GET", path, decode_as(TenantUsage), {"days": days})


def share(tenant_id: str | None) -> Call[ShareList]:
    return Call("GET", "/api/v1/share", decode_as(ShareList), {"tenant_id": tenant_id})


def _tenant(tenant_id: str) -> str:
    return path_of("tenants", tenant_id, kind="tenant")


# -- queues and quotas ---------------------------------------------------------------------------


def list_queues(project_id: str | None) -> Call[list[QueueModel]]:
    return Call("GET", "/api/v1/queues", _queues, {"project_id": project_id})


def create_queue(queue: QueueCreate) -> Call[QueueModel]:
    return Call("POST", "/api/v1/queues", decode_as(QueueModel), body=encoded(queue))


def get_queue(queue_id: str) -> Call[QueueModel]:
    return Call("GET", path_of("queues", queue_id, kind="queue"), decode_as(QueueModel))


def change_queue(queue_id: str, change: QueuePatch) -> Call[QueueModel]:
    path = path_of("queues", queue_id, kind="queue")
    return Call("PATCH", path, decode_as(QueueModel), body=encoded(change))


def remove_queue(queue_id: str) -> Call[None]:
    return Call("DELETE", path_of("queues", queue_id, kind="queue"), no_content)


def get_quota(project_id: str) -> Call[QuotaModel]:
    return Call("GET", _quota(project_id), decode_as(QuotaModel))


def change_quota(project_id: str, change: QuotaPatch) -> Call[QuotaModel]:
    return Call("PATCH", _quota(project_id), decode_as(QuotaModel), body=encoded(change))


def sync_quota(project_id: str) -> Call[QuotaModel]:
    return Call("POST", f"{_quota(project_id)}/sync", decode_as(QuotaModel))


def get_users(tenant_id: str) -> Call[UserUseList]:
    return Call(
        "GET", path_of("tenants", tenant_id, "users", kind="tenant"), decode_as(UserUseList)
    )


def change_users(tenant_id: str, change: UserLimitsPatch) -> Call[UserUseList]:
    path = path_of("tenants", tenant_id, "users", kind="tenant")
    return Call("PATCH", path, decode_as(UserUseList), body=encoded(change))


def budgets(tenant_id: str | None) -> Call[BudgetList]:
    return Call("GET", "/api/v1/budgets", decode_as(BudgetList), {"tenant_id": tenant_id})


def size(model: str) -> Call[SizeAnswer]:
    return Call("GET", "/api/v1/sizes", decode_as(SizeAnswer), {"model": model})


def jobs_file() -> Call[JobsFileAnswer]:
    return Call("GET", "/api/v1/jobs-file", decode_as(JobsFileAnswer))


def list_notices() -> Call[NoticeList]:
    return Call("GET", "/api/v1/notices", decode_as(NoticeList))


def try_notice(name: str) -> Call[NoticeTried]:
    path = f"{path_of('notices', name, kind='notice')}/test"
    return Call("POST", path, decode_as(NoticeTried), poll_seconds=60)


def list_reservations(tenant_id: str | None) -> Call[ReservationList]:
    return Call("GET", "/api/v1/reservations", decode_as(ReservationList), {"tenant_id": tenant_id})


def reserve(wish: ReservationCreate) -> Call[ReservationModel]:
    return Call("POST", "/api/v1/reservations", decode_as(ReservationModel), body=encoded(wish))


def get_reservation(reservation_id: str) -> Call[ReservationModel]:
    path = path_of("reservations", reservation_id, kind="reservation")
    return Call("GET", path, decode_as(ReservationModel))


def cancel_reservation(reservation_id: str) -> Call[ReservationModel]:
    path = path_of("reservations", reservation_id, kind="reservation")
    return Call("DELETE", path, decode_as(ReservationModel))


def _queues(content: bytes, _: Headers) -> list[QueueModel]:
    return QueueList.model_validate_json(content, extra="ignore").root


def _quota(project_id: str) -> str:
    return path_of("queues", "quota", project_id, kind="project")


# -- identity ------------------------------------------------------------------------------------


def whoami() -> Call[WhoAmI]:
    return Call("GET", "/api/v1/whoami", decode_as(WhoAmI))


def list_keys() -> Call[KeyList]:
    return Call("GET", "/api/v1/keys", decode_as(KeyList))


def create_key(request: KeyCreate) -> Call[KeyCreated]:
    return Call("POST", "/api/v1/keys", decode_as(KeyCreated), body=encoded(request))


def revoke_key(key_id: str) -> Call[KeyModel]:
    return Call("DELETE", path_of("keys", key_id, kind="key"), decode_as(KeyModel))


def audit(tenant_id: str | None, limit: int, cursor: int | None) -> Call[AuditList]:
    query = {"tenant_id": tenant_id, "limit": limit, "cursor": cursor}
    return Call("GET", "/api/v1/audit", decode_as(AuditList), query)


# -- the paths at the root -----------------------------------------------------------------------


def submit_plain(job: PlainJobRequest) -> Call[PlainSubmitAnswer]:
    return Call("POST", "/jobs", decode_as(PlainSubmitAnswer), body=encoded(job))


def submit_batch(jobs: Sequence[PlainJobRequest]) -> Call[LoadAnswer]:
    body = b"[%s]" % b",".join(encoded(job) for job in jobs)
    return Call("POST", "/jobs/batch", decode_as(LoadAnswer), body=body)


def ingest(content: bytes, fmt: Format) -> Call[LoadAnswer]:
    kind = "application/octet-stream"
    return Call("POST", "/ingest", decode_as(LoadAnswer), {"fmt": fmt}, content, content_type=kind)


def plain_job(job_id: str) -> Call[PlainJobModel]:
    return Call("GET", _root(path_of("jobs", job_id)), decode_as(PlainJobModel))


def complete_plain(job_id: str) -> Call[PlainSubmitAnswer]:
    return Call("POST", _root(path_of("jobs", job_id, "complete")), decode_as(PlainSubmitAnswer))


def tick(now: int) -> Call[TickAnswer]:
    return Call("POST", "/schedule", decode_as(TickAnswer), {"now": now})


def stats() -> Call[Stats]:
    return Call("GET", "/stats", decode_as(Stats))


def _root(path: str) -> str:
    return path.removeprefix("/api/v1")
