import pytest

from tests.builders import a_gpu, a_node
from tgpu.core.model.ids import TenantId
from tgpu.core.model.job import Request, Where
from tgpu.service.commands.by_memory import counted_by_memory
from tgpu.service.commands.submission import Submission

NODES = [a_node(gpus=[a_gpu(0, mem_mib=80_000), a_gpu(1, "L4", mem_mib=24_000)])]


def counted(**fields: object) -> tuple[int, int | None, str]:
    request = Request(**{"gpu_millis": 250, **fields})  # type: ignore[arg-type]  # the test knows the fields
    submission, note = counted_by_memory(Submission(request, TenantId("us")), NODES)
    return submission.request.gpu_millis, submission.options.compute_millis, note


def test_a_part_with_more_memory_than_its_part_counts_by_its_memory() -> None:
    millis, compute, note = counted(gpu_mem_mib=40_000)
    assert (millis, compute) == (500, 250)
    assert note == (
        "40000 MiB of 80000 MiB is 0.5 of a GPU, so the job counts as that; "
        "it computes with 0.25 of it"
    )


def test_every_worker_counts_by_its_own_memory() -> None:
    assert counted(gpu_millis=500, workers=2, gpu_mem_mib=80_000)[:2] == (1000, 250)


def test_the_part_is_rounded_up_to_a_hundredth() -> None:
    assert counted(gpu_mem_mib=40_001)[0] == 510


def test_only_gpus_that_it_may_have_count() -> None:
    assert counted(gpu_type="L4", gpu_mem_mib=12_000)[0] == 500
    assert counted(where=Where(gpu_types=("L4",)), gpu_mem_mib=12_000)[0] == 500


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"gpu_mem_mib": 20_000},
        {"gpu_millis": 1000, "gpu_mem_mib": 90_000},
        {"gpu_mem_mib": 80_001},
        {"gpu_type": "H100", "gpu_mem_mib": 40_000},
    ],
    ids=["no memory", "within its part", "whole GPUs", "more than there is", "no such GPU"],
)
def test_else_it_stays_as_it_was_asked_for(fields: dict[str, object]) -> None:
    asked = int(str(fields.get("gpu_millis", 250)))
    assert counted(**fields) == (asked, None, "")
