"""The real service on TCP: who calls over loopback is whose process is at the other end."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.other_users import AS_ROOT, GAMES, NOBODY, call_as, grpc_call_as, running_as
from tests.real_service import RealService, clean_environ, free_port
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire import scheduler_pb2_grpc as rpc

Facts = tuple[int, Any]


class Ports(RealService):
    """Over TCP with all its ports; `runs_as` is the user that it is run by."""

    def __init__(
        self, place: Path, *, auth: dict[str, object] | None = None, runs_as: int = 0
    ) -> None:
        self.grpc_port, self.metrics_port = free_port(), free_port()
        self._runs_as = runs_as
        place.chmod(0o777)
        ports = {"grpc_port": self.grpc_port, "metrics_port": self.metrics_port}
        super().__init__(place / "service", settings={"api": ports, "auth": auth or {}})
        for made in (self.work.parent, self.work):
            os.chown(made, runs_as, -1)

    def command(self) -> list[str]:
        command = super().command()
        return [*running_as(self._runs_as), *command] if self._runs_as else command

    def as_user(self, uid: int, method: str, path: str, body: Any = None, **headers: str) -> Facts:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return call_as(uid, ("127.0.0.1", self.port), method, path, body, names)

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users can pass through, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="tgpu-tcp-"))
    yield directory
    shutil.rmtree(directory)


JOB = {"command": ["sh", "-c", "id -u"], "working_dir": "/"}


@AS_ROOT
def test_as_root_without_keys_everybody_is_served_as_who_they_are(place: Path) -> None:
    with Ports(place) as service:
        service.start()
        assert service.get("/whoami")["role"] == "admin"
        status, who = service.as_user(NOBODY.pw_uid, "GET", "/api/v1/whoami")
        assert status == 200
        known = {"name": "nobody", "kind": "uid", "role": "user", "tenants": ["default"]}
        assert who.items() >= known.items()
        status, job = service.as_user(NOBODY.pw_uid, "POST", "/api/v1/jobs", JOB)
        assert status == 201, job
        assert service.end(job["job_id"])["exit_code"] == 0
        log = service.http.get(f"/api/v1/jobs/{job['job_id']}/logs?stream=stdout").text
        assert log == f"{NOBODY.pw_uid}\n"
        assert service.as_user(NOBODY.pw_uid, "GET", "/api/v1/audit")[0] == 403
        metrics = ("127.0.0.1", service.metrics_port)
        assert call_as(NOBODY.pw_uid, metrics, "GET", "/metrics")[0] == 403
        assert call_as(0, metrics, "GET", "/metrics")[0] == 200

        code, status = grpc_call_as(NOBODY.pw_uid, service.grpc_address, "GetMetrics", {})
        assert code == "PERMISSION_DENIED", status
        body = {"job_id": "over-grpc", "command": ["id", "-u"], "working_dir": "/"}
        code, _ = grpc_call_as(NOBODY.pw_uid, service.grpc_address, "SubmitJob", body)
        assert code == "OK"
        service.end("over-grpc")
        log = service.http.get("/api/v1/jobs/over-grpc/logs?stream=stdout").text
        assert log == f"{NOBODY.pw_uid}\n"
        assert grpc_call_as(0, service.grpc_address, "GetMetrics", {})[0] == "OK"
        _no_header_makes_a_caller_somebody_else(service)


def _no_header_makes_a_caller_somebody_else(service: Ports) -> None:
    for headers in ({"X_Forwarded_For": "unix"}, {"Forwarded": "for=127.0.0.1;user=root"}):
        status, answer = service.as_user(NOBODY.pw_uid, "GET", "/api/v1/whoami", **headers)
        assert status == 403, answer
        assert "a proxy forwarded this request" in answer["error"]["message"]
        # Not even the owner: what a proxy passes on need not be its owner's.
        assert service.as_user(0, "GET", "/api/v1/whoami", **headers)[0] == 403
    told = {"tgpu_origin": "root", "Remote_User": "root"}
    assert service.as_user(NOBODY.pw_uid, "GET", "/api/v1/whoami", **told)[1]["role"] == "user"


@AS_ROOT
def test_an_ordinary_users_service_serves_that_user_and_root_alone(place: Path) -> None:
    with Ports(place, runs_as=GAMES.pw_uid) as service:
        service.start()
        assert service.as_user(GAMES.pw_uid, "GET", "/api/v1/whoami")[1]["role"] == "admin"
        assert service.as_user(0, "GET", "/api/v1/whoami")[1]["role"] == "admin"
        assert service.as_user(GAMES.pw_uid, "POST", "/api/v1/jobs", JOB)[0] == 201
        for method, path, body in (
            ("POST", "/api/v1/jobs", JOB),
            ("POST", "/jobs", {"job_id": "j", "tenant_id": "default", "gpu_count": 1}),
            ("GET", "/api/v1/whoami", None),
            ("GET", "/metrics", None),
        ):
            status, answer = service.as_user(NOBODY.pw_uid, method, path, body)
            assert status == 403, answer
            assert "games's and cannot run jobs as nobody" in answer["error"]["message"]
        assert service.as_user(NOBODY.pw_uid, "GET", "/healthz")[0] == 200
        metrics = ("127.0.0.1", service.metrics_port)
        assert call_as(NOBODY.pw_uid, metrics, "GET", "/metrics")[0] == 403
        code, details = grpc_call_as(NOBODY.pw_uid, service.grpc_address, "ListJobs", {})
        assert (code, "cannot run jobs as nobody" in details) == ("PERMISSION_DENIED", True)
        assert grpc_call_as(GAMES.pw_uid, service.grpc_address, "ListJobs", {})[0] == "OK"


@AS_ROOT
def test_with_keys_local_users_need_none_over_loopback_either(place: Path) -> None:
    with Ports(place, auth={"enabled": True}) as service:
        service.start()
        who = service.as_user(0, "GET", "/api/v1/whoami")[1]
        assert (who["kind"], who["role"]) == ("uid", "admin")
        who = service.as_user(NOBODY.pw_uid, "GET", "/api/v1/whoami")[1]
        assert (who["name"], who["role"]) == ("nobody", "user")
        # A web page that nobody's browser shows, too, comes over nobody's connection.
        page = {"Origin": "https://evil.example"}
        assert service.as_user(NOBODY.pw_uid, "GET", "/api/v1/whoami", **page)[0] == 403
        with grpc.insecure_channel(service.grpc_address) as channel:
            rpc.SchedulerServiceStub(channel).GetMetrics(pb.GetMetricsRequest())


@AS_ROOT
def test_with_keys_and_without_local_users_tcp_takes_a_key(place: Path) -> None:
    with Ports(place, auth={"enabled": True, "local_users": False}) as service:
        service.start()
        for uid in (0, NOBODY.pw_uid):
            assert service.as_user(uid, "GET", "/api/v1/whoami")[0] == 401
            code, _ = grpc_call_as(uid, service.grpc_address, "ListJobs", {})
            assert code == "UNAUTHENTICATED"


@AS_ROOT
def test_as_root_without_a_word_about_callers_it_does_not_start(place: Path) -> None:
    with Ports(place, auth={"local_users": False}) as service:
        done = subprocess.run(
            service.command(), capture_output=True, text=True, env=clean_environ(), check=False
        )
    assert done.returncode != 0
    assert "runs as root and listens on TCP" in done.stderr
    assert "Traceback" not in done.stderr
