"""The server as a whole: health, reflection, and its port."""

from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.unit.api.grpc.conftest import Served
from tgpu.api.grpc.server import SERVICES, CannotListen, GrpcServer
from tgpu.wire import scheduler_pb2 as pb


async def health(served: Served, name: str) -> str:
    stub: Any = health_pb2_grpc.HealthStub(served.channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


@pytest.mark.parametrize("name", ["", *SERVICES])
async def test_health_follows_the_service(served, name):
    assert await health(served, name) == "NOT_SERVING"
    await served.server.ready()
    assert await health(served, name) == "SERVING"


async def reflected(served: Served, **asked: str) -> Any:
    channel: Any = served.channel
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    request: Any = reflection_pb2.ServerReflectionRequest
    call = stub.ServerReflectionInfo(iter([request(**asked)]))
    return await anext(aiter(call))


async def test_reflection_lists_all_services(served):
    answer = await reflected(served, list_services="")
    names = {service.name for service in answer.list_services_response.service}
    assert names == {
        "gpu_scheduler.v1.SchedulerService",
        "gpu_scheduler.v1.AgentService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


async def test_reflection_knows_the_calls(served):
    answer = await reflected(served, file_containing_symbol="gpu_scheduler.v1.SchedulerService")
    files = answer.file_descriptor_response.file_descriptor_proto
    assert any(b"WatchEvents" in file for file in files)


async def test_a_port_that_is_taken_cannot_be_had(served):
    first = GrpcServer(lambda: None, data_dir=None)
    port = await first.start("127.0.0.1", 0)
    second = GrpcServer(lambda: None, data_dir=None)
    with pytest.raises(CannotListen):
        await second.start("127.0.0.1", port)
    await first.stop()
    await second.stop()


def test_the_services_have_the_calls_that_are_promised():
    calls = {
        name: set(service.methods_by_name)
        for name, service in pb.DESCRIPTOR.services_by_name.items()
    }
    assert calls == {
        "SchedulerService": {
            *("SubmitJob", "CancelJob", "GetJobStatus", "ListJobs", "UpdateTenantQuota"),
            *("GetMetrics", "GetClusterStatus", "WatchEvents", "PauseJob", "ResumeJob"),
        },
        "AgentService": {"RegisterAgent", "Heartbeat", "ReportMetrics"},
    }
