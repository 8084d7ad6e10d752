"""Events through gateways: one subscription for all, no gap and no repeat."""

import asyncio
import json
from pathlib import Path

import websockets

from tests.integration.gateway.conftest import SETTINGS, MakeGateway
from tests.integration.gateway.gateways import RealGateway, Watcher
from tests.real_service import RealService, eventually, read_proc
from tests.servers.redis import RedisServer


def connections_to(service: RealService, gateway: RealGateway) -> int:
    """Established connections of a gateway's process to the service, counted by the kernel."""
    fds = Path(f"/proc/{gateway.process.pid}/fd")
    own = set()
    for fd in fds.iterdir():
        try:
            own.add(str(fd.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    found = 0
    for line in read_proc(gateway.process.pid, "net/tcp").decode().splitlines()[1:]:
        words = line.split()
        port = int(words[2].rpartition(":")[2], 16)
        found += port == service.port and words[3] == "01" and words[9] in own
    return found


def test_watchers_of_two_gateways_are_told_the_same_as_the_service_tells(
    make_gateway: MakeGateway, redis_server: RedisServer, service: RealService
) -> None:
    gateways = [make_gateway("--redis", redis_server.url) for _ in range(2)]
    for gateway in gateways:
        gateway.until(events="shared")
    direct = Watcher(service.url)
    watchers = [Watcher(gateway.url) for gateway in gateways for _ in range(3)]
    jobs = [gateways[number % 2].submit() for number in range(10)]
    for watcher in (direct, *watchers):
        watcher.until_started(jobs)
    for watcher in watchers:
        assert watcher.events == direct.events
        watcher.close()
    direct.close()


def test_any_number_of_watchers_costs_the_service_one_subscription(
    make_gateway: MakeGateway, redis_server: RedisServer, service: RealService
) -> None:
    gateways = [make_gateway("--redis", redis_server.url) for _ in range(2)]
    for gateway in gateways:
        gateway.until(events="shared")
    watchers = [Watcher(gateway.url) for gateway in gateways for _ in range(5)]
    gateways[0].until(watchers=5)

    # Connections of calls that are over are kept for three seconds.
    def one_is_left() -> bool:
        return sum(connections_to(service, gateway) for gateway in gateways) == 1

    eventually(one_is_left, "one connection to the service", seconds=10, pause=0.2)
    assert sorted(gateway.health()["leads"] for gateway in gateways) == [False, True]
    for watcher in watchers:
        watcher.close()


def test_a_watcher_resumes_at_another_gateway_without_gap_or_repeat(
    make_gateway: MakeGateway, redis_server: RedisServer, service: RealService
) -> None:
    one, two = (make_gateway("--redis", redis_server.url) for _ in range(2))
    for gateway in (one, two):
        gateway.until(events="shared")
    whole = Watcher(service.url)
    first = Watcher(one.url)
    one.submit()
    eventually(lambda: len(first.events) == 3, "three events")
    first.close()
    jobs = [two.submit() for _ in range(5)]
    second = Watcher(two.url, f"?readings=0&after={first.seqs[-1]}")
    jobs.append(one.submit())
    eventually(lambda: second.of_jobs("job_started") == jobs, "the jobs of between and after")
    eventually(lambda: whole.of_jobs("job_started")[-6:] == jobs, "the same from the service")
    assert first.events + second.events == whole.events
    for watcher in (whole, second):
        watcher.close()


def test_what_is_older_than_the_stream_comes_from_the_service(
    make_gateway: MakeGateway, redis_server: RedisServer, service: RealService
) -> None:
    before = service.http.post("/api/v1/jobs", json={"gpu_count": 1}).json()["job_id"]
    gateway = make_gateway("--redis", redis_server.url)
    gateway.until(events="shared")
    after = gateway.submit()
    watcher = Watcher(gateway.url, "?readings=0&after=0")
    eventually(lambda: watcher.of_jobs("job_started")[-1:] == [after], "the newest job")
    assert before in watcher.of_jobs("job_started")
    assert watcher.seqs == sorted(set(watcher.seqs))
    watcher.close()


def test_who_is_told_of_a_change_is_not_shown_what_was_before(
    make_gateway: MakeGateway, redis_server: RedisServer, service: RealService
) -> None:
    gateway = make_gateway("--redis", redis_server.url, "--cache-seconds", "60")
    gateway.until(events="shared")
    watcher = Watcher(gateway.url)
    jobs: list[str] = []
    for _ in range(10):
        gateway.get("/jobs?limit=1")
        answer = service.http.post("/api/v1/jobs", json={"gpu_count": 1})
        job_id = answer.json()["job_id"]
        jobs.append(job_id)
        watcher.until_started(jobs)
        newest = gateway.get("/jobs?limit=1").json()["jobs"][0]
        assert (newest["job_id"], newest["state"]) == (job_id, "running")
    watcher.close()


def test_another_gateway_takes_over_when_the_leader_is_killed(
    make_gateway: MakeGateway, redis_server: RedisServer, service: RealService
) -> None:
    gateways = [make_gateway("--redis", redis_server.url) for _ in range(2)]
    for gateway in gateways:
        gateway.until(events="shared")
    leader, other = sorted(gateways, key=lambda each: not each.health()["leads"])
    watcher, whole = Watcher(other.url), Watcher(service.url)
    leader.kill()
    jobs = [other.submit() for _ in range(3)]
    eventually(lambda: watcher.of_jobs("job_started") == jobs, "the jobs' starts")
    eventually(lambda: whole.of_jobs("job_started") == jobs, "the same from the service")
    assert watcher.events == whole.events
    assert other.health()["leads"]
    for each in (watcher, whole):
        each.close()


async def test_websockets_are_served_from_the_same_events(
    make_gateway: MakeGateway, redis_server: RedisServer
) -> None:
    gateway = make_gateway("--redis", redis_server.url)
    gateway.until(events="shared")
    url = f"ws://127.0.0.1:{gateway.port}/api/v1/events"
    async with websockets.connect(url, proxy=None) as stream, asyncio.timeout(20):
        job_id = await asyncio.to_thread(gateway.submit)
        kinds: list[str] = []
        while "job_started" not in kinds or "gpu_reading" not in kinds:
            event = json.loads(await stream.recv())
            kinds.append(event["kind"])
            assert event["kind"] == "gpu_reading" or event["job_id"] == job_id
        assert gateway.health()["watchers"] == 1


async def test_a_filtered_websocket_is_passed_through(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    job_id = await asyncio.to_thread(gateway.submit)
    url = f"ws://127.0.0.1:{gateway.port}/api/v1/events?job_id={job_id}&after=0"
    async with websockets.connect(url, proxy=None) as stream, asyncio.timeout(20):
        told = [json.loads(await stream.recv()) for _ in range(3)]
    assert [event["kind"] for event in told] == ["job_submitted", "job_scheduled", "job_started"]
    assert {event["job_id"] for event in told} == {job_id}


def test_watchers_outlive_a_restart_of_the_service(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    settings = SETTINGS | {"database": {"kind": "sqlite"}}
    with RealService(tmp_path, gpus="sim:8xA100", settings=settings) as service:
        service.start()
        gateway = RealGateway(tmp_path, service.url, "--redis", redis_server.url)
        try:
            gateway.until(events="shared")
            watcher = Watcher(gateway.url)
            first = gateway.submit()
            eventually(lambda: watcher.of_jobs("job_started") == [first], "the first job")
            service.kill()
            eventually(lambda: gateway.get("/jobs").status_code == 503, "the outage to be seen")
            service.start()
            second = gateway.submit()
            eventually(lambda: watcher.of_jobs("job_started") == [first, second], "the second job")
            assert watcher.seqs == sorted(set(watcher.seqs))
            assert not watcher.ended
            watcher.close()
        finally:
            gateway.stop()


def test_a_service_that_begins_anew_does_not_leave_watchers_waiting(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with RealService(tmp_path, gpus="sim:8xA100", settings=SETTINGS) as service:
        service.start()
        gateway = RealGateway(tmp_path, service.url, "--redis", redis_server.url)
        try:
            gateway.until(events="shared")
            for _ in range(3):
                gateway.submit()
            watcher = Watcher(gateway.url)
            service.restart()  # its store is in memory: the numbers begin at the beginning
            eventually(lambda: watcher.ended, "the watcher to be sent away")
            gateway.until(events="shared")
            again = Watcher(gateway.url)
            job_id = gateway.submit()
            eventually(lambda: job_id in again.of_jobs("job_started"), "the new job")
            again.close()
        finally:
            gateway.stop()


def test_a_gateway_that_ends_ends_its_streams(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    gateway.until(events="shared")
    watcher = Watcher(gateway.url)
    gateway.process.terminate()
    assert gateway.process.wait(8) == 0
    eventually(lambda: watcher.ended, "the stream to end")
    assert watcher.status == 200
