"""Whoever calls from inside a job is that job, also where jobs run as the owner of the service."""

import contextlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_service import RealService, eventually, kill_and_wait

# In a job: calls, and writes the answers as lines of JSON.
CALL = """
import http.client, json, os, socket, sys
sock_path, port, out, calls = json.loads(os.environ.get("PLAN") or sys.argv[1])
class Over(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sock_path)
answers = []
for over, method, path, body, *extra in calls:
    make = Over("localhost") if over == "unix" else http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Content-Type": "application/json", **(extra[0] if extra else {})}
    make.request(method, path, json.dumps(body), headers)
    answer = make.getresponse()
    answers.append([answer.status, json.loads(answer.read())])
with open(out + ".new", "w") as file:
    json.dump(answers, file)
os.rename(out + ".new", out)
"""
# The rest is done by a daemon, while the job's first process sleeps.
DAEMON = """
import os, time
if (child := os.fork()):
    os.waitpid(child, 0)
    time.sleep(300)
os.setsid()
if os.fork(): os._exit(0)
"""
WHO = ("GET", "/api/v1/whoami", None)
MAKE_KEY = ("POST", "/api/v1/keys", {"name": "mine", "role": "admin"})


@pytest.fixture(scope="module")
def service() -> Iterator[RealService]:
    with tempfile.TemporaryDirectory(prefix="tgpu-callers-") as folder:
        settings: dict[str, dict[str, object]] = {"api": {"socket": f"{folder}/tgpu.sock"}}
        tenants = [{"tenant_id": "default"}, {"tenant_id": "red"}]
        with RealService(Path(folder) / "service", settings=settings, tenants=tenants) as service:
            service.start()
            yield service


def sock_of(service: RealService) -> str:
    return str(service.data_dir.parent.parent / "tgpu.sock")


