"""Messages generated from the .proto, and plain bytes, to every method by every caller."""

from collections.abc import Iterator
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.messages import messages
from tests.fuzz.target import BOUND, CALLERS, CANARY, STRANGERS, Target
from tgpu.wire import scheduler_pb2 as pb

pytestmark = pytest.mark.external

SECONDS: Final = 5.0
STREAM_SECONDS: Final = 0.2
METHODS: Final = [
    method for service in pb.DESCRIPTOR.services_by_name.values() for method in service.methods
]
EVERYBODY: Final = st.sampled_from([*CALLERS, *STRANGERS])
# How our own failure looks: a bug, or an exception that nobody translated.
FAILURES: Final = (
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.INTERNAL,
)
CHANGES: Final = {"SubmitJob", "CancelJob", "UpdateTenantQuota", "RegisterAgent", "ReportMetrics"}


@pytest.fixture(scope="module")
def channel(target: Target) -> Iterator[grpc.Channel]:
    with target.channel() as opened:
        yield opened


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@given(data=st.data(), caller=EVERYBODY)
@settings(database=None)
def test_no_message_breaks_the_service_or_gets_out_what_is_anothers(
    target: Target, channel: grpc.Channel, method: MethodDescriptor, data: Any, caller: str
) -> None:
    sent = data.draw(st.lists(messages(method.input_type), min_size=1, max_size=3))
    status, answers = _call(
        channel, method, [one.SerializeToString() for one in sent], target, caller
    )
    assert status not in FAILURES
    _check(method, caller, status, answers)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@given(sent=st.binary(max_size=300), caller=EVERYBODY)
@settings(database=None)
def test_bytes_that_are_no_message_are_refused(
    target: Target, channel: grpc.Channel, method: MethodDescriptor, sent: bytes, caller: str
) -> None:
    status, answers = _call(channel, method, [sent], target, caller)
    assert status not in FAILURES
    _check(method, caller, status, answers)


def _call(
    channel: grpc.Channel, method: MethodDescriptor, sent: list[bytes], target: Target, caller: str
) -> tuple[grpc.StatusCode, list[bytes]]:
    path = f"/{method.containing_service.full_name}/{method.name}"
    call: Any = getattr(channel, _KINDS[method.client_streaming, method.server_streaming])(path)
    seconds = STREAM_SECONDS if method.server_streaming else SECONDS
    request = iter(sent) if method.client_streaming else sent[0]
    answers: list[bytes] = []
    try:
        answer = call(request, timeout=seconds, metadata=target.metadata(caller))
        if method.server_streaming:
            answers += answer
        else:
            answers.append(answer)
    except grpc.RpcError as error:
        status: grpc.StatusCode = error.code()
        answers.append(str(error.details()).encode())
        return status, answers
    return grpc.StatusCode.OK, answers


_KINDS: Final = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}


def _check(
    method: MethodDescriptor, caller: str, status: grpc.StatusCode, answers: list[bytes]
) -> None:
    if caller in STRANGERS:
        assert status is not grpc.StatusCode.OK
    if caller == "viewer" and method.name in CHANGES:
        assert status is not grpc.StatusCode.OK
    for answer in answers:
        assert b"Traceback" not in answer
        assert caller not in (*BOUND, *STRANGERS) or CANARY.encode() not in answer
