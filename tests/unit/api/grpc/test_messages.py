"""Messages have the fields of the REST models, and values pass through unchanged."""

import pytest
from google.protobuf.message import Message
from pydantic import BaseModel

from tests.unit.api.grpc.conftest import serving
from tests.unit.service.world import a_box
from tgpu.api.grpc.messages import fields_of, fill, submit_fields_of
from tgpu.wire import nodes_v1, tenants_v1, v1
from tgpu.wire import scheduler_pb2 as pb

# REST has them in one list with the indexes; lists of protobuf have one type.
GPU_NAMES = {"allowed_gpu_names", "excluded_gpu_names"}
PAIRS: list[tuple[type[Message], type[BaseModel], set[str]]] = [
    (pb.SubmitJobRequest, v1.SubmitRequest, GPU_NAMES),
    (pb.After, v1.AfterModel, set()),
    (pb.ArrayRequest, v1.ArrayRequest, set()),
    (pb.SubmitJobReply, v1.SubmitAnswer, set()),
    (pb.CancelJobReply, v1.ActionAnswer, set()),
    (pb.PauseJobReply, v1.ActionAnswer, set()),
    (pb.ResumeJobReply, v1.ActionAnswer, set()),
    (pb.Job, v1.JobModel, set()),
    (pb.Reason, v1.ReasonModel, set()),
    (pb.Prediction, v1.PredictionModel, set()),
    (pb.Array, v1.ArrayModel, set()),
    (pb.ArrayProgress, v1.ArrayProgressModel, set()),
    (pb.ListJobsReply, v1.JobList, set()),
    (pb.ClusterStatus, v1.ClusterStatus, set()),
    (pb.UpdateTenantQuotaRequest, tenants_v1.TenantPatch, {"tenant_id", "lift"}),
    (pb.Tenant, tenants_v1.TenantModel, set()),
    (pb.Usage, tenants_v1.UsageModel, set()),
    (pb.Node, nodes_v1.NodeModel, set()),
    (pb.Gpu, nodes_v1.NodeGpuModel, set()),
    (pb.GpuProcess, nodes_v1.NodeProcessModel, set()),
    (pb.RegisterAgentRequest, nodes_v1.AgentRegistration, set()),
    (pb.HeartbeatRequest, nodes_v1.AgentBeat, set()),
    (pb.ReportMetricsRequest, nodes_v1.AgentBeat, set()),
    (pb.Readings, nodes_v1.AgentReadings, set()),
]


@pytest.mark.parametrize(
    ("message", "model", "more"), PAIRS, ids=lambda value: getattr(value, "__name__", "more")
)
def test_a_message_has_the_fields_of_its_model(message, model, more):
    assert set(message.DESCRIPTOR.fields_by_name) == set(model.model_fields) | more


def test_only_fields_that_are_set_are_taken():
    assert fields_of(pb.SubmitJobRequest()) == {}
    assert fields_of(pb.SubmitJobRequest(priority=0, gpu_count=0)) == {
        "priority": 0,
        "gpu_count": 0.0,
    }


def test_large_integers_stay_integers():
    assert fields_of(pb.SubmitJobRequest(memory_mb=2**53 - 1)) == {"memory_mb": 2**53 - 1}


def test_lists_maps_and_messages_become_plain_values():
    request = pb.SubmitJobRequest(
        command=["a", "b"],
        environment={"K": "v"},
        after=[pb.After(job_id="7")],
        array=pb.ArrayRequest(indexes="1-3"),
        params={"lr": pb.Values(values=["1"]), "none": pb.Values()},
    )
    assert fields_of(request) == {
        "command": ["a", "b"],
        "environment": {"K": "v"},
        "after": [{"job_id": "7"}],
        "array": {"indexes": "1-3"},
        "params": {"lr": ["1"], "none": []},
    }


def test_what_is_null_is_left_out_of_a_message():
    gpu = fill(pb.Gpu(), nodes_v1.NodeGpuModel(index=2, temperature_c=None, memory_used_mb=0))
    assert not gpu.HasField("temperature_c")
    assert gpu.HasField("memory_used_mb")


def test_facts_of_a_reason_keep_texts_and_numbers_apart():
    facts: dict[str, int | str] = {"requested": 4000, "gpu_type": "4000"}
    reason = fill(pb.Reason(), v1.ReasonModel(code="x", message="y", facts=facts))
    assert (reason.facts["requested"], reason.facts["gpu_type"]) == (4000, "4000")


def test_gpus_by_name_have_a_list_of_their_own_and_are_one_with_the_indexes_in_rest():
    request = pb.SubmitJobRequest(allowed_gpus=[0], allowed_gpu_names=["b/3"])
    assert submit_fields_of(request) == {"allowed_gpus": [0, "b/3"]}
    assert submit_fields_of(pb.SubmitJobRequest(excluded_gpu_names=["b/3"])) == {
        "excluded_gpus": ["b/3"]
    }


async def test_a_job_has_the_gpus_that_it_names_over_grpc_too():
    async with a_box(gpus="sim:1xA100", nodes={"b": "sim:2xA100"}) as box, serving(box) as served:
        reply = await served.scheduler.SubmitJob(
            pb.SubmitJobRequest(command=["t"], allowed_gpu_names=["b/1", "b/0"], gpu_count=2)
        )
        await box.run(reply.job_id)
        job = await served.scheduler.GetJobStatus(pb.GetJobStatusRequest(job_id=reply.job_id))
        assert list(job.gpu_names) == ["b/0", "b/1"]
        assert job.gpu_text == "b/0-1"
        assert list(job.constraints.allowed_gpus) == []
        assert list(job.constraints.allowed_gpu_names) == ["b/0", "b/1"]
