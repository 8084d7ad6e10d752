"""`AgentService` over a real connection."""

import asyncio
from typing import Any

import grpc
import pytest

from tests.unit.api.grpc.conftest import Served, refusal, refusal_of
from tests.unit.service.eventually import eventually
from tgpu.wire import scheduler_pb2 as pb


def a_registration(
    name: str = "box", instance: str = "i1", **fields: Any
) -> pb.RegisterAgentRequest:
    gpus = fields.pop("gpus", [pb.Gpu(index=0, uuid="GPU-0", gpu_type="H100", memory_mb=80_000)])
    return pb.RegisterAgentRequest(
        name=name, instance=instance, version="1", cpu_cores=8, memory_mb=1024, gpus=gpus, **fields
    )


def a_beat(name: str = "box", instance: str = "i1", celsius: int | None = None) -> Any:
    readings = None
    if celsius is not None:
        process = pb.GpuProcess(pid=7, user="ada", command="train", memory_mb=100)
        gpu = pb.Gpu(index=0, uuid="GPU-0", gpu_type="H100", temperature_c=celsius)
        gpu.processes.append(process)
        readings = pb.Readings(gpus=[gpu])
    return pb.HeartbeatRequest(name=name, instance=instance, readings=readings)


async def nodes(served: Served) -> dict[str, Any]:
    metrics = await served.scheduler.GetMetrics(pb.GetMetricsRequest())
    return {node.name: node for node in metrics.nodes}


async def beating(served: Served, **fields: Any) -> Any:
    """A heartbeat stream that was answered once."""
    call = served.agents.Heartbeat()
    await call.write(a_beat(**fields))
    async with asyncio.timeout(10):
        assert (await call.read()).at
    return call


async def test_a_registered_machine_is_a_node(served):
    answer = await served.agents.RegisterAgent(a_registration(simulated=True))
    assert (answer.name, answer.offline_after_seconds) == ("box", 30)
    node = (await nodes(served))["box"]
    assert (node.state, node.source, node.address) == ("online", "agent", "127.0.0.1")
    assert (node.cpu_cores, node.memory_mb, node.simulated) == (8, 1024, True)
    assert [(gpu.uuid, gpu.gpu_type) for gpu in node.gpus] == [("GPU-0", "H100")]


async def test_a_node_of_an_agent_counts_and_takes_no_jobs(served):
    await served.agents.RegisterAgent(a_registration())
    status = await served.scheduler.GetClusterStatus(pb.GetClusterStatusRequest())
    assert (status.total_nodes, status.online_nodes) == (2, 2)
    assert (status.total_gpus, status.available_gpus) == (7, 6)
    assert list(served.service.state.ledger.nodes) == ["local"]


async def test_readings_are_shown(served):
    await served.agents.RegisterAgent(a_registration())
    call = await beating(served, celsius=61)
    gpu = (await nodes(served))["box"].gpus[0]
    assert gpu.temperature_c == 61
    assert [(p.pid, p.user, p.command, p.memory_mb) for p in gpu.processes] == [
        (7, "ada", "train", 100)
    ]
    call.cancel()


async def test_readings_come_without_a_stream_too(served):
    await served.agents.RegisterAgent(a_registration())
    readings = pb.Readings(gpus=[pb.Gpu(temperature_c=44)], problem="slow")
    await served.agents.ReportMetrics(
        pb.ReportMetricsRequest(name="box", instance="i1", readings=readings)
    )
    node = (await nodes(served))["box"]
    assert (node.gpus[0].temperature_c, node.problem) == (44, "slow")


async def test_a_beat_of_a_stranger_is_refused(served):
    call = served.agents.Heartbeat()
    await call.write(a_beat())
    told = await refusal(call.read())
    assert (told.status, told.code) == ("NOT_FOUND", "NOT_FOUND")


async def test_readings_of_a_stranger_are_refused(served):
    told = await refusal(served.agents.ReportMetrics(pb.ReportMetricsRequest(name="box")))
    assert (told.status, told.code) == ("NOT_FOUND", "NOT_FOUND")


async def test_a_second_agent_cannot_take_the_name_of_one_that_is_there(served):
    await served.agents.RegisterAgent(a_registration())
    call = await beating(served)
    told = await refusal(served.agents.RegisterAgent(a_registration(instance="i2")))
    assert (told.status, told.code) == ("FAILED_PRECONDITION", "CONFLICT")
    assert "--name" in told.message
    call.cancel()


async def test_an_agent_that_starts_anew_takes_its_name_back_at_once(served):
    await served.agents.RegisterAgent(a_registration())
    call = await beating(served)
    call.cancel()
    agent = served.service.agents.get("box")
    await eventually(lambda: agent.streams == 0, "the stream to be closed")
    await served.agents.RegisterAgent(a_registration(instance="i2"))
    told = await refusal(
        served.agents.ReportMetrics(pb.ReportMetricsRequest(name="box", instance="i1"))
    )
    assert told.status == "NOT_FOUND"


async def test_a_stream_of_an_instance_that_was_replaced_ends(served):
    await served.agents.RegisterAgent(a_registration())
    call = await beating(served)
    served.service.agents.get("box").streams = 0  # as if it had been silent for long
    await served.agents.RegisterAgent(a_registration(instance="i2"))
    await call.write(a_beat())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert refusal_of(caught.value).status == "NOT_FOUND"


@pytest.mark.parametrize(
    "request_",
    [
        a_registration(name="local"),
        a_registration(name=""),
        a_registration(name="a b"),
        a_registration(name="../x"),
        a_registration(instance=""),
        a_registration(gpus=[pb.Gpu(memory_mb=-1)]),
        a_registration(gpus=[pb.Gpu(utilisation_percent=101)]),
        a_registration(gpus=[pb.Gpu(index=n) for n in range(1025)]),
        a_registration(gpus=[pb.Gpu(uuid="x" * 300)]),
    ],
    ids=["reserved", "empty", "space", "path", "instance", "memory", "use", "many", "long"],
)
async def test_a_registration_that_cannot_be_is_refused(served, request_):
    told = await refusal(served.agents.RegisterAgent(request_))
    assert (told.status, told.code) == ("INVALID_ARGUMENT", "VALIDATION_ERROR")
    assert list(await nodes(served)) == ["local"]