class InJob:
    """A job of tenant red that makes calls."""

    def __init__(self, service: RealService, script: str, *calls: Any, env: bool = True) -> None:
        self.service = service
        self.out = service.work / f"out-{os.urandom(4).hex()}"
        plan = json.dumps([sock_of(service), service.port, str(self.out), list(calls)])
        words = [sys.executable, "-c", script, plan]
        if not env:
            words = ["env", "-i", *words]
        body = {"command": words, "tenant_id": "red", "user": "ada"}
        answer = service.http.post("/api/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        self.job_id = answer.json()["job_id"]

    def answers(self) -> list[tuple[int, Any]]:
        eventually(self.out.exists, "the job's answers")
        return [(status, answer) for status, answer in json.loads(self.out.read_text())]


@pytest.mark.parametrize("over", ["unix", "tcp"])
@pytest.mark.parametrize("env", [True, False], ids=["marked", "no environment"])
def test_a_job_of_the_owner_is_no_admin(service: RealService, over: str, env: bool) -> None:
    victim = service.http.post("/api/v1/jobs", json={"hold": True}).json()["job_id"]
    calls = [
        (over, *WHO),
        (over, *MAKE_KEY),
        (over, "GET", f"/api/v1/jobs/{victim}", None),
        (over, "POST", "/api/v1/jobs", {"tenant_id": "default", "gpu_count": 1}),
        (over, "GET", "/api/v1/audit", None),
    ]
    job = InJob(service, CALL, *calls, env=env)
    (_, who), *others = job.answers()
    assert (who["kind"], who["role"], who["tenants"]) == ("job", "user", ["red"])
    assert who["name"] == "ada"
    assert [status for status, _ in others] == [403, 404, 422, 403]


@pytest.mark.parametrize("over", ["unix", "tcp"])
def test_a_job_that_plays_a_gateway_is_that_job(service: RealService, over: str) -> None:
    """It names a connection of the owner's as the one that the request came over."""
    with socket.create_connection(("127.0.0.1", service.port)) as owners:
        claim = {"X-Tgpu-Caller": str(os.fstat(owners.fileno()).st_ino)}
        calls = [(over, *WHO, claim), (over, *MAKE_KEY, claim)]
        (_, who), (status, _) = InJob(service, CALL, *calls).answers()
    assert (who["kind"], who["role"], status) == ("job", "user", 403)


def test_jobs_submit_jobs_in_their_tenant_for_their_owner(service: RealService) -> None:
    new = {"command": ["true"], "tenant_id": "red"}
    job = InJob(service, CALL, ("unix", "POST", "/api/v1/jobs", new))
    ((status, answer),) = job.answers()
    assert status == 201, answer
    made = service.http.get(f"/api/v1/jobs/{answer['job_id']}").json()
    assert (made["tenant_id"], made["user"]) == ("red", "ada")
    entries = service.http.get("/api/v1/audit?limit=50").json()["entries"]
    assert f"job:{job.job_id}" in [entry["actor"] for entry in entries]


def test_a_daemon_of_a_job_is_that_job(service: RealService) -> None:
    job = InJob(service, DAEMON + CALL, ("unix", *WHO), ("tcp", *WHO), env=False)
    assert [(who["kind"], who["tenants"]) for _, who in job.answers()] == [("job", ["red"])] * 2


def test_what_outlives_supervisor_and_runner_is_still_that_job(service: RealService) -> None:
    gate = service.work / f"gate-{os.urandom(4).hex()}"
    wait = f"while not os.path.exists({str(gate)!r}): time.sleep(0.05)\n"
    job = InJob(service, DAEMON + wait + CALL, ("unix", *WHO), ("unix", *MAKE_KEY), ("tcp", *WHO))
    main = eventually(lambda: service.http.get(f"/api/v1/jobs/{job.job_id}").json()["pid"], "it")

    def orphan() -> int | None:
        found = [pid for pid in service.processes_of(job.job_id) if parent_of(pid) != main]
        return next((pid for pid in found if pid != main), None)

    pid = eventually(orphan, "its daemon")
    runners = [runner for runner in service.runners() if runner == parent_of(pid)]
    assert runners
    kill_and_wait(service.supervisor())
    for runner in runners:
        kill_and_wait(runner)
    gate.touch()
    (_, who), (made, _), (_, again) = job.answers()
    assert (who["kind"], again["kind"], made) == ("job", "job", 403)


def test_a_caller_that_is_gone_when_it_is_answered_has_no_rights(service: RealService) -> None:
    """Handed on by a process that ended: nobody can say whose it was."""
    sock = socket.socket(socket.AF_UNIX)
    pid = os.fork()
    if pid == 0:
        sock.connect(sock_of(service))
        os._exit(0)
    os.waitpid(pid, 0)
    sock.sendall(b"GET /api/v1/keys HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    received = b""
    with sock:
        while piece := sock.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 403 "), received
    assert b"the process that made this connection is not known" in received


def test_the_owner_is_admin_as_ever(service: RealService) -> None:
    assert service.http.get("/api/v1/whoami").json()["role"] == "admin"
    transport = httpx.HTTPTransport(uds=sock_of(service))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        assert client.get("/api/v1/whoami").json()["role"] == "admin"


def test_the_mark_of_another_service_is_none_of_ours(service: RealService) -> None:
    """A job of somebody's own scheduler, which calls this one."""
    variables = {"TGPU_JOB_ID": "1", "TGPU_ATTEMPT": "1", "TGPU_LOG_DIR": "/elsewhere/jobs/1/1"}
    script = f"import os, sys\nos.environ.update({variables})\nos.execv(sys.argv[1], sys.argv[1:])"
    out = service.work / "out-mark"
    plan = json.dumps([sock_of(service), service.port, str(out), [("unix", *WHO)]])
    pid = os.spawnv(
        os.P_NOWAIT,
        sys.executable,
        [sys.executable, "-c", script, sys.executable, "-c", CALL, plan],
    )
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    ((_, who),) = json.loads(out.read_text())
    assert who["role"] == "admin"


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
