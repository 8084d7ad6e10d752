"""`SchedulerService`: jobs, tenants, the cluster, events."""

from collections.abc import Callable
from typing import Final

from google.protobuf.json_format import ParseDict

from tgpu.api.access.visible import checked_submission, looking, visible_job, waiting_reason
from tgpu.api.grpc.gate import grpc_caller
from tgpu.api.grpc.messages import check_bounds, fields_of, fill, submit_fields_of
from tgpu.api.grpc.refusal import Context, NotReady, answering
from tgpu.api.operations.cancelling import cancel_named
from tgpu.api.operations.cluster_status import visible_status
from tgpu.api.operations.job_page import count_rows, read_rows
from tgpu.api.operations.pausing import pause_named
from tgpu.api.streams import Streams
from tgpu.api.translate.cluster import cluster_model
from tgpu.api.translate.job_answers import states_of, submit_answer
from tgpu.api.translate.jobs import folded_model
from tgpu.api.translate.nodes import node_models
from tgpu.api.translate.prediction import predicted_job_model
from tgpu.api.translate.submissions import submission_of
from tgpu.api.translate.tenants import core_fields, tenant_model
from tgpu.api.translate.user_limits import users_change
from tgpu.core.errors import InvalidRequest, Unavailable
from tgpu.core.model.ids import TenantId
from tgpu.service.feed.feed_event import FeedEvent
from tgpu.service.service import Service
from tgpu.store.api import JobQuery
from tgpu.text.instants import utc_millis_text
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire import scheduler_pb2_grpc as rpc
from tgpu.wire.tenants_v1 import TenantLimits, TenantPatch
from tgpu.wire.v1 import ActionAnswer, SubmitRequest

# Metadata at the beginning of an event stream: the newest event when it began.
LAST_SEQ: Final = "tgpu-last-seq"
_PAGE: Final = 100
_LONGEST_PAGE: Final = 1000


class SchedulerServicer(rpc.SchedulerServiceServicer):
    """`service` gives None until the service has opened, and again once it is closing."""

    def __init__(
        self,
        service: Callable[[], Service | None],
        data_dir: str | None,
        streams: Streams | None = None,
    ) -> None:
        self._find_service = service
        self._data_dir = data_dir
        self._streams = streams or Streams()

    @answering
    async def SubmitJob(self, request: pb.SubmitJobRequest, context: Context) -> pb.SubmitJobReply:
        service = self._service()
        wanted = submission_of(SubmitRequest.model_validate(submit_fields_of(request)))
        submitted = await service.jobs.submit(
            await checked_submission(service, grpc_caller(), wanted)
        )
        return fill(pb.SubmitJobReply(), submit_answer(submitted))

    @answering
    async def CancelJob(self, request: pb.CancelJobRequest, context: Context) -> pb.CancelJobReply:
        check_bounds(request)
        service = self._service()
        answer = await cancel_named(service, grpc_caller(), _job_name(request.job_id))
        return fill(pb.CancelJobReply(), answer)

    @answering
    async def PauseJob(self, request: pb.PauseJobRequest, context: Context) -> pb.PauseJobReply:
        return fill(pb.PauseJobReply(), await self._pause(request, paused=True))

    @answering
    async def ResumeJob(self, request: pb.ResumeJobRequest, context: Context) -> pb.ResumeJobReply:
        return fill(pb.ResumeJobReply(), await self._pause(request, paused=False))

    async def _pause(
        self, request: pb.PauseJobRequest | pb.ResumeJobRequest, *, paused: bool
    ) -> ActionAnswer:
        check_bounds(request)
        name = _job_name(request.job_id)
        return await pause_named(self._service(), grpc_caller(), name, paused=paused)

    @answering
    async def GetJobStatus(self, request: pb.GetJobStatusRequest, context: Context) -> pb.Job:
        check_bounds(request)
        service = self._service()
        stored = await visible_job(service, grpc_caller(), _job_name(request.job_id))
        await service.look_ahead()
        waits = waiting_reason(service, grpc_caller(), stored)
        return fill(pb.Job(), predicted_job_model(service, stored, waits))

    @answering
    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsReply:
        check_bounds(request)
        service = self._service()
        caller = grpc_caller()
        query = _query(request)
        await service.look_ahead()
        found = await read_rows(service, caller, query, fold=request.fold)
        return pb.ListJobsReply(
            jobs=[fill(pb.Job(), folded_model(service, *seen)) for seen in found],
            next_cursor=found[-1].row.number if len(found) == query.limit else None,
            total=await count_rows(service, caller, query, fold=request.fold)
            if request.count
            else None,
        )

    @answering
    async def UpdateTenantQuota(
        self, request: pb.UpdateTenantQuotaRequest, context: Context
    ) -> pb.Tenant:
        check_bounds(request)
        service = self._service()
        given = fields_of(request)
        tenant_id = TenantId(given.pop("tenant_id", ""))
        if not tenant_id:
            raise InvalidRequest("tenant_id", "", "is required")
        patch = TenantPatch.model_validate(_lifted(given.pop("lift", [])) | given)
        price = service.settings.cost_per_gpu_hour
        given = patch.model_dump(exclude_unset=True, exclude={"system_user"})
        users = users_change(given)
        changes = core_fields(given, price)
        await service.tenants.change(tenant_id, changes, system_user=patch.system_user, users=users)
        return fill(pb.Tenant(), tenant_model(service, tenant_id))

    @answering
    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Context) -> pb.Metrics:
        service = self._service()
        status = cluster_model(service, self._data_dir)
        return pb.Metrics(
            jobs_by_state=status.jobs_by_state,
            queue_size=status.pending_jobs,
            running_jobs=status.running_jobs,
            available_gpus=status.available_gpus,
            last_seq=service.feed.last_seq,
            tenants=[
                fill(pb.Tenant(), tenant_model(service, tenant.tenant_id))
                for tenant in service.reads.tenants()
            ],
            nodes=[fill(pb.Node(), node) for node in node_models(service)],
        )

    @answering
    async def GetClusterStatus(
        self, request: pb.GetClusterStatusRequest, context: Context
    ) -> pb.ClusterStatus:
        status = visible_status(self._service(), grpc_caller(), self._data_dir)
        return fill(pb.ClusterStatus(), status)

    @answering
    async def WatchEvents(self, request: pb.WatchEventsRequest, context: Context) -> None:
        check_bounds(request)
        service = self._service()
        job_id = None
        if request.HasField("job_id"):
            name = _job_name(request.job_id)
            job_id = (await visible_job(service, grpc_caller(), name)).job.job_id
        subscription = service.feed.subscribe(
            request.after if request.HasField("after") else None,
            job_id=job_id,
            look=looking(service, grpc_caller(), *request.tenant_ids),
        )
        self._streams.check(grpc_caller())
        # Sent at once, so that the caller knows from when on it misses nothing.
        await context.send_initial_metadata(((LAST_SEQ, str(service.feed.last_seq)),))
        with self._streams.held(grpc_caller()):
            async with subscription:
                while events := await subscription.batch():
                    if subscription.is_behind:
                        await self._streams.pace(len(events))
                    for event in events:
                        await context.write(_written(event))
        raise Unavailable("the service is stopping; connect again in a moment")

    def _service(self) -> Service:
        service = self._find_service()
        if service is None:
            raise NotReady
        return service


