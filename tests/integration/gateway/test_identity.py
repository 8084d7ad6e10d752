"""Callers of several tenants through one gateway: nobody sees what is another's."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest

from tests.integration.gateway.conftest import SETTINGS
from tests.integration.gateway.gateways import RealGateway, Watcher
from tests.other_users import AS_ROOT, NOBODY, call_as
from tests.real_service import RealService, clean_environ, eventually, free_port
from tests.servers.redis import RedisServer

SECRET = "a secret of the tests that is long enough"


def token(name: str, role: str, *tenants: str) -> str:
    claims = {"sub": name, "role": role, "exp": int(time.time()) + 3600}
    return jwt.encode(
        claims | ({"tenants": list(tenants)} if tenants else {}), SECRET, algorithm="HS256"
    )


def bearer(name: str, role: str, *tenants: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(name, role, *tenants)}"}


ANN = bearer("ann", "user", "red")
BOB = bearer("bob", "user", "blue")
ROOT = bearer("root", "admin")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    """A service that asks who calls."""
    directory = tmp_path_factory.mktemp("guarded")
    secret = directory / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    auth = {"enabled": True, "jwt_secret_file": str(secret)}
    with RealService(
        directory,
        gpus="sim:64xA100",
        settings=SETTINGS | {"auth": auth},
        tenants=[{"tenant_id": "red"}, {"tenant_id": "blue"}],
    ) as service:
        yield service.start()


@pytest.fixture
def gateway(
    guarded: RealService, redis_server: RedisServer, tmp_path: Path
) -> Iterator[RealGateway]:
    made = RealGateway(
        tmp_path,
        guarded.url,
        *("--redis", redis_server.url, "--cache-seconds", "30"),
        environ={"TGPU_API_KEY": token("gateway", "operator")},
    )
    made.until(events="shared")
    yield made
    made.stop()


def submit(gateway: RealGateway, caller: dict[str, str], tenant: str) -> str:
    answer = gateway.http.post(
        "/api/v1/jobs", json={"gpu_count": 1, "tenant_id": tenant}, headers=caller
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


def test_one_tenant_is_never_given_the_cached_answer_of_another(gateway: RealGateway) -> None:
    of_ann, of_bob = submit(gateway, ANN, "red"), submit(gateway, BOB, "blue")
    for _ in range(3):  # from the service, then from the cache
        for caller, own, others in ((ANN, of_ann, of_bob), (BOB, of_bob, of_ann)):
            shown = [job["job_id"] for job in gateway.get("/jobs", **caller).json()["jobs"]]
            assert own in shown
            assert others not in shown
            assert gateway.get(f"/jobs/{own}", **caller).status_code == 200
            assert gateway.get(f"/jobs/{others}", **caller).status_code == 404
    # The events of the jobs' starts may come in between, and make an answer useless.
    eventually(lambda: gateway.get("/jobs", **ANN).headers["x-cache"] == "hit", "a hit")


def test_who_shows_nothing_is_refused_even_what_is_cached(gateway: RealGateway) -> None:
    gateway.get("/jobs", **ROOT)
    assert gateway.get("/jobs", **ROOT).status_code == 200
    assert gateway.get("/jobs").status_code == 401
    assert gateway.get("/jobs", Authorization="Bearer wrong").status_code == 401


def test_a_revoked_key_opens_nothing_any_more(gateway: RealGateway) -> None:
    made = gateway.http.post(
        "/api/v1/keys", json={"name": "short-lived", "role": "admin"}, headers=ROOT
    ).json()
    key = {"Authorization": f"Bearer {made['key']}"}
    assert gateway.get("/jobs", **key).status_code == 200
    watcher = Watcher(gateway.url, **key)
    gateway.http.delete(f"/api/v1/keys/{made['id']}", headers=ROOT).raise_for_status()
    assert gateway.get("/jobs", **key).status_code == 401
    assert Watcher(gateway.url, **key).status == 401
    eventually(lambda: gateway.health()["watchers"] == 0, "the watcher to be let go")
    watcher.close()


def test_watchers_bound_to_a_tenant_see_that_tenant_alone(gateway: RealGateway) -> None:
    everything, of_ann = Watcher(gateway.url, **ROOT), Watcher(gateway.url, **ANN)
    other, own = submit(gateway, BOB, "blue"), submit(gateway, ANN, "red")
    eventually(lambda: everything.of_jobs("job_started") == [other, own], "both jobs")
    eventually(lambda: of_ann.of_jobs("job_started") == [own], "her own job")
    assert other not in {event["job_id"] for event in of_ann.events}
    assert gateway.health()["watchers"] == 1  # hers is passed through
    for watcher in (everything, of_ann):
        watcher.close()


def test_a_gateway_that_may_not_see_everything_passes_events_through(
    guarded: RealService, redis_server: RedisServer, tmp_path: Path
) -> None:
    gateway = RealGateway(tmp_path, guarded.url, "--redis", redis_server.url)
    try:
        watcher = Watcher(gateway.url, **ROOT)
        job_id = submit(gateway, ANN, "red")
        eventually(lambda: watcher.of_jobs("job_started") == [job_id], "the job")
        assert gateway.health()["events"] == "passed through"
        watcher.close()
    finally:
        gateway.stop()


def test_a_caller_is_limited_over_all_gateways_and_the_others_are_not(
    guarded: RealService, redis_server: RedisServer, tmp_path: Path
) -> None:
    config = tmp_path / "limits.yaml"
    config.write_text("limits: {requests_per_second: 0.1, burst: 10}\n")
    options = ("--redis", redis_server.url, "--config", str(config))
    gateways = [RealGateway(tmp_path, guarded.url, *options) for _ in range(2)]
    try:
        statuses = [gateways[n % 2].get("/jobs", **ANN).status_code for n in range(16)]
        # The first call through each gateway counts for the address: it knows nobody yet.
        assert statuses == [200] * 12 + [429] * 4
        refused = gateways[0].get("/jobs", **ANN)
        assert refused.json()["error"]["code"] == "RATE_LIMITED"
        assert 1 <= int(refused.headers["retry-after"]) <= 10
        assert gateways[0].get("/jobs", **BOB).status_code == 200
    finally:
        for gateway in gateways:
            gateway.stop()


def test_inventing_credentials_does_not_go_around_the_limit(
    guarded: RealService, redis_server: RedisServer, tmp_path: Path
) -> None:
    gateway = RealGateway(tmp_path, guarded.url, "--redis", redis_server.url, "--rate", "0.1")
    try:
        statuses = [
            gateway.get("/jobs", Authorization=f"Bearer invented-{n}").status_code
            for n in range(110)
        ]
        assert statuses == [401] * 100 + [429] * 10
    finally:
        gateway.stop()


def test_what_the_caller_claims_of_its_address_is_not_passed_on(
    guarded: RealService, gateway: RealGateway
) -> None:
    claim = ROOT | {"X-Forwarded-For": "198.51.100.7", "Forwarded": "for=198.51.100.7"}
    answer = gateway.http.post(
        "/api/v1/jobs", json={"gpu_count": 1, "tenant_id": "red"}, headers=claim
    )
    assert answer.status_code == 201
    audit = guarded.http.get("/api/v1/audit", headers=ROOT).json()["entries"]
    assert audit[0]["origin"] == "127.0.0.1"


def test_beyond_this_machine_it_serves_only_what_asks_who_calls(
    guarded: RealService, tmp_path: Path
) -> None:
    gateway = RealGateway(tmp_path, guarded.url, "--host", "0.0.0.0")
    try:
        assert gateway.get("/jobs").status_code == 401
    finally:
        gateway.stop()


@AS_ROOT
def test_without_keys_a_gateway_lends_its_rights_to_its_own_user_alone(
    service: RealService, tmp_path: Path
) -> None:
    gateway = RealGateway(tmp_path, service.url, "--cache-seconds", "30")
    try:
        address = ("127.0.0.1", gateway.port)
        # Also what is cached for the owner is the owner's.
        assert call_as(0, address, "GET", "/api/v1/jobs")[0] == 200
        assert call_as(0, address, "GET", "/api/v1/whoami")[1]["role"] == "admin"
        for path in ("/api/v1/jobs", "/api/v1/whoami", "/api/v1/events", "/api/v1/audit"):
            status, answer = call_as(NOBODY.pw_uid, address, "GET", path)
            assert status == 403, (path, answer)
        body = {"command": ["id"], "working_dir": "/"}
        assert call_as(NOBODY.pw_uid, address, "POST", "/api/v1/jobs", body)[0] == 403
        claims = {"X-Tgpu-Caller": "0"}
        assert call_as(NOBODY.pw_uid, address, "GET", "/api/v1/jobs", None, claims)[0] == 403
        assert call_as(0, address, "GET", "/api/v1/jobs", None, {"Via": "1.1 x"})[0] == 403
        assert call_as(NOBODY.pw_uid, address, "GET", "/healthz")[0] == 200
    finally:
        gateway.stop()


@AS_ROOT
def test_a_gateway_of_root_does_not_make_root_of_other_machines(
    service: RealService, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "tgpu", "gateway", "--upstream", service.url]
    options = ["--host", "0.0.0.0", "--port", str(free_port()), "--insecure-listen"]
    done = subprocess.run(
        [*words, *options], capture_output=True, text=True, env=clean_environ(), check=False
    )
    assert done.returncode != 0
    assert "would make all callers root" in done.stderr
