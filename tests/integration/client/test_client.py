"""Both clients against the real service, over TCP and over its socket, restarts included."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path

import pytest

from tests.real_service import RealService, eventually, gate
from tgpu.client import AsyncClient, Client, Conflict, Invalid, NotFound, SubmitRequest
from tgpu.wire.events_v1 import EventModel
from tgpu.wire.root_v1 import PlainJobRequest
from tgpu.wire.tenants_v1 import (
    QueueCreate,
    QueuePatch,
    QuotaPatch,
    TenantCreate,
    TenantPatch,
)

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[RealService]:
    directory = tmp_path_factory.mktemp("client")
    socket = directory / "tgpu.sock"
    settings = {"api": {"socket": str(socket)}}
    with RealService(directory, settings=settings) as running:
        yield running.start()


@pytest.fixture
def client(service) -> Iterator[Client]:
    with Client(service.url) as found:
        yield found


def a_script(service: RealService, script: str, **fields: object) -> SubmitRequest:
    return SubmitRequest.model_validate(service.request(script, **fields))


def test_a_job_from_submission_to_its_log(service, client):
    # Gated, for of an attempt that is over at once nobody may hear that it began.
    script = f"echo out; {gate('first')}; echo err >&2; exit 3"
    job_id = client.submit(a_script(service, script)).job_id
    service.in_state(job_id, "running")
    service.open_gate("first")
    job = client.wait(job_id, timeout_seconds=30)
    assert (job.state, job.exit_code) == ("failed", 3)
    assert b"".join(client.follow_log(job_id)) == b"out\n"
    assert b"".join(client.follow_log(job_id, "stderr")) == b"err\n"
    kinds = [event.kind for event in client.iter_job_events(job_id)]
    assert kinds == ["job_submitted", "job_scheduled", "job_started", "job_failed"]
    assert client.why(job_id).state == "failed"
    assert next(client.iter_jobs(1, states=["failed"])).job_id == job_id


def test_a_log_is_followed_while_it_is_written(service, client):
    job_id = client.submit(a_script(service, f"echo one; {gate('log')}; echo two")).job_id
    pieces = client.follow_log(job_id)
    assert next(pieces) == b"one\n"
    service.open_gate("log")
    assert b"".join(pieces) == b"two\n"


def test_jobs_are_held_released_cancelled_and_run_again(service, client):
    job_id = client.submit(a_script(service, "true", hold=True)).job_id
    assert client.hold_job(job_id).status == "pending"
    assert client.get_job(job_id).held
    assert client.release_job(job_id).job_id == job_id
    assert client.wait(job_id, timeout_seconds=30).state == "completed"
    again = client.rerun_job(job_id).job_id
    assert client.wait(again, timeout_seconds=30).rerun_of == job_id
    with pytest.raises(Conflict):
        client.cancel_job(job_id)


def test_a_lease_is_given_back(client):
    job_id = client.submit(SubmitRequest(gpu_count=1)).job_id
    eventually(lambda: client.get_job(job_id).state == "running", "the lease")
    assert client.complete_job(job_id).status == "completed"


def test_gpus_nodes_and_the_cluster(client):
    paused = client.pause_gpu(3, "too hot").paused
    assert paused is not None
    assert paused.startswith("too hot (by ")
    assert client.resume_gpu(3).paused is None
    assert len(client.gpus().gpus) == client.cluster_status().total_gpus == 4
    (node,) = client.nodes().nodes
    assert client.get_node(node.name).name == node.name
    assert client.health().status == "healthy"


def test_tenants_queues_and_quotas(client):
    made = client.create_tenant(TenantCreate(id="vision", name="Vision", max_gpus=2))
    assert made.max_gpus == 2
    assert client.change_tenant("vision", TenantPatch(max_gpus=None)).max_gpus is None
    queue = client.create_queue(QueueCreate(project_id="vision", name="night", priority=3))
    assert client.get_queue(queue.id) == queue
    assert not client.change_queue(queue.id, QueuePatch(enabled=False)).enabled
    assert queue.id in [found.id for found in client.list_queues("vision")]
    client.remove_queue(queue.id)
    assert client.change_quota("vision", QuotaPatch(gpu_quota=3)).available_gpu == 3
    assert client.get_quota("vision").gpu_quota == client.sync_quota("vision").gpu_quota == 3
    assert client.tenant_usage("vision").total.gpu_hours == 0
    assert "vision" in [tenant.id for tenant in client.list_tenants().tenants]
    assert not client.deactivate_tenant("vision").active


def test_the_scheduler_is_asked_and_triggered(client):
    assert client.scheduler_info().quota_provider == "local"
    assert client.trigger().remaining_pending == 0


def test_plain_jobs_are_loaded_in_bulk(client):
    plain = PlainJobRequest(
        job_id="bulk-1",
        tenant_id="default",
        gpu_type="A100",
        gpus=1,
        priority=1,
        submitted_at=int(time.time()),
    )
    twice = client.submit_batch([plain, plain])
    assert (twice.accepted, twice.rejected[0].code) == (["bulk-1"], "DUPLICATE_JOB")
    line = plain.model_copy(update={"job_id": "bulk-2"}).model_dump_json(exclude_none=True)
    assert client.ingest(line.encode()).counts.accepted == 1
    assert client.plain_job("bulk-2").gpus == 1
    assert client.submit_plain(plain.model_copy(update={"job_id": "bulk-3"})).status == "WAITING"
    for job_id in ("bulk-1", "bulk-2", "bulk-3"):
        eventually(partial(_runs, client, job_id), f"{job_id} to run")
        assert client.complete_plain(job_id).status == "COMPLETED"
    assert client.stats().capacity.total == {"A100": 4}


def _runs(client: Client, job_id: str) -> bool:
    return client.plain_job(job_id).status == "RUNNING"


def test_refusals_have_kinds(client):
    with pytest.raises(NotFound, match="no-such"):
        client.get_job("no-such")
    with pytest.raises(Invalid, match="gpu_count"):
        client.submit(SubmitRequest(gpu_count=-1))


def test_the_socket_is_as_good_as_an_address(service):
    socket = Path(service.data_dir).parent / "tgpu.sock"
    with Client(f"unix:{socket}") as client:
        assert client.health().pid == service.pid


def test_a_client_without_arguments_finds_the_service_of_this_user(service, monkeypatch):
    monkeypatch.delenv("TGPU_URL", raising=False)
    monkeypatch.setenv("TGPU_DATA_DIR", str(service.data_dir))
    with Client() as client:
        assert client.health().pid == service.pid


async def test_the_asynchronous_client_does_the_same(service):
    async with AsyncClient(service.url) as client:
        watched = asyncio.create_task(_first_end(client))
        answers = await asyncio.gather(
            *(client.submit(a_script(service, f"echo {n}")) for n in range(5))
        )
        jobs = [await client.wait(answer.job_id, 30) for answer in answers]
        assert {job.state for job in jobs} == {"completed"}
        log = [data async for data in client.follow_log(jobs[3].job_id)]
        assert b"".join(log) == b"3\n"
        assert (await watched).kind == "job_completed"
        assert [job async for job in client.iter_jobs(2)]


async def _first_end(client: AsyncClient) -> EventModel:
    async with contextlib.aclosing(client.events(after=0)) as events:
        async for event in events:
            if event.kind == "job_completed":
                return event
    raise AssertionError("events never end")


def test_a_stream_says_at_once_where_to_go_on_from(service, client):
    last = client.submit(a_script(service, "true", hold=True)).job_id
    with service.http.stream("GET", "/api/v1/events?readings=false") as answer:
        begin = list(takewhile(bool, answer.iter_lines()))
    assert answer.headers["content-type"].startswith("text/event-stream")
    (place,) = [int(line.removeprefix("id: ")) for line in begin if line.startswith("id: ")]
    (event,) = client.job_events(last).events
    assert place == event.seq
    client.cancel_job(last)


def test_a_hundred_readers_are_all_told_everything(service, client):
    first = client.submit(a_script(service, "true", hold=True)).job_id
    (begin,) = client.job_events(first).events

    async def read(reader: AsyncClient) -> list[int]:
        found = []
        async with contextlib.aclosing(reader.events(after=begin.seq)) as events:
            async for event in events:
                found.append(event.seq)
                if event.kind == "job_cancelled" and event.job_id == first:
                    return found
        return []

    async def all_of_them() -> list[list[int]]:
        async with AsyncClient(service.url) as reader, asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(read(reader)) for _ in range(100)]
            for _ in range(50):
                job_id = (await reader.submit(SubmitRequest(gpu_count=1, hold=True))).job_id
                await reader.cancel_job(job_id)
            await reader.cancel_job(first)
        return [task.result() for task in readers]

    seen = asyncio.run(all_of_them())
    assert len(seen[0]) >= 101
    assert all(one == seen[0] for one in seen)


class Watcher(threading.Thread):
    """Collects events in the background until it has seen a certain job end."""

    def __init__(self, url: str, after: int, last_job: str) -> None:
        super().__init__(daemon=True)
        self._url, self._after, self._last = url, after, last_job
        self.seen: list[EventModel] = []
        self.problem: BaseException | None = None

    def has_seen(self, count: int) -> bool:
        return len(self.seen) >= count

    def run(self) -> None:
        try:
            with Client(self._url) as client:
                for event in client.events(after=self._after):
                    self.seen.append(event)
                    if event.kind == "job_completed" and event.job_id == self._last:
                        return
        except BaseException as error:  # shown by the test
            self.problem = error


def test_events_go_on_over_a_killed_service_without_gap_or_repetition(tmp_path):
    with RealService(tmp_path) as service, Client(service.url) as client:
        service.start()
        watcher = Watcher(service.url, 0, "the-last")
        watcher.start()
        for life in range(3):
            for number in range(8):
                client.submit(a_script(service, "true", job_id=f"job-{life}-{number}"))
            # Killed while events are on their way: jobs of this life still start and end.
            eventually(partial(watcher.has_seen, life * 10 + 4), "some events")
            service.kill()
            service.start()
        client.submit(a_script(service, "true", job_id="the-last"))
        watcher.join(60)
        assert not watcher.is_alive(), watcher.seen[-3:]
        assert watcher.problem is None
        seen = [event.seq for event in watcher.seen]
        with contextlib.closing(client.events(after=0)) as events:
            recorded = [next(events).seq for _ in seen]
    assert seen == recorded
    assert seen == sorted(set(seen))
    submitted = [e.job_id for e in watcher.seen if e.kind == "job_submitted"]
    assert len(submitted) == len(set(submitted)) == 25


def test_waiting_and_following_go_on_over_a_killed_service(tmp_path):
    with RealService(tmp_path) as service, Client(service.url) as client:
        service.start()
        job_id = client.submit(a_script(service, f"echo one; {gate()}; echo two")).job_id
        pieces = client.follow_log(job_id)
        assert next(pieces) == b"one\n"
        service.kill()
        restart = threading.Timer(0.2, service.start)
        restart.start()
        service.open_gate()
        assert b"".join(pieces) == b"two\n"
        assert client.wait(job_id, timeout_seconds=30).state == "completed"
        restart.join()


def test_a_service_that_is_gone_is_given_up_in_time(tmp_path):
    with RealService(tmp_path) as service, Client(service.url) as client:
        began = time.monotonic()
        with pytest.raises(Exception, match="no scheduler answers"):
            next(iter(client.events(patience_seconds=0.3)))
        assert time.monotonic() - began < 10
