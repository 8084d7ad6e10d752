"""The REST API as typed calls over TCP or a Unix socket, for programs with an event loop.

Each call is described in calls.py, and what takes several of them in steps.py; here they are sent.
The synchronous client (http.py) is made of this file by the build: scripts/sync_client.py.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
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

__all__ = ["AsyncClient", "LogChunk"]

T = TypeVar("T")
W = TypeVar("W")


class AsyncClient:
    """One connection pool to one service, for one event loop.

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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._connection = Connection(target, api_key, timeout_seconds, verify)
        self.target = self._connection.target
        if transport is None and self.target.socket is not None:
            socket = str(self.target.socket)
            transport = httpx.AsyncHTTPTransport(uds=socket, verify=False, limits=LIMITS)
        self._http = httpx.AsyncClient(transport=transport, **self._connection.http_options())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    # The service itself

    async def health(self) -> Health:
        return await self.send(calls.health())

    async def cluster_status(self) -> ClusterStatus:
        return await self.send(calls.cluster_status())

    async def cluster_metrics(self) -> MetricsAnswer:
        """How long jobs ran, how busy the GPUs were, and waiting jobs by priority."""
        return await self.send(calls.cluster_metrics())

    async def scheduler_info(self) -> SchedulerInfo:
        return await self.send(calls.scheduler_info())

    async def trigger(self, project_id: str | None = None) -> TriggerAnswer:
        """Run a scheduling cycle now."""
        return await self.send(calls.trigger(project_id))

    # Jobs

    async def submit(self, request: SubmitRequest) -> SubmitAnswer:
        """Queue a job. After `Lost` it may be queued or not: only a `job_id` makes a retry safe."""
        return await self.send(calls.submit(self._connection.for_tenant(request)))

    async def list_jobs(
        self,
        *,
        limit: int = 100,
        cursor: int | None = None,
        count: bool = False,
        **wanted: Unpack[JobFilter],
    ) -> JobList:
        """One page, newest first. With `count`, `total` is how many there are on all of them."""
        return await self.send(calls.list_jobs(limit, cursor, count, **wanted))

    def iter_jobs(
        self, limit: int | None = None, **wanted: Unpack[JobFilter]
    ) -> AsyncIterator[JobModel]:
        """Page through the jobs that match, newest first, `limit` of them at most."""
        return self._iterate(steps.iter_jobs(limit, **wanted))

    async def get_job(self, job_id: str, *, to: str | None = None) -> JobModel:
        """`to`: "shell" or "attach" where it is about to be entered; Denied if it is not yours."""
        return await self.send(calls.get_job(job_id, to))

    async def select(self, request: SelectionRequest) -> SelectionAnswer:
        """Change many jobs at once, all in one commit: cancel, hold, release, priority, rerun."""
        return await self.send(calls.select(request))

    async def get_array(self, array_id: str) -> ArraySummary:
        """How far a whole array or sweep is, and what became of its elements."""
        return await self.send(calls.get_array(array_id))

    async def wait_array(self, array_id: str, timeout_seconds: float | None = None) -> ArraySummary:
        """The array once all of it is over, or as it stands when the time is up."""
        return await self._run(steps.wait_array(array_id, timeout_seconds))

    async def cancel_job(self, job_id: str) -> ActionAnswer:
        return await self.send(calls.cancel_job(job_id))

    async def edit_job(self, job_id: str, change: JobChange) -> ActionAnswer:
        """Change a waiting job, or what waits of an array; what is not set stays as it is."""
        return await self.send(calls.edit_job(job_id, change))

    async def rerank_job(self, job_id: str, priority: int) -> ActionAnswer:
        """Give a waiting job another priority."""
        return await self.send(calls.rerank_job(job_id, priority))

    async def hold_job(self, job_id: str) -> ActionAnswer:
        return await self.send(calls.hold_job(job_id))

    async def release_job(self, job_id: str) -> ActionAnswer:
        return await self.send(calls.release_job(job_id))

    async def complete_job(self, job_id: str) -> ActionAnswer:
        return await self.send(calls.complete_job(job_id))

    async def pause_job(self, job_id: str) -> ActionAnswer:
        """All its processes stand still; its GPUs and memory stay its own."""
        return await self.send(calls.pause_job(job_id))

    async def resume_job(self, job_id: str) -> ActionAnswer:
        return await self.send(calls.resume_job(job_id))

    async def checkpoint_job(self, job_id: str) -> ActionAnswer:
        """Mark that a running job has just saved its work."""
        return await self.send(calls.checkpoint_job(job_id))

    async def preemptions(
        self, *, tenant_id: str | None = None, limit: int = 100
    ) -> PreemptionList:
        """Receipts of preemptions, newest first."""
        return await self.send(calls.preemptions(tenant_id, limit))

    async def rerun_job(self, job_id: str) -> SubmitAnswer:
        return await self.send(calls.rerun_job(job_id))

    async def estimate(self, request: SubmitRequest) -> EstimateAnswer:
        """When a submission would start, and what would start it sooner; nothing is queued."""
        return await self.send(calls.estimate(self._connection.for_tenant(request)))

    async def accuracy(self, days: float = 30, tenant_id: str | None = None) -> AccuracyAnswer:
        """How often jobs that had to wait started within their estimate."""
        return await self.send(calls.accuracy(days, tenant_id))

    async def receipt(self, job_id: str) -> ReceiptModel:
        """What a job has used up so far."""
        return await self.send(calls.receipt(job_id))

    async def why(self, job_id: str) -> WhyAnswer:
        return await self.send(calls.why(job_id))

    async def wait_job(self, job_id: str, timeout_seconds: float = 20) -> JobModel:
        """The job once it is over, or as it stands after `timeout_seconds` (60 at most)."""
        return await self.send(calls.wait_job(job_id, timeout_seconds))

    async def wait(self, job_id: str, timeout_seconds: float | None = None) -> JobModel:
        """The job once it is over, whatever restarts come between; TimedOut when time is up."""
        return await self._run(steps.wait(job_id, timeout_seconds))

    async def job_events(self, job_id: str, *, after: int = 0, limit: int = 100) -> EventList:
        return await self.send(calls.job_events(job_id, after, limit))

    def iter_job_events(self, job_id: str, *, after: int = 0) -> AsyncIterator[EventModel]:
        """What happened to one job so far, oldest first."""
        return self._iterate(steps.iter_job_events(job_id, after))

    async def read_log(
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
        return await self.send(
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
    ) -> AsyncIterator[bytes]:
        """The log of one attempt (the newest) as it is written, until it is complete."""
        return self._iterate(steps.follow_log(job_id, stream, attempt, offset))

    # GPUs and machines

    async def gpus(self) -> GpuList:
        return await self.send(calls.gpus())

    async def pause_gpu(self, gpu: int | str, reason: str | None = None) -> GpuModel:
        return await self.send(calls.pause_gpu(gpu, reason))

    async def resume_gpu(self, gpu: int | str) -> GpuModel:
        return await self.send(calls.resume_gpu(gpu))

    async def adopt(
        self,
        pid: int,
        *,
        tenant_id: str | None = None,
        queue: str = "default",
        name: str = "",
        node: str | None = None,
    ) -> JobModel:
        """A lease of the GPUs that a process is on, for as long as it runs."""
        return await self.send(calls.adopt(pid, tenant_id, queue, name, node))

    async def nodes(self) -> NodeList:
        return await self.send(calls.nodes())

    async def get_node(self, name: str) -> NodeModel:
        return await self.send(calls.get_node(name))

    async def forget_node(self, name: str) -> None:
        await self.send(calls.forget_node(name))

    # Tenants, queues, quotas. A change sends the fields that are set: null lifts a limit.

    async def list_tenants(self) -> TenantList:
        return await self.send(calls.list_tenants())

    async def get_tenant(self, tenant_id: str) -> TenantModel:
        return await self.send(calls.get_tenant(tenant_id))

    async def create_tenant(self, request: TenantCreate) -> TenantModel:
        return await self.send(calls.create_tenant(request))

    async def change_tenant(self, tenant_id: str, changes: TenantPatch) -> TenantModel:
        return await self.send(calls.change_tenant(tenant_id, changes))

    async def deactivate_tenant(self, tenant_id: str) -> TenantModel:
        return await self.send(calls.deactivate_tenant(tenant_id))

    async def tenant_usage(self, tenant_id: str, days: int = 30) -> TenantUsage:
        return await self.send(calls.tenant_usage(tenant_id, days))

    async def list_queues(self, project_id: str | None = None) -> list[QueueModel]:
        return await self.send(calls.list_queues(project_id))

    async def create_queue(self, request: QueueCreate) -> QueueModel:
        return await self.send(calls.create_queue(request))

    async def get_queue(self, queue_id: str) -> QueueModel:
        return await self.send(calls.get_queue(queue_id))

    async def change_queue(self, queue_id: str, changes: QueuePatch) -> QueueModel:
        return await self.send(calls.change_queue(queue_id, changes))

    async def remove_queue(self, queue_id: str) -> None:
        await self.send(calls.remove_queue(queue_id))

    async def share(self, tenant_id: str | None = None) -> ShareList:
        """The fair share: entitled, used, and when both are even again."""
        return await self.send(calls.share(tenant_id))

    async def budgets(self, tenant_id: str | None = None) -> BudgetList:
        """What tenants spent of their budgets in the present window."""
        return await self.send(calls.budgets(tenant_id))

    async def size(self, model: str) -> SizeAnswer:
        """How many GPUs a model needs, and why."""
        return await self.send(calls.size(model))

    async def jobs_file(self) -> JobsFileAnswer:
        """What became of the lines of the jobs file that the service watches."""
        return await self.send(calls.jobs_file())

    async def list_notices(self) -> NoticeList:
        """Who is told what happened, and how that fares."""
        return await self.send(calls.list_notices())

    async def try_notice(self, name: str) -> NoticeTried:
        """Send a test notice now."""
        return await self.send(calls.try_notice(name))

    async def list_reservations(self, tenant_id: str | None = None) -> ReservationList:
        return await self.send(calls.list_reservations(tenant_id))

    async def reserve(self, wish: ReservationCreate) -> ReservationModel:
        """Book GPUs for a time; jobs that name the reservation run on them."""
        return await self.send(calls.reserve(wish))

    async def get_reservation(self, reservation_id: str) -> ReservationModel:
        return await self.send(calls.get_reservation(reservation_id))

    async def cancel_reservation(self, reservation_id: str) -> ReservationModel:
        """Give it back; the answer is how it stood."""
        return await self.send(calls.cancel_reservation(reservation_id))

    async def get_quota(self, project_id: str) -> QuotaModel:
        return await self.send(calls.get_quota(project_id))

    async def change_quota(self, project_id: str, changes: QuotaPatch) -> QuotaModel:
        return await self.send(calls.change_quota(project_id, changes))

    async def sync_quota(self, project_id: str) -> QuotaModel:
        return await self.send(calls.sync_quota(project_id))

    async def get_users(self, tenant_id: str) -> UserUseList:
        """Limits and use of each user of a tenant."""
        return await self.send(calls.get_users(tenant_id))

    async def change_users(self, tenant_id: str, changes: UserLimitsPatch) -> UserUseList:
        return await self.send(calls.change_users(tenant_id, changes))

    # Identity

    async def whoami(self) -> WhoAmI:
        return await self.send(calls.whoami())

    async def list_keys(self) -> KeyList:
        return await self.send(calls.list_keys())

    async def create_key(self, request: KeyCreate) -> KeyCreated:
        return await self.send(calls.create_key(request))

    async def revoke_key(self, key_id: str) -> KeyModel:
        return await self.send(calls.revoke_key(key_id))

    async def audit(
        self, *, tenant_id: str | None = None, limit: int = 100, cursor: int | None = None
    ) -> AuditList:
        return await self.send(calls.audit(tenant_id, limit, cursor))

    # The paths at the root: plain jobs, bulk loads, ticks of a manual clock

    async def submit_plain(self, job: PlainJobRequest) -> PlainSubmitAnswer:
        return await self.send(calls.submit_plain(job))

    async def submit_batch(self, jobs: Sequence[PlainJobRequest]) -> LoadAnswer:
        return await self.send(calls.submit_batch(jobs))

    async def ingest(self, content: bytes, fmt: Format = "ndjson") -> LoadAnswer:
        return await self.send(calls.ingest(content, fmt))

    async def plain_job(self, job_id: str) -> PlainJobModel:
        return await self.send(calls.plain_job(job_id))

    async def complete_plain(self, job_id: str) -> PlainSubmitAnswer:
        return await self.send(calls.complete_plain(job_id))

    async def tick(self, now: int) -> TickAnswer:
        return await self.send(calls.tick(now))

    async def stats(self) -> Stats:
        return await self.send(calls.stats())

    # Events

    async def events(
        self,
        *,
        after: int | None = None,
        job_id: str | None = None,
        tenant_id: str | None = None,
        readings: bool = False,
        patience_seconds: float = 60,
    ) -> AsyncGenerator[EventModel, None]:
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
                async with self._opened(watch.call()) as pieces:
                    async for piece in pieces:
                        for event in watch.take(piece):
                            yield event
            except ClientError as error:
                watch.lost(error)
            await asyncio.sleep(watch.pause_seconds())

    async def journal(
        self, *, after: int = 0, commands: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """All that was recorded behind number `after`, as NDJSON in pieces; for admins."""
        async with self._opened(calls.journal(after, commands)) as pieces:
            async for piece in pieces:
                yield piece

    # How calls are made

    async def send(self, call: Call[T]) -> T:
        """Carry out one call of `tgpu.client.calls`."""
        request = self._connection.request(self._http, call)
        try:
            answer = await self._http.send(request)
        except httpx.HTTPError as error:
            raise await asyncio.to_thread(self._connection.failure, error) from error
        return self._connection.result(call, answer)

    @contextlib.asynccontextmanager
    async def _opened(self, call: Call[None]) -> AsyncIterator[AsyncIterator[bytes]]:
        request = self._connection.request(self._http, call, SILENCE_SECONDS)
        try:
            answer = await self._http.send(request, stream=True)
            async with contextlib.aclosing(answer):
                if not answer.is_success:
                    await answer.aread()
                self._connection.check(answer)
                yield answer.aiter_bytes()
        except httpx.HTTPError as error:
            raise await asyncio.to_thread(self._connection.failure, error) from error

    async def _run(self, wanted: Steps[T]) -> T:
        walk = Walk(wanted)
        while walk.wish is not None:
            await self._fulfil(walk, walk.wish)
        return walk.result

    async def _iterate(self, wanted: Stream[T]) -> AsyncIterator[T]:
        walk = Walk(wanted)
        while walk.wish is not None:
            if isinstance(walk.wish, Item):
                yield walk.wish.value
                walk.answer(None)
            else:
                await self._fulfil(walk, walk.wish)

    async def _fulfil(self, walk: Walk[W, T], wish: Wish) -> None:
        if isinstance(wish, Pause):
            await asyncio.sleep(wish.seconds)
            return walk.answer(None)
        try:
            answer = await self.send(wish)
        except ClientError as error:
            return walk.fail(error)
        walk.answer(answer)
