"""The package itself: what it offers, and that it costs nothing until it is used."""

import subprocess
import sys

import httpx
import pytest

import tgpu.client
from tests.unit.cli.builders import a_job, a_running_job, an_ended_job
from tgpu.client import AsyncClient, Client, NoService, TimedOut
from tgpu.client import steps as steps_module
from tgpu.pauses import Pauses

HERE = "http://127.0.0.1:1"


def test_everything_that_is_offered_is_there():
    for name in tgpu.client.__all__:
        assert getattr(tgpu.client, name).__name__ == name


def test_what_is_not_there_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tgpu.client.Nothing


def test_importing_the_package_loads_no_library():
    script = "import sys, tgpu.client; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    assert not {"httpx", "pydantic", "ssl"} & set(run.stdout.split())


def states_of(*jobs):
    """A service whose job goes from state to state with each look; None is a restart."""
    script = list(jobs)

    def answer(request: httpx.Request) -> httpx.Response:
        job = script.pop(0) if len(script) > 1 else script[0]
        if job is None:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=job.model_dump())

    return httpx.MockTransport(answer)


@pytest.fixture
def _no_pauses(monkeypatch):
    monkeypatch.setattr(steps_module, "LOOKS", Pauses(0.0, 0.0))


@pytest.mark.usefixtures("_no_pauses")
def test_waiting_goes_on_over_a_restart():
    with Client(HERE, transport=states_of(a_running_job(), None, an_ended_job())) as client:
        assert client.wait("12").state == "completed"


@pytest.mark.usefixtures("_no_pauses")
async def test_waiting_on_an_event_loop_goes_on_over_a_restart():
    transport = states_of(a_running_job(), None, an_ended_job())
    async with AsyncClient(HERE, transport=transport) as client:
        assert (await client.wait("12")).state == "completed"


async def test_waiting_on_an_event_loop_ends_in_time():
    async with AsyncClient(HERE, transport=states_of(a_running_job())) as client:
        with pytest.raises(TimedOut):
            await client.wait("12", timeout_seconds=0)


async def test_a_refused_connection_on_an_event_loop_is_no_service():
    async with AsyncClient(HERE, transport=states_of(None)) as client:
        with pytest.raises(NoService):
            await client.health()


async def test_pages_are_read_on_an_event_loop():
    def answer(request: httpx.Request) -> httpx.Response:
        start = int(request.url.params.get("cursor", 0))
        jobs = [a_job(str(start + n)).model_dump() for n in range(2)]
        after = start + 2 if start < 4 else None
        return httpx.Response(200, json={"jobs": jobs, "next_cursor": after})

    async with AsyncClient(HERE, transport=httpx.MockTransport(answer)) as client:
        found = [job.job_id async for job in client.iter_jobs(states=["pending"])]
    assert found == ["0", "1", "2", "3", "4", "5"]


def logs(*answers: tuple[bytes, bool] | None):
    """A log that grows with each read; None: there is none yet."""
    script, offset = list(answers), 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal offset
        if not request.url.path.endswith("/logs"):
            return httpx.Response(200, json=a_running_job("12").model_dump())
        found = script.pop(0)
        if found is None:
            error = {"code": "NO_LOG", "message": "none yet"}
            return httpx.Response(404, json={"error": error})
        data, complete = found
        assert int(request.url.params["offset"]) == offset
        begin, offset = offset, offset + len(data)
        headers = {
            "X-Log-Offset": str(begin),
            "X-Log-Size": str(offset),
            "X-Log-Complete": "true" if complete else "false",
        }
        return httpx.Response(200, content=data, headers=headers)

    return httpx.MockTransport(answer)


def test_a_log_is_followed_from_before_its_begin_to_its_end():
    with Client(HERE, transport=logs(None, (b"a", False), (b"", False), (b"b", True))) as client:
        assert list(client.follow_log("12")) == [b"a", b"b"]


async def test_a_log_is_followed_on_an_event_loop():
    transport = logs(None, (b"a", False), (b"b", True))
    async with AsyncClient(HERE, transport=transport) as client:
        assert [data async for data in client.follow_log("12")] == [b"a", b"b"]


def test_the_events_of_a_job_are_read_page_by_page():
    def answer(request: httpx.Request) -> httpx.Response:
        seq = int(request.url.params["after"]) + 1
        event = {"seq": seq, "at": "x", "kind": "job_started"}
        following = seq if seq < 3 else None
        return httpx.Response(200, json={"events": [event], "next_after": following})

    with Client(HERE, transport=httpx.MockTransport(answer)) as client:
        assert [event.seq for event in client.iter_job_events("12")] == [1, 2, 3]
