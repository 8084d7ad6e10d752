"""Redis dies and comes back: everything goes on, and the gateways find it again by themselves."""

import threading

import httpx

from tests.integration.gateway.conftest import MakeGateway
from tests.integration.gateway.gateways import RealGateway, Watcher
from tests.real_service import RealService, eventually
from tests.servers.redis import RedisServer


def write_then_read(one: RealGateway, two: RealGateway) -> str:
    """A job made through one gateway is there at the other; its id."""
    job_id = one.submit()
    assert two.get("/jobs?limit=1").json()["jobs"][0]["job_id"] == job_id
    return job_id


def test_calls_go_on_while_redis_is_away_and_the_cache_comes_back(
    make_gateway: MakeGateway, redis_server: RedisServer
) -> None:
    one, two = (make_gateway("--redis", redis_server.url) for _ in range(2))
    for gateway in (one, two):
        gateway.until(events="shared")
    write_then_read(one, two)
    redis_server.kill()
    for _ in range(10):
        write_then_read(one, two)
        write_then_read(two, one)
    assert one.health()["redis"] == "away"
    redis_server.start()

    def is_back() -> bool:
        one.get("/tenants")
        return [gateway.health()["redis"] for gateway in (one, two)] == ["up", "up"]

    eventually(is_back, "both gateways to find Redis again")
    eventually(lambda: one.get("/tenants").headers["x-cache"] == "hit", "a hit")
    for _ in range(5):
        write_then_read(one, two)
    assert one.log_text().count("redis is down") == 1
    assert one.log_text().count("redis is back") == 1


def test_no_call_fails_while_redis_is_killed_and_started(
    make_gateway: MakeGateway, redis_server: RedisServer
) -> None:
    gateway = make_gateway("--redis", redis_server.url, "--rate", "100000")
    statuses: list[int] = []
    over = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=gateway.url, timeout=30, trust_env=False) as http:
            while not over.is_set():
                statuses.append(http.get("/api/v1/jobs?limit=1").status_code)
                statuses.append(http.get("/api/v1/jobs/scheduler/info").status_code)

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    for _ in range(2):
        redis_server.kill()
        gateway.until(redis="away")
        redis_server.start()
        gateway.until(redis="up")
    over.set()
    for thread in asking:
        thread.join()
    assert set(statuses) == {200}
    assert len(statuses) > 50


def test_watchers_miss_nothing_and_see_nothing_twice_across_an_outage(
    make_gateway: MakeGateway, redis_server: RedisServer, service: RealService
) -> None:
    gateways = [make_gateway("--redis", redis_server.url) for _ in range(2)]
    for gateway in gateways:
        gateway.until(events="shared")
    whole = Watcher(service.url)
    watchers = [Watcher(gateway.url) for gateway in gateways]
    jobs = [gateways[0].submit()]
    redis_server.kill()
    jobs += [gateways[number % 2].submit() for number in range(6)]
    for watcher in watchers:
        watcher.until_started(jobs)
    redis_server.start()
    for gateway in gateways:
        gateway.until(redis="up")
    jobs += [gateways[number % 2].submit() for number in range(6)]
    whole.until_started(jobs)
    for watcher in watchers:
        watcher.until_started(jobs)
        assert watcher.events == whole.events
        assert not watcher.ended
        watcher.close()
    whole.close()
    eventually(lambda: sum(g.health()["leads"] for g in gateways) == 1, "one of them to lead")


def test_a_gateway_starts_without_its_redis(
    make_gateway: MakeGateway, redis_server: RedisServer
) -> None:
    redis_server.kill()
    gateway = make_gateway("--redis", redis_server.url)
    job_id = gateway.submit()
    assert gateway.get(f"/jobs/{job_id}").status_code == 200
    gateway.until(events="shared", redis="away")
    redis_server.start()
    gateway.until(redis="up", leads=True)
