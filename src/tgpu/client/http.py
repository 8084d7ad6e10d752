"""The REST API as typed calls over TCP or a Unix socket. Synchronous: for commands and scripts.

Each call is described in calls.py, and what takes several of them in steps.py; here they are sent.
"""

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

import httpx

from tgpu.client import calls, steps
from tgpu.client.call import Call, LogChunk
from tgpu.client.calls import Format, JobFilter
from tgpu.client.connection import ANSWER_SECONDS, LIMITS, Connection, Verify
from tgpu.client.errors import ClientError
from tgpu.client.steps import Item, Pause, Steps, Stream, Walk, Wish
from tgpu.client.target import Target
from tgpu.client.watch import SILENCE_SECONDS, Watch
from tgpu.wire.arrays_v1 import ArraySummary
from tgpu.wire.budgets_v1 import BudgetList
from tgpu.wire.estimates_v1 import AccuracyAnswer, EstimateAnswer
from tgpu.wire.events_v1 import EventList, EventModel
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
)
from tgpu.wire.user_limits_v1 import UserLimitsPatch, UserUseList
from tgpu.wire.v1 import (
    ActionAnswer,
    ClusterStatus,
    GpuList,
    GpuModel,
    Health,
    JobList,
    JobModel,
    SubmitAnswer,
    SubmitRequest,
    WhyAnswer,
)

__all__ = ["Client", "LogChunk"]

T = TypeVar("T")
W = TypeVar("W")


