"""GPUs are counted over all that a job could use, and the sentence says over what."""

import pytest

from tests.builders import a_gpu, a_job, a_node, a_state, explain, start
from tgpu.api.translate.sentences import reason_model
from tgpu.core.explain.reason import never_reason
from tgpu.core.model.job import Job, class_of
from tgpu.core.model.node import Node

TWO_TYPES = a_node(gpus=[*(a_gpu(n) for n in range(4)), *(a_gpu(n, "H100") for n in range(4, 8))])


def told(job: Job, *busy: int, nodes: list[Node] | None = None, node: str = "n0") -> str:
    """The reason of a job that waits while these GPUs are busy, in words."""
    nodes = nodes or [TWO_TYPES]
    taken = [a_job(f"busy-{n}", submitted_at=-1) for n in busy]
    state = a_state(*taken, job, nodes=nodes)
    types = {gpu.index: gpu.gpu_type for one in nodes if one.node_id == node for gpu in one.gpus}
    for index in busy:
        start(state, f"busy-{index}", index, node=node, gpu_type=types[index])
    entry = state.entry(job.job_id)
    assert entry is not None
    return reason_model(explain(state, entry), job.job_id).message


@pytest.mark.parametrize(
    ("job", "busy", "sentence"),
    [
        (a_job(), range(8), "needs 1 GPU; 0 of 8 GPUs free (4 A100, 4 H100)"),
        (a_job(gpu_type="A100"), range(8), "needs 1 A100; 0 of 4 A100 free"),
        (
            a_job(gpus=3),
            (0, 1, 4, 5, 6),
            "needs 3 GPUs; 3 of 8 GPUs free (2 of 4 A100, 1 of 4 H100), at most 2 of one type",
        ),
        (
            a_job(gpus=4),
            (0, 1, 4, 5, 6),
            "needs 4 GPUs; 3 of 8 GPUs free (2 of 4 A100, 1 of 4 H100)",
        ),
        (
            a_job(gpus=2, gpu_types=("H100", "B200")),
            (4, 5, 6),
            "needs 2 GPUs; 1 of 4 GPUs free",
        ),
        (
            a_job(gpus=4, workers=4),
            (0, 4, 5),
            "needs 4 GPUs; 5 of 8 GPUs free (3 of 4 A100, 2 of 4 H100), at most 3 of one type",
        ),
    ],
)
def test_a_machine_with_two_types(job: Job, busy: range, sentence: str) -> None:
    assert told(job, *busy) == sentence


def test_gpus_on_several_machines_are_not_together() -> None:
    nodes = [a_node("n0", 2), a_node("n1", 2)]
    state = a_state(a_job("a"), a_job("b"), a_job(gpus=2), nodes=nodes)
    start(state, "a", 0, node="n0")
    start(state, "b", 0, node="n1")
    entry = state.entry(a_job().job_id)
    assert entry is not None
    message = reason_model(explain(state, entry), "j1").message
    assert message == "needs 2 GPUs; 2 of 4 GPUs free, at most 1 on one machine"


def test_gpus_in_pieces_are_said_to_be() -> None:
    state = a_state(a_job("a", gpus=0.5), a_job("b", gpus=0.5), a_job(), nodes=[a_node(gpus=2)])
    start(state, "a", 0, millis=500)
    start(state, "b", 1, millis=500)
    entry = state.entry(a_job().job_id)
    assert entry is not None
    message = reason_model(explain(state, entry), "j1").message
    assert message == "needs 1 GPU; 1 of 2 GPUs free, in pieces that are too small"


def test_a_machine_too_small_for_the_job_is_not_counted() -> None:
    nodes = [a_node("n0", 4), a_node("n1", 1)]
    assert told(a_job(gpus=4), 0, nodes=nodes) == "needs 4 GPUs; 3 of 4 GPUs free"


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (
            a_job(gpus=5),
            "needs 5 GPUs; no machine has more than 4 of one type (4 A100, 4 H100)",
        ),
        (a_job(gpus=5, gpu_type="A100"), "needs 5 A100 GPUs; no machine has more than 4"),
        (
            a_job(gpus=5, workers=5),
            "needs 5 workers; all machines together hold 4 of one type (4 A100, 4 H100)",
        ),
    ],
)
def test_what_is_too_large_is_told_over_which_types_it_was_counted(job: Job, sentence: str) -> None:
    uses = list(a_state(nodes=[TWO_TYPES]).ledger.nodes.values())
    assert reason_model(never_reason(uses, class_of(job)), "7").message == sentence
