"""Bounds of what is asked over gRPC: a model for each message that a call takes."""

from typing import Annotated, Final

from pydantic import BaseModel, FailFast, Field

from tgpu.wire.bounds import BoundedModel, Int, Text, Word
from tgpu.wire.nodes_v1 import AgentBeat, AgentRegistration
from tgpu.wire.tenants_v1 import TenantPatch
from tgpu.wire.v1 import GpuWords, SubmitRequest


class _Nothing(BoundedModel):
    pass


class _OfAJob(BoundedModel):
    job_id: Text = ""


class _ListJobs(BoundedModel):
    states: Annotated[list[Word], Field(max_length=64), FailFast()] = []
    tenant_id: Text = ""
    name: Text = ""
    user: Text = ""
    array_id: Text = ""
    limit: Int = 0
    cursor: Int = 0
    fold: bool = False
    count: bool = False


class _WatchEvents(BoundedModel):
    after: Int = 0
    job_id: Text = ""
    tenant_ids: Annotated[list[Word], Field(max_length=1000), FailFast()] = []


class _UpdateTenantQuota(TenantPatch):
    tenant_id: Word = ""
    lift: Annotated[list[Word], Field(max_length=64), FailFast()] = []


class _SubmitJob(SubmitRequest):
    """Protobuf's lists have one type: names of GPUs have fields of their own."""

    allowed_gpu_names: GpuWords = []
    excluded_gpu_names: GpuWords = []


REQUESTS: Final[dict[str, type[BaseModel]]] = {
    "SubmitJobRequest": _SubmitJob,
    "CancelJobRequest": _OfAJob,
    "PauseJobRequest": _OfAJob,
    "ResumeJobRequest": _OfAJob,
    "GetJobStatusRequest": _OfAJob,
    "ListJobsRequest": _ListJobs,
    "UpdateTenantQuotaRequest": _UpdateTenantQuota,
    "GetMetricsRequest": _Nothing,
    "GetClusterStatusRequest": _Nothing,
    "WatchEventsRequest": _WatchEvents,
    "RegisterAgentRequest": AgentRegistration,
    "HeartbeatRequest": AgentBeat,
    "ReportMetricsRequest": AgentBeat,
}
