"""From requests to submissions: gangs, places, deadlines, signals."""

from typing import Any

import pytest

from tgpu.api.translate.submissions import signal_name, submission_of
from tgpu.core.errors import InvalidRequest
from tgpu.core.model.job import ANYWHERE, Where
from tgpu.service.commands.submission import RunIn, SizeBy, Submission
from tgpu.wire.v1 import SubmitRequest


def of(**fields: Any) -> Submission:
    return submission_of(SubmitRequest.model_validate(fields))


def refusal(**fields: Any) -> str:
    with pytest.raises(InvalidRequest) as caught:
        of(**fields)
    return caught.value.message


def test_the_amounts_of_a_gang_are_those_of_a_worker_times_its_workers() -> None:
    request = of(
        workers=4, gpu_count=2.5, cpu_cores=1.5, memory_mb=1024, gpu_memory_mb=2048
    ).request
    assert (request.workers, request.gpu_millis) == (4, 10_000)
    assert (request.cpu_millis, request.mem_mib, request.gpu_mem_mib) == (6_000, 4096, 8192)
    assert request.of_a_worker() == (2_500, 1_500, 1024)


def test_gang_scheduling_asks_for_what_is_always_so() -> None:
    assert of(gang_scheduling=True, gpu_count=4) == of(gpu_count=4)


def test_jobs_that_do_not_care_where_share_one_object() -> None:
    assert of().request.where is ANYWHERE
    assert of(gpu_types=["A100"]).request.where is ANYWHERE


def test_every_constraint_reaches_the_core() -> None:
    where = of(
        gpu_types=["H100", "A100"],
        gpu_memory_each_mb=40_960,
        allowed_gpus=[3, 1, 1],
        excluded_gpus=[2],
        nodes=["b", "a"],
        excluded_nodes=["c"],
        labels={"zone": "z", "rack": "r1"},
        exclusive=True,
        same_island=True,
        spread=True,
    ).request.where
    assert where == Where(
        gpu_types=("H100", "A100"),
        gpu_mem_each_mib=40_960,
        gpus=(1, 3),
        not_gpus=(2,),
        nodes=("a", "b"),
        not_nodes=("c",),
        labels=(("rack", "r1"), ("zone", "z")),
        exclusive=True,
        same_island=True,
        spread=True,
    )


def test_one_type_of_a_list_is_that_type() -> None:
    assert of(gpu_types=["A100"]).request == of(gpu_type="A100").request


@pytest.mark.parametrize("given", ["USR1", "SIGUSR1", "usr1", "10", 10])
def test_a_signal_has_a_name_or_a_number(given: object) -> None:
    assert of(checkpoint_signal=given).options.checkpoint_signal == 10


def test_a_signal_is_shown_by_its_name() -> None:
    assert signal_name(10) == "USR1"
    assert signal_name(63) == "63"


@pytest.mark.parametrize("text", ["2030-01-31T09:00:00Z", "2030-01-31T10:00:00+01:00"])
def test_a_deadline_is_an_instant(text: str) -> None:
    assert of(deadline=text).options.deadline_at == 1_896_080_400_000


def test_preemption_and_reservation_are_options() -> None:
    options = of(preemptible=False, reservation="r7").options
    assert (options.preemptible, options.booking) == (False, "r7")
    assert (of().options.preemptible, of().options.booking) == (True, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gpu_type": "A100", "gpu_types": ["H100"]}, "gpu_types: give gpu_type or gpu_types"),
        ({"gpu_types": ["A100", "A100"]}, "gpu_types: is given twice"),
        ({"allowed_gpus": [0, 1], "excluded_gpus": [1]}, "allowed_gpus: is both allowed and"),
        ({"nodes": ["a"], "excluded_nodes": ["a"]}, "nodes: is both allowed and excluded"),
        ({"labels": {"a b": "x"}}, "labels: a label is letters, digits"),
        ({"deadline": "2030-01-31T09:00:00"}, "deadline: must be ISO 8601 with its zone"),
        ({"deadline": "tomorrow"}, "deadline: must be ISO 8601 with its zone"),
        ({"deadline": ""}, "deadline: must be ISO 8601 with its zone"),
        ({"deadline": "0001-01-01T00:00:00+23:59"}, "deadline: must be ISO 8601 with its zone"),
        ({"checkpoint_signal": "NOPE"}, "checkpoint_signal: must be a signal: USR1 or 10"),
        ({"checkpoint_signal": 999}, "checkpoint_signal: must be a signal: USR1 or 10"),
        ({"checkpoint_signal": "KILL"}, "checkpoint_signal: ends or stops the program"),
        ({"workers": 10_000, "gpu_count": 100}, "workers: must be fewer: 10000 workers of 100"),
        ({"workers": 2, "memory_mb": 2**53 - 1}, "memory_mb: of 2 workers together is too much"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_what_cannot_be_names_the_field_and_what_would_be_right(
    fields: dict[str, Any], message: str
) -> None:
    assert refusal(**fields).startswith(message)


def test_the_size_and_the_environment_are_passed_on() -> None:
    made = of(size_by="learned", conda="ml")
    assert (made.size_by, made.run_in) == (SizeBy.LEARNED, RunIn(conda="ml"))
    assert (of().size_by, of().run_in) == (SizeBy.GIVEN, None)