def _written(event: FeedEvent) -> pb.Event:
    """Made once for all who see it whole."""
    message: pb.Event | None = event.written.get("grpc")
    if message is None:
        message = event.written["grpc"] = event_message(event)
    return message


def event_message(event: FeedEvent) -> pb.Event:
    message = pb.Event(
        seq=event.seq,
        at=utc_millis_text(event.at),
        kind=event.kind,
        job_id=event.job_id,
        tenant_id=event.tenant_id,
        state=event.state,
        job_ids=[ref.job_id for ref in event.jobs],
        decision=None if event.decision is None else event.decision.number,
        decided_by=None if event.decision is None else event.decision.by,
    )
    ParseDict(dict(event.data), message.data)
    return message


def _job_name(name: str) -> str:
    if not name:
        raise InvalidRequest("job_id", name, "is required")
    return name


def _query(request: pb.ListJobsRequest) -> JobQuery:
    limit = request.limit or _PAGE
    if not 1 <= limit <= _LONGEST_PAGE:
        raise InvalidRequest("limit", limit, f"must be from 1 to {_LONGEST_PAGE}")
    if request.HasField("cursor") and request.cursor < 1:
        raise InvalidRequest("cursor", request.cursor, "must be the next_cursor of another page")
    return JobQuery(
        states=states_of(",".join(request.states)),
        tenant_id=TenantId(request.tenant_id) if request.HasField("tenant_id") else None,
        name_contains=request.name,
        user=request.user,
        array_id=request.array_id if request.HasField("array_id") else None,
        before=request.cursor if request.HasField("cursor") else None,
        limit=limit,
    )


def _lifted(names: list[str]) -> dict[str, object]:
    """Limits that shall no longer be there, as REST says it: null, or no type at all."""
    for name in names:
        if name not in TenantLimits.model_fields:
            there_are = ", ".join(TenantLimits.model_fields)
            raise InvalidRequest("lift", name, f"is not a limit; there are: {there_are}")
    return {name: {} if name == "max_gpus_by_type" else None for name in names}
