import time
from typing import cast

import httpx
import pytest

from tests.unit.cli.builders import a_job, a_running_job, an_ended_job
from tgpu.client import follow, steps
from tgpu.client.call import LogChunk
from tgpu.client.errors import NoService
from tgpu.client.http import Client
from tgpu.client.target import parse_target
from tgpu.wire.v1 import JobModel


class FakeService:
    """Answers GET, wait and logs for one job from a script of its states."""

    def __init__(self, states: list[JobModel], logs: dict[tuple[int, str], list[bytes]]) -> None:
        self._states = states
        self._logs = logs  # what each read finds, by attempt and stream
        self.failures = 0

    def client(self) -> Client:
        return Client(
            parse_target("http://localhost:1"), transport=httpx.MockTransport(self.answer)
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        if self.failures:
            self.failures -= 1
            raise httpx.ConnectError("restarting")
        if request.url.path.endswith("/logs"):
            return self._log(request)
        job = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        return httpx.Response(200, json=job.model_dump())

    def _log(self, request: httpx.Request) -> httpx.Response:
        query = request.url.params
        pieces = self._logs.get((int(query["attempt"]), query["stream"]), [])
        whole, offset = b"".join(pieces), int(query["offset"])
        start = max(0, len(whole) + offset) if offset < 0 else offset
        seen, end = 0, len(whole)
        for piece in pieces:  # one piece a read, as a slow writer would have it
            seen += len(piece)
            if seen > start and offset >= 0:
                end = seen
                break
        done = "true" if end == len(whole) else "false"
        size = str(len(whole))
        headers = {"X-Log-Offset": str(start), "X-Log-Size": size, "X-Log-Complete": done}
        return httpx.Response(200, content=whole[start:end], headers=headers)


def followed(service: FakeService, **options) -> tuple[JobModel, dict[str, bytes]]:
    written: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def write(stream: str, data: bytes) -> None:
        written[stream] += data

    with service.client() as client:
        return follow.follow_job(client, "12", write, **options), written


def test_both_streams_are_passed_on_whole():
    logs = {(1, "stdout"): [b"a\n", b"b\n"], (1, "stderr"): [b"oops\n"]}
    job, written = followed(FakeService([a_job(), a_running_job(), an_ended_job()], logs))
    assert job.state == "completed"
    assert written == {"stdout": b"a\nb\n", "stderr": b"oops\n"}


def test_a_job_that_is_tried_again_is_followed_through_all_attempts():
    logs = {(1, "stdout"): [b"one\n"], (2, "stdout"): [b"two\n"]}
    states = [a_running_job(), a_job(attempt=1), a_running_job(attempt=2), an_ended_job(attempt=2)]
    job, written = followed(FakeService(states, logs))
    assert job.attempt == 2
    assert written["stdout"] == b"one\ntwo\n"


def test_a_job_that_is_cancelled_before_it_starts_ends_the_following():
    job, written = followed(FakeService([a_job(), a_job(state="cancelled")], {}))
    assert job.state == "cancelled"
    assert written == {"stdout": b"", "stderr": b""}


def test_the_wait_for_a_start_is_told_to_the_listener():
    seen: list[JobModel] = []
    service = FakeService([a_job(), a_running_job(), an_ended_job()], {})
    followed(service, on_waiting=seen.append)
    assert [job.state for job in seen] == ["pending"]


def test_a_restart_of_the_service_is_sat_out(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    service = FakeService([an_ended_job()], {})
    service.failures = 3
    with service.client() as client:
        assert follow.wait_until_over(client, "12").state == "completed"


def test_a_service_that_stays_away_is_given_up(monkeypatch):
    monkeypatch.setattr(steps, "PATIENCE_SECONDS", 0)
    service = FakeService([an_ended_job()], {})
    service.failures = 9
    with service.client() as client, pytest.raises(NoService):
        follow.wait_until_over(client, "12")


def test_waiting_ends_at_its_deadline_with_the_job_as_it_stands():
    service = FakeService([a_running_job()], {})
    with service.client() as client, pytest.raises(follow.TimedOut) as caught:
        follow.wait_until_over(client, "12", deadline=time.monotonic() + 0.01)
    assert caught.value.job.state == "running"


@pytest.mark.parametrize(("lines", "expected"), [(2, b"b\nc\n"), (0, b""), (9, b"a\nb\nc\n")])
def test_a_tail_has_the_last_lines_and_ends_where_the_log_ends(lines, expected):
    service = FakeService([an_ended_job()], {(1, "stdout"): [b"a\nb\nc\n"]})
    with service.client() as client:
        parts, end = follow.read_log(client, "12", "stdout", 1, lines)
    assert (b"".join(parts), end) == (expected, 6)


def test_a_long_log_is_read_to_its_end():
    service = FakeService([an_ended_job()], {(1, "stdout"): [b"x" * 10, b"y" * 10]})
    with service.client() as client:
        parts, end = follow.read_log(client, "12", "stdout", 1, None)
    assert (parts, end) == ([b"x" * 10, b"y" * 10], 20)


def test_a_tail_does_not_look_for_what_was_left_out():
    """Where the middle of a log is missing, the piece before the end never begins at 0."""
    asked = []

    class Cut:
        def read_log(self, job_id, stream, *, offset, limit, attempt):
            asked.append(offset)
            return LogChunk(b"b\nc\n", 9_000_000, 9_000_004, True, 8_000_000)

    parts, end = follow.read_log(cast(Client, Cut()), "12", "stdout", 1, 9)
    assert (b"".join(parts), end) == (b"b\nc\n", 9_000_004)
    assert len(asked) == 2
