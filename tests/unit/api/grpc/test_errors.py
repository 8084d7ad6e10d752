"""Every error has a status in gRPC."""

from collections.abc import Iterator

import grpc
import pytest

from tests.unit.api.grpc.conftest import Served, refusal
from tgpu.api.errors import TABLE, http_error
from tgpu.core import errors
from tgpu.core.errors import SchedulerError
from tgpu.wire import scheduler_pb2 as pb


def tree(root: type[SchedulerError]) -> Iterator[type[SchedulerError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from tree(kind)


OURS = [kind for kind in tree(SchedulerError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_core_is_in_the_table(kind):
    assert kind in TABLE


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.__name__)
def test_every_status_is_one_of_grpc(kind):
    assert TABLE[kind].grpc in grpc.StatusCode.__members__


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("InvalidRequest", "INVALID_ARGUMENT"),
        ("QuotaExceeded", "RESOURCE_EXHAUSTED"),
        ("Forbidden", "PERMISSION_DENIED"),
        ("NotFound", "NOT_FOUND"),
        ("Conflict", "FAILED_PRECONDITION"),
        ("Duplicate", "ALREADY_EXISTS"),
        ("IllegalMove", "FAILED_PRECONDITION"),
        ("Unavailable", "UNAVAILABLE"),
        ("InvariantBroken", "INTERNAL"),
    ],
)
def test_the_statuses_are_those_that_clients_expect(name, status):
    assert TABLE[getattr(errors, name)].grpc == status


def test_an_error_outside_the_table_is_told_as_the_nearest_one():
    class Stranger(errors.NotFound):
        pass

    assert http_error(Stranger("job", "x")).grpc == "NOT_FOUND"
    assert http_error(SchedulerError("x")).grpc == "INTERNAL"


@pytest.mark.parametrize("character", ["x", "ü", "\U0001f600"])
async def test_an_error_with_endless_facts_still_arrives(served: Served, monkeypatch, character):
    def refuse(*_: object) -> None:
        raise errors.Conflict(character * 5000, [{"x": "y" * 100_000}])

    monkeypatch.setattr(served.service.jobs, "submit", refuse)
    call = served.scheduler.SubmitJob(pb.SubmitJobRequest())
    told = await refusal(call)
    assert (told.status, told.code, told.details) == ("FAILED_PRECONDITION", "CONFLICT", [])
    assert told.message.startswith(character * 200)
