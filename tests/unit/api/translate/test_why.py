"""Every change has a sentence, and fields that a submission takes."""

from dataclasses import replace

import pytest

from tests.builders import a_job
from tgpu.api.translate.why import in_words
from tgpu.core.explain.changes import ChangeKind, RequestChange
from tgpu.wire.v1 import SubmitRequest

OLD = a_job(gpus=8, workers=2, gpu_mem_mib=80, cpus=4, mem_mib=40_960, time_limit_ms=7_200_000)
FEWER = replace(OLD.request, gpu_millis=4000, gpu_mem_mib=40)
CHANGES = {
    ChangeKind.QUEUE: (replace(OLD, queue="night"), "in queue night", {"queue": "night"}),
    ChangeKind.TIME_LIMIT: (
        a_job(time_limit_ms=720_000),
        "with a shorter time limit of 12m",
        {"max_runtime": 720},
    ),
    ChangeKind.GPU_TYPE: (
        a_job(gpu_type="H100"),
        "on H100",
        {"gpu_type": "H100", "gpu_types": []},
    ),
    ChangeKind.BOOKING: (a_job(), "outside its reservation", {"reservation": None}),
    ChangeKind.MEMORY: (a_job(mem_mib=20_480), "with 20G of memory", {"memory_mb": 20_480}),
    ChangeKind.GPU_MEMORY: (
        a_job(gpu_mem_mib=20_480),
        "with 20G of GPU memory",
        {"gpu_memory_mb": 20_480},
    ),
    ChangeKind.CPU: (a_job(cpus=3), "with 3 CPU cores", {"cpu_cores": 3}),
    ChangeKind.WORKERS: (a_job(workers=1), "with 1 worker", {"workers": 1}),
    ChangeKind.GPUS: (
        replace(OLD, request=FEWER),
        "with 2 GPUs for each worker",
        {"gpu_count": 2, "gpu_memory_mb": 20},
    ),
}


@pytest.mark.parametrize("kind", [kind for kind in ChangeKind if kind is not ChangeKind.CONDITION])
def test_every_change_has_a_sentence_and_fields(kind: ChangeKind) -> None:
    job, sentence, fields = CHANGES[kind]
    assert in_words(OLD, RequestChange(kind, job)) == (f"{sentence} it would start now", fields)
    SubmitRequest.model_validate(fields)


@pytest.mark.parametrize(
    "name",
    [
        *("not_nodes", "not_gpus", "gpus", "nodes", "labels"),
        *("exclusive", "same_island", "gpu_mem_each_mib"),
    ],
)
def test_every_condition_can_be_left_out(name: str) -> None:
    sentence, fields = in_words(OLD, RequestChange(ChangeKind.CONDITION, OLD, name))
    assert sentence.endswith("it would start now")
    (field,) = fields
    assert getattr(SubmitRequest.model_validate(fields), field) == fields[field]
    assert fields[field] == SubmitRequest.model_fields[field].get_default()