class Client:
    """One connection pool to one service, safe to share between threads.

    `target` is an address (`http://host:port`, `https://…`, `unix:/path`); without one it is what
    TGPU_URL names (with the key in TGPU_API_KEY), else the service of this user. `verify` takes a
    file with certificate authorities too. Every call raises ClientError or one of its kinds.
    """

    def __init__(
        self,
        target: Target | str | None = None,
        *,
        api_key: str | None = None,
        timeout_seconds: float = ANSWER_SECONDS,
        verify: Verify = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(target, api_key, timeout_seconds, verify)
        self.target = self._connection.target
        if transport is None and self.target.socket is not None:
            socket = str(self.target.socket)
            transport = httpx.HTTPTransport(uds=socket, verify=False, limits=LIMITS)
        self._http = httpx.Client(transport=transport, **self._connection.http_options())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # The service itself

    def health(self) -> Health:
        return self.send(calls.health())

    def cluster_status(self) -> ClusterStatus:
        return self.send(calls.cluster_status())

    def cluster_metrics(self) -> MetricsAnswer:
        """How long jobs ran, how busy the GPUs were, and what waits by priority."""
        return self.send(calls.cluster_metrics())

    def scheduler_info(self) -> SchedulerInfo:
        return self.send(calls.scheduler_info())

    def trigger(self, project_id: str | None = None) -> TriggerAnswer:
        """Run a scheduling cycle now."""
        return self.send(calls.trigger(project_id))

    # Jobs

    def submit(self, request: SubmitRequest) -> SubmitAnswer:
        """Queue a job. After `Lost` it may be queued or not: only a `job_id` makes a retry safe."""
        return self.send(calls.submit(self._connection.for_tenant(request)))

    def list_jobs(
        self,
        *,
        limit: int = 100,
        cursor: int | None = None,
        count: bool = False,
        **wanted: Unpack[JobFilter],
    ) -> JobList:
        """One page, newest first. With `count`, `total` is how many there are on all of them."""
        return self.send(calls.list_jobs(limit, cursor, count, **wanted))

    def iter_jobs(
        self, limit: int | None = None, **wanted: Unpack[JobFilter]
    ) -> Iterator[JobModel]:
        """Page through the jobs that match, newest first, `limit` of them at most."""
        return self._iterate(steps.iter_jobs(limit, **wanted))

    def get_job(self, job_id: str, *, to: str | None = None) -> JobModel:
        """`to`: "shell" or "attach" where it is about to be entered; Denied if it is not yours."""
        return self.send(calls.get_job(job_id, to))

    def select(self, request: SelectionRequest) -> SelectionAnswer:
        """Change many jobs at once, all in one commit: cancel, hold, release, priority, rerun."""
        return self.send(calls.select(request))

    def get_array(self, array_id: str) -> ArraySummary:
        """How far a whole array or sweep is, and what became of its elements."""
        return self.send(calls.get_array(array_id))

    def wait_array(self, array_id: str, timeout_seconds: float | None = None) -> ArraySummary:
        """The array once all of it is over, or as it stands when the time is up."""
        return self._run(steps.wait_array(array_id, timeout_seconds))

    def cancel_job(self, job_id: str) -> ActionAnswer:
        return self.send(calls.cancel_job(job_id))

    def edit_job(self, job_id: str, change: JobChange) -> ActionAnswer:
        """Change a waiting job, or what waits of an array; what is not set stays as it is."""
        return self.send(calls.edit_job(job_id, change))

    def rerank_job(self, job_id: str, priority: int) -> ActionAnswer:
        """Give a waiting job another priority."""
        return self.send(calls.rerank_job(job_id, priority))

    def hold_job(self, job_id: str) -> ActionAnswer:
        return self.send(calls.hold_job(job_id))

    def release_job(self, job_id: str) -> ActionAnswer:
        return self.send(calls.release_job(job_id))

    def complete_job(self, job_id: str) -> ActionAnswer:
        return self.send(calls.complete_job(job_id))

    def pause_job(self, job_id: str) -> ActionAnswer:
        """All its processes stand still; its GPUs and memory stay its own."""
        return self.send(calls.pause_job(job_id))

    def resume_job(self, job_id: str) -> ActionAnswer:
        return self.send(calls.resume_job(job_id))

    def checkpoint_job(self, job_id: str) -> ActionAnswer:
        """Mark that a running job has just saved its work."""
        return self.send(calls.checkpoint_job(job_id))

    def preemptions(self, *, tenant_id: str | None = None, limit: int = 100) -> PreemptionList:
        """Receipts of preemptions, newest first."""
        return self.send(calls.preemptions(tenant_id, limit))

    def rerun_job(self, job_id: str) -> SubmitAnswer:
        return self.send(calls.rerun_job(job_id))

    def estimate(self, request: SubmitRequest) -> EstimateAnswer:
        """When a submission would start, and what would start it sooner; nothing is queued."""
        return self.send(calls.estimate(self._connection.for_tenant(request)))

    def accuracy(self, days: float = 30, tenant_id: str | None = None) -> AccuracyAnswer:
        """How often jobs that had to wait started when they were told they would."""
        return self.send(calls.accuracy(days, tenant_id))

    def receipt(self, job_id: str) -> ReceiptModel:
        """What a job has used up so far."""
        return self.send(calls.receipt(job_id))

    def why(self, job_id: str) -> WhyAnswer:
        return self.send(calls.why(job_id))

    def wait_job(self, job_id: str, timeout_seconds: float = 20) -> JobModel:
        """The job once it is over, or as it stands after `timeout_seconds` (60 at most)."""
        return self.send(calls.wait_job(job_id, timeout_seconds))

    def wait(self, job_id: str, timeout_seconds: float | None = None) -> JobModel:
        """The job once it is over, whatever restarts come between; TimedOut when time is up."""
        return self._run(steps.wait(job_id, timeout_seconds))

    def job_events(self, job_id: str, *, after: int = 0, limit: int = 100) -> EventList:
        return self.send(calls.job_events(job_id, after, limit))

    def iter_job_events(self, job_id: str, *, after: int = 0) -> Iterator[EventModel]:
        """What happened to one job so far, oldest first."""
        return self._iterate(steps.iter_job_events(job_id, after))

    def read_log(
        self,
        job_id: str,
        stream: str = "stdout",
        *,
        offset: int = 0,
        limit: int = 1_000_000,
        attempt: int | None = None,
        wait_seconds: float = 0,
    ) -> LogChunk:
        """Bytes from `offset` on (negative: from the end); with a wait, once there are some."""
        return self.send(
            calls.read_log(
                job_id,
                stream,
                offset=offset,
                limit=limit,
                attempt=attempt,
                wait_seconds=wait_seconds,
            )
        )

    def follow_log(
        self, job_id: str, stream: str = "stdout", *, attempt: int | None = None, offset: int = 0
    ) -> Iterator[bytes]:
        """The log of one attempt (the newest) as it is written, until it is complete."""
        return self._iterate(steps.follow_log(job_id, stream, attempt, offset))

    # GPUs and machines

    def gpus(self) -> GpuList:
        return self.send(calls.gpus())

    def pause_gpu(self, gpu: int | str, reason: str | None = None) -> GpuModel:
        return self.send(calls.pause_gpu(gpu, reason))

    def resume_gpu(self, gpu: int | str) -> GpuModel:
        return self.send(calls.resume_gpu(gpu))

    def adopt(
        self, pid: int, *, tenant_id: str | None = None, queue: str = "default", name: str = ""
    ) -> JobModel:
        """A lease of the GPUs that a process is on, for as long as it runs."""
        return self.send(calls.adopt(pid, tenant_id, queue, name))

    def nodes(self) -> NodeList:
        return self.send(calls.nodes())

    def get_node(self, name: str) -> NodeModel:
        return self.send(calls.get_node(name))

    def forget_node(self, name: str) -> None:
        self.send(calls.forget_node(name))

    # Tenants, queues, quotas. A change sends the fields that are set: null lifts a limit.

    def list_tenants(self) -> TenantList:
        return self.send(calls.list_tenants())

    def get_tenant(self, tenant_id: str) -> TenantModel:
        return self.send(calls.get_tenant(tenant_id))

    def create_tenant(self, request: TenantCreate) -> TenantModel:
        return self.send(calls.create_tenant(request))

    def change_tenant(self, tenant_id: str, changes: TenantPatch) -> TenantModel:
        return self.send(calls.change_tenant(tenant_id, changes))

    def deactivate_tenant(self, tenant_id: str) -> TenantModel:
        return self.send(calls.deactivate_tenant(tenant_id))

    def tenant_usage(self, tenant_id: str, days: int = 30) -> TenantUsage:
        return self.send(calls.tenant_usage(tenant_id, days))

    def list_queues(self, project_id: str | None = None) -> list[QueueModel]:
        return self.send(calls.list_queues(project_id))

    def create_queue(self, request: QueueCreate) -> QueueModel:
        return self.send(calls.create_queue(request))

    def get_queue(self, queue_id: str) -> QueueModel:
        return self.send(calls.get_queue(queue_id))

    def change_queue(self, queue_id: str, changes: QueuePatch) -> QueueModel:
        return self.send(calls.change_queue(queue_id, changes))

    def remove_queue(self, queue_id: str) -> None:
        self.send(calls.remove_queue(queue_id))

    def share(self, tenant_id: str | None = None) -> ShareList:
        """The fair share: entitled, used, and when both are even again."""
        return self.send(calls.share(tenant_id))

    def budgets(self, tenant_id: str | None = None) -> BudgetList:
        """What tenants spent of their budgets in the present window."""
        return self.send(calls.budgets(tenant_id))

    def size(self, model: str) -> SizeAnswer:
        """How many GPUs a model needs, and why."""
        return self.send(calls.size(model))

    def jobs_file(self) -> JobsFileAnswer:
        """What became of the lines of the jobs file that the service watches."""
        return self.send(calls.jobs_file())

    def list_notices(self) -> NoticeList:
        """Who is told what happened, and how that fares."""
        return self.send(calls.list_notices())

    def try_notice(self, name: str) -> NoticeTried:
        """Send a test notice now."""
        return self.send(calls.try_notice(name))

    def list_reservations(self, tenant_id: str | None = None) -> ReservationList:
        return self.send(calls.list_reservations(tenant_id))

    def reserve(self, wish: ReservationCreate) -> ReservationModel:
        """Book GPUs for a time; jobs that name the reservation run on them."""
        return self.send(calls.reserve(wish))

    def get_reservation(self, reservation_id: str) -> ReservationModel:
        return self.send(calls.get_reservation(reservation_id))

    def cancel_reservation(self, reservation_id: str) -> ReservationModel:
        """Give it back; the answer is how it stood."""
        return self.send(calls.cancel_reservation(reservation_id))

    def get_quota(self, project_id: str) -> QuotaModel:
        return self.send(calls.get_quota(project_id))

    def change_quota(self, project_id: str, changes: QuotaPatch) -> QuotaModel:
        return self.send(calls.change_quota(project_id, changes))

    def sync_quota(self, project_id: str) -> QuotaModel:
        return self.send(calls.sync_quota(project_id))

    def get_users(self, tenant_id: str) -> UserUseList:
        """What each user of a tenant may have, and has."""
        return self.send(calls.get_users(tenant_id))

    def change_users(self, tenant_id: str, changes: UserLimitsPatch) -> UserUseList:
        return self.send(calls.change_users(tenant_id, changes))

    # Identity

    def whoami(self) -> WhoAmI:
        return self.send(calls.whoami())

    def list_keys(self) -> KeyList:
        return self.send(calls.list_keys())

    def create_key(self, request: KeyCreate) -> KeyCreated:
        return self.send(calls.create_key(request))

    def revoke_key(self, key_id: str) -> KeyModel:
        return self.send(calls.revoke_key(key_id))

    def audit(
        self, *, tenant_id: str | None = None, limit: int = 100, cursor: int | None = None
    ) -> AuditList:
        return self.send(calls.audit(tenant_id, limit, cursor))

    # The paths at the root: plain jobs, bulk loads, ticks of a manual clock

    def submit_plain(self, job: PlainJobRequest) -> PlainSubmitAnswer:
        return self.send(calls.submit_plain(job))

    def submit_batch(self, jobs: Sequence[PlainJobRequest]) -> LoadAnswer:
        return self.send(calls.submit_batch(jobs))

    def ingest(self, content: bytes, fmt: Format = "ndjson") -> LoadAnswer:
        return self.send(calls.ingest(content, fmt))

    def plain_job(self, job_id: str) -> PlainJobModel:
        return self.send(calls.plain_job(job_id))

    def complete_plain(self, job_id: str) -> PlainSubmitAnswer:
        return self.send(calls.complete_plain(job_id))

    def tick(self, now: int) -> TickAnswer:
        return self.send(calls.tick(now))

    def stats(self) -> Stats:
        return self.send(calls.stats())

    # Events

    def events(
        self,
        *,
        after: int | None = None,
        job_id: str | None = None,
        tenant_id: str | None = None,
        readings: bool = False,
        patience_seconds: float = 60,
    ) -> Generator[EventModel, None, None]:
        """Every change after number `after` (from now on without), without end.

        After a lost connection it goes on behind the last event, without gap or repetition;
        it gives up when nobody answers for `patience_seconds`.
        """
        watch = Watch(
            after=after,
            job_id=job_id,
            tenant_id=tenant_id,
            readings=readings,
            patience_seconds=patience_seconds,
        )
        while True:
            try:
                with self._opened(watch.call()) as pieces:
                    for piece in pieces:
                        yield from watch.take(piece)
            except ClientError as error:
                watch.lost(error)
            time.sleep(watch.pause_seconds())

    def journal(self, *, after: int = 0, commands: bool = False) -> Generator[bytes, None, None]:
        """All that was recorded behind number `after`, as NDJSON in pieces; for admins."""
        with self._opened(calls.journal(after, commands)) as pieces:
            yield from pieces

    # How calls are made

    def send(self, call: Call[T]) -> T:
        """Carry out one call of `tgpu.client.calls`."""
        request = self._connection.request(self._http, call)
        try:
            answer = self._http.send(request)
        except httpx.HTTPError as error:
            raise self._connection.failure(error) from error
        return self._connection.result(call, answer)

    @contextlib.contextmanager
    def _opened(self, call: Call[None]) -> Iterator[Iterator[bytes]]:
        request = self._connection.request(self._http, call, SILENCE_SECONDS)
        try:
            answer = self._http.send(request, stream=True)
            with contextlib.closing(answer):
                if not answer.is_success:
                    answer.read()
                self._connection.check(answer)
                yield answer.iter_bytes()
        except httpx.HTTPError as error:
            raise self._connection.failure(error) from error

    def _run(self, wanted: Steps[T]) -> T:
        walk = Walk(wanted)
        while walk.wish is not None:
            self._fulfil(walk, walk.wish)
        return walk.result

    def _iterate(self, wanted: Stream[T]) -> Iterator[T]:
        walk = Walk(wanted)
        while walk.wish is not None:
            if isinstance(walk.wish, Item):
                yield walk.wish.value
                walk.answer(None)
            else:
                self._fulfil(walk, walk.wish)

    def _fulfil(self, walk: Walk[W, T], wish: Wish) -> None:
        if isinstance(wish, Pause):
            time.sleep(wish.seconds)
            return walk.answer(None)
        try:
            answer = self.send(wish)
        except ClientError as error:
            return walk.fail(error)
        walk.answer(answer)
