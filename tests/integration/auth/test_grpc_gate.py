"""The gRPC port asks the same questions as REST and gives the same answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.integration.auth.door import OURS, ROLES, THEIRS, Door, a_door, as_role
from tests.real_service import free_port
from tgpu.api.grpc.gate import RULES, GrpcGate
from tgpu.api.grpc.server import GrpcServer
from tgpu.token_buckets import TokenBuckets
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire import scheduler_pb2_grpc as rpc

Metadata = tuple[tuple[str, str], ...]


def known(role: str, *tenants: str) -> Metadata:
    return (("authorization", as_role(role, *tenants)["Authorization"]),)


@asynccontextmanager
async def a_port(
    buckets: TokenBuckets | None = None,
) -> AsyncIterator[tuple[Door, rpc.SchedulerServiceStub]]:
    async with a_door(buckets=buckets) as door:
        service = door.box.service
        port = free_port()
        gate = GrpcGate(
            door.app.state.authenticator, lambda: service, buckets, listening=("127.0.0.1", port)
        )
        server = GrpcServer(lambda: service, data_dir=None, interceptors=[gate])
        await server.start("127.0.0.1", port)
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub: Any = rpc.SchedulerServiceStub(channel)
                stub.address = f"127.0.0.1:{port}"
                yield door, stub
        finally:
            await server.stop()
            gate.close()


def test_every_call_has_its_rule():
    calls = {
        (service.name, method.name)
        for service in pb.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert calls == set(RULES)


REQUESTS = {
    "SubmitJob": pb.SubmitJobRequest(job_id="new", tenant_id=OURS),
    "CancelJob": pb.CancelJobRequest(job_id=f"{OURS}-1"),
    "GetJobStatus": pb.GetJobStatusRequest(job_id=f"{OURS}-1"),
    "ListJobs": pb.ListJobsRequest(),
    "UpdateTenantQuota": pb.UpdateTenantQuotaRequest(tenant_id=OURS),
    "GetMetrics": pb.GetMetricsRequest(),
    "GetClusterStatus": pb.GetClusterStatusRequest(),
}
ALLOWED = {
    "SubmitJob": ROLES[:3],
    "CancelJob": ROLES[:3],
    "UpdateTenantQuota": ROLES[:1],
    "GetMetrics": ROLES[:2],
}


async def code_of(call) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


@pytest.mark.parametrize("name", REQUESTS)
async def test_each_role_may_call_what_it_may_over_rest(name):
    async with a_port() as (door, stub):
        await door.submit(f"{OURS}-1", OURS)
        assert await code_of(getattr(stub, name)(REQUESTS[name])) == "UNAUTHENTICATED"
        for role in ROLES:
            code = await code_of(getattr(stub, name)(REQUESTS[name], metadata=known(role)))
            refused = role not in ALLOWED.get(name, ROLES)
            assert (code == "PERMISSION_DENIED") == refused, (role, code)


async def test_another_tenants_job_is_not_there():
    async with a_port() as (door, stub):
        await door.submit(f"{THEIRS}-1", THEIRS)
        user = known("user")
        for call, request in (
            (stub.GetJobStatus, pb.GetJobStatusRequest),
            (stub.CancelJob, pb.CancelJobRequest),
        ):
            told = []
            for name in (f"{THEIRS}-1", "nobodys-1"):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(request(job_id=name), metadata=user)
                told.append((refused.value.code(), str(refused.value.details())))
            theirs, nobodys = told
            assert theirs[0] is grpc.StatusCode.NOT_FOUND
            assert (theirs[0], theirs[1].replace(THEIRS, "nobodys")) == nobodys
        assert not (await stub.ListJobs(pb.ListJobsRequest(), metadata=user)).jobs
        wanted = pb.SubmitJobRequest(tenant_id=THEIRS)
        assert await code_of(stub.SubmitJob(wanted, metadata=user)) == "INVALID_ARGUMENT"
        status = await stub.GetClusterStatus(pb.GetClusterStatusRequest(), metadata=user)
        assert status.total_jobs == 0


async def test_watchers_see_their_own_alone():
    async with a_port() as (door, stub):
        watching = stub.WatchEvents(pb.WatchEventsRequest(), metadata=known("viewer"))
        await watching.initial_metadata()
        await door.submit(f"{THEIRS}-1", THEIRS)
        await door.submit(f"{OURS}-1", OURS)
        event = await watching.read()
        watching.cancel()
        assert event.job_id == f"{OURS}-1"


async def test_changes_and_refusals_are_in_the_audit_log():
    async with a_port() as (door, stub):
        await stub.SubmitJob(
            pb.SubmitJobRequest(job_id="j", tenant_id=OURS), metadata=known("user")
        )
        await code_of(stub.CancelJob(pb.CancelJobRequest(job_id="none"), metadata=known("user")))
        await code_of(stub.CancelJob(pb.CancelJobRequest(job_id="j"), metadata=known("viewer")))
        for _ in range(20):
            await code_of(stub.CancelJob(pb.CancelJobRequest(job_id="j")))
        # However often they knock, strangers have one row in a while.
        stranger, forbidden, missing, submitted = await door.audited()
        assert (forbidden["actor"], forbidden["outcome"]) == ("user:viewer-ada", "FORBIDDEN")
        assert (submitted["actor"], submitted["action"]) == ("user:user-ada", "SubmitJob")
        assert (submitted["target"], submitted["outcome"]) == ("j", "ok")
        assert (missing["action"], missing["outcome"]) == ("CancelJob", "NOT_FOUND")
        assert (stranger["actor"], stranger["outcome"]) == ("nobody", "UNAUTHENTICATED")


async def test_a_caller_has_one_budget_over_both_doors():
    buckets = TokenBuckets(0.01, 2)
    async with a_port(buckets) as (door, stub):
        user = known("user")
        assert (await door.get("/api/v1/jobs", headers=as_role("user"))).status_code == 200
        assert await code_of(stub.ListJobs(pb.ListJobsRequest(), metadata=user)) == "OK"
        code = await code_of(stub.ListJobs(pb.ListJobsRequest(), metadata=user))
        assert code == "RESOURCE_EXHAUSTED"
        assert (await door.get("/api/v1/jobs", headers=as_role("user"))).status_code == 429


async def test_strangers_have_a_budget_too():
    async with a_port(TokenBuckets(0.01, 2)) as (_, stub):
        codes = [await code_of(stub.ListJobs(pb.ListJobsRequest())) for _ in range(3)]
        assert codes == ["UNAUTHENTICATED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED"]


async def test_health_and_reflection_answer_everybody_and_nobody_without_end():
    async with a_port(TokenBuckets(0.01, 3)) as (_, stub):
        address = vars(stub)["address"]
        async with grpc.aio.insecure_channel(address) as opened:
            channel: Any = opened
            health: Any = health_pb2_grpc.HealthStub(channel)
            asked = health_pb2.HealthCheckRequest()
            assert await code_of(health.Check(asked)) == "OK"
            reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
            listed = reflection_pb2.ServerReflectionRequest(list_services="")
            answers = [each async for each in reflection.ServerReflectionInfo(iter([listed]))]
            assert answers[0].list_services_response.service
            assert await code_of(health.Check(asked)) == "OK"
            assert await code_of(health.Check(asked)) == "RESOURCE_EXHAUSTED"


async def test_who_calls_too_often_is_told_to_wait():
    async with a_port(TokenBuckets(0.1, 1)) as (_, stub):
        user = known("user")
        assert await code_of(stub.ListJobs(pb.ListJobsRequest(), metadata=user)) == "OK"
        code = await code_of(stub.ListJobs(pb.ListJobsRequest(), metadata=user))
        assert code == "RESOURCE_EXHAUSTED"
