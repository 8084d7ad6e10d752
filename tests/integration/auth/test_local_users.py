"""The real service behind its Unix socket: the kernel says who calls, and as whom jobs run."""

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_service import START_SECONDS, RealService, eventually

AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can be several users; run the tests as root"
)
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users can pass through, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="tgpu-auth-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def service(place: Path) -> Iterator[RealService]:
    settings: dict[str, dict[str, object]] = {
        "auth": {"enabled": True},
        "api": {"socket": str(place / "tgpu.sock")},
    }
    with RealService(place / "service", gpus="sim:4xA100", settings=settings) as service:
        service.start()
        yield service


def over_socket(place: Path) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(place / "tgpu.sock"))
    return httpx.Client(transport=transport, base_url="http://localhost", timeout=30)


CALL = """
import json, os, sys, httpx
uid, socket, method, path, body, headers = json.loads(sys.argv[1])
transport = httpx.HTTPTransport(uds=socket)
with httpx.Client(transport=transport, base_url="http://localhost", timeout=30) as client:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
    answer = client.request(method, path, json=body, headers=headers)
    print(json.dumps([answer.status_code, answer.json()]))
"""


def as_nobody(
    place: Path, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """A call by another process, of the user nobody."""
    arguments = [NOBODY.pw_uid, str(place / "tgpu.sock"), method, path, body, headers or {}]
    done = subprocess.run(
        [sys.executable, "-c", CALL, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    status, answer = json.loads(done.stdout)
    return status, answer


def test_the_owner_of_the_service_is_admin_over_its_socket_and_needs_no_key(
    place: Path, service: RealService
) -> None:
    with over_socket(place) as client:
        who = client.get("/api/v1/whoami").json()
        assert (who["kind"], who["role"], who["tenants"]) == ("uid", "admin", None)
        made = client.post("/api/v1/keys", json={"name": "first", "role": "admin"}).json()
    bearer = {"Authorization": f"Bearer {made['key']}"}
    assert service.http.get("/api/v1/whoami", headers=bearer).json()["name"] == "first"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "unix"},
        {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "unix"},
        {"Via": "1.1 proxy", "Remote-User": "root"},
    ],
)
def test_nobody_becomes_a_local_user_by_a_proxy(
    service: RealService, headers: dict[str, str]
) -> None:
    answer = service.http.get("/api/v1/whoami", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHENTICATED")


def test_the_command_line_makes_and_revokes_keys(service: RealService) -> None:
    def tgpu(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {n: v for n, v in os.environ.items() if not n.startswith(("TGPU_", "GPU_"))}
        environ |= {"TGPU_DATA_DIR": str(service.data_dir)} | variables
        return subprocess.run(
            [sys.executable, "-m", "tgpu", *words],
            capture_output=True,
            text=True,
            env=environ,
            check=False,
        )

    made = tgpu("keys", "create", "ci", "--tenant", "default", "--expires", "90d", "--json")
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)
    assert key["state"] == "active"
    remote = {"TGPU_URL": service.url, "TGPU_API_KEY": key["key"]}
    assert tgpu("whoami", **remote).stdout == (
        "ci: user of default\nknown by: the API key\nyour tenant: default\n"
    )
    assert "ci" in tgpu("keys", "list").stdout
    refused = tgpu("keys", "list", **remote)
    assert refused.returncode != 0
    assert "may not manage API keys" in refused.stderr
    assert tgpu("keys", "revoke", key["id"]).returncode == 0
    assert tgpu("whoami", **remote).returncode != 0
    assert "DELETE /api/v1/keys/" in tgpu("audit").stdout


@AS_ROOT
def test_another_user_is_a_user_of_the_default_tenant(place: Path, service: RealService) -> None:
    status, who = as_nobody(place, "GET", "/api/v1/whoami")
    assert status == 200
    known = {"name": "nobody", "kind": "uid", "role": "user", "tenants": ["default"]}
    assert who == {**known, "tenant": "default", "how": "every user of this machine", "problem": ""}
    assert as_nobody(place, "GET", "/api/v1/keys")[0] == 403


@AS_ROOT
def test_a_tenant_named_like_a_user_is_that_users(place: Path, service: RealService) -> None:
    with over_socket(place) as client:
        made = client.post("/api/v1/tenants", json={"id": "nobody", "name": "nobody"})
        assert made.status_code == 201, made.text
    assert as_nobody(place, "GET", "/api/v1/whoami")[1]["tenants"] == ["nobody"]


def job_of_nobody(place: Path, script: str, **fields: Any) -> str:
    body = {"command": ["sh", "-c", script], "working_dir": "/", **fields}
    status, answer = as_nobody(place, "POST", "/api/v1/jobs", body)
    assert status == 201, answer
    return str(answer["job_id"])


def ended(place: Path, job_id: str) -> dict[str, Any]:
    with over_socket(place) as client:

        def over() -> dict[str, Any] | None:
            job: dict[str, Any] = client.get(f"/api/v1/jobs/{job_id}").json()
            return job if job["state"] in ("completed", "failed", "cancelled") else None

        return eventually(over, f"job {job_id} to end")


def log_of(place: Path, job_id: str, stream: str = "stdout") -> str:
    with over_socket(place) as client:
        return client.get(f"/api/v1/jobs/{job_id}/logs?stream={stream}").text


@AS_ROOT
def test_a_users_job_runs_as_that_user_with_their_groups_and_home(
    place: Path, service: RealService
) -> None:
    job_id = job_of_nobody(place, 'id -u; id -g; id -G; echo "$HOME $USER"; umask')
    assert ended(place, job_id)["exit_code"] == 0
    uid, gid, groups, names, _ = log_of(place, job_id).splitlines()
    expected = os.getgrouplist("nobody", NOBODY.pw_gid)
    assert (int(uid), int(gid)) == (NOBODY.pw_uid, NOBODY.pw_gid)
    assert sorted(map(int, groups.split())) == sorted(expected)
    assert names == f"{NOBODY.pw_dir} nobody"
    logs = service.data_dir / "engine" / "jobs" / job_id / "1"
    assert (logs / "stdout.log").stat().st_uid == NOBODY.pw_uid
    assert logs.stat().st_uid == 0  # no link can be put in the place of a log


@AS_ROOT
def test_every_worker_of_a_users_gang_runs_as_that_user(place: Path, service: RealService) -> None:
    job_id = job_of_nobody(place, "echo $RANK $(id -u)", workers=2)
    assert ended(place, job_id)["exit_code"] == 0, log_of(place, job_id, "stderr")
    lines = sorted(log_of(place, job_id).splitlines())
    assert lines == [f"0 {NOBODY.pw_uid}", f"1 {NOBODY.pw_uid}"]


@AS_ROOT
def test_a_uid_in_the_request_is_nobodys_business(place: Path, service: RealService) -> None:
    body = {"command": ["id", "-u"], "working_dir": "/", "uid": 0}
    assert as_nobody(place, "POST", "/api/v1/jobs", body)[0] == 422
    job_id = job_of_nobody(place, "id -u", environment={"UID": "0"}, user="root")
    assert ended(place, job_id)["user"] == "nobody"
    assert log_of(place, job_id) == f"{NOBODY.pw_uid}\n"


@AS_ROOT
@pytest.mark.parametrize(
    ("fields", "cause", "code"),
    [
        ({"working_dir": "private"}, "cannot work in the directory", None),
        ({"working_dir": "missing"}, "no such directory", None),
        ({"command": ["private/tool"]}, None, 126),
        ({"command": ["no-such-tool"]}, None, 127),
    ],
)
def test_what_a_user_may_not_open_their_job_does_not_open_for_them(
    place: Path, service: RealService, fields: dict[str, Any], cause: str | None, code: int | None
) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    tool = private / "tool"
    tool.write_text("#!/bin/sh\nid -u\n")
    tool.chmod(0o755)
    if "working_dir" in fields:
        fields = {"working_dir": str(place / fields["working_dir"])}
    elif "/" in fields["command"][0]:
        fields = {"command": [str(place / fields["command"][0])]}
    body = {"command": ["true"], "working_dir": "/", **fields}
    status, answer = as_nobody(place, "POST", "/api/v1/jobs", body)
    assert status == 201, answer
    job = ended(place, answer["job_id"])
    assert (job["state"], job["exit_code"]) == ("failed", code)
    if cause is not None:
        assert cause in job["cause"]


@AS_ROOT
def test_an_admin_who_runs_a_users_job_again_lends_it_no_powers(
    place: Path, service: RealService
) -> None:
    job_id = job_of_nobody(place, "id -u")
    ended(place, job_id)
    with over_socket(place) as client:
        again = client.post(f"/api/v1/jobs/{job_id}/rerun").json()["job_id"]
    ended(place, again)
    assert log_of(place, again) == f"{NOBODY.pw_uid}\n"


@AS_ROOT
def test_a_users_job_can_be_cancelled_and_leaves_nothing(place: Path, service: RealService) -> None:
    job_id = job_of_nobody(place, "trap '' TERM; sleep 300 & sleep 301")
    service_job = eventually(
        lambda: service.processes_of(job_id) if len(service.processes_of(job_id)) >= 3 else None,
        "its processes",
    )
    assert all(Path(f"/proc/{pid}").stat().st_uid == NOBODY.pw_uid for pid in service_job)
    assert as_nobody(place, "DELETE", f"/api/v1/jobs/{job_id}")[0] == 200
    assert ended(place, job_id)["state"] == "cancelled"
    assert service.processes_of(job_id) == []


@AS_ROOT
def test_only_root_opens_its_socket_to_everybody(place: Path, service: RealService) -> None:
    assert stat.S_IMODE((place / "tgpu.sock").stat().st_mode) == 0o666


def test_a_service_on_a_socket_alone_keeps_it_to_its_owner(place: Path) -> None:
    """As `tgpu submit` starts them, also for root."""
    path = place / "tgpu.sock"
    settings: dict[str, dict[str, object]] = {"api": {"socket": str(path), "http_port": 0}}
    with RealService(place / "service", settings=settings) as service:
        service.launch()
        eventually((service.data_dir / "service.json").exists, "the service", START_SECONDS)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with over_socket(place) as client:
            assert client.get("/api/v1/whoami").json()["role"] == "admin"
        if os.geteuid() == 0:
            path.chmod(0o666)  # as if somebody had opened it: the kernel still says who calls
            assert as_nobody(place, "GET", "/api/v1/whoami")[0] == 403


@AS_ROOT
def test_jobs_of_keys_run_as_the_user_that_is_set(place: Path) -> None:
    settings: dict[str, dict[str, object]] = {
        "auth": {"enabled": True},
        "api": {"socket": str(place / "tgpu.sock")},
        "engine": {"run_as": "nobody"},
    }
    with RealService(place / "service", settings=settings) as service:
        service.start()
        with over_socket(place) as client:
            body = {"name": "ci", "role": "user", "tenants": ["default"]}
            key = client.post("/api/v1/keys", json=body).json()["key"]
        job = {"command": ["id", "-u"], "working_dir": "/"}
        bearer = {"Authorization": f"Bearer {key}"}
        answer = service.http.post("/api/v1/jobs", json=job, headers=bearer)
        assert answer.status_code == 201, answer.text
        job_id = answer.json()["job_id"]
        ended(place, job_id)
        assert log_of(place, job_id) == f"{NOBODY.pw_uid}\n"


@AS_ROOT
def test_whoever_runs_anothers_job_again_inherits_neither_environment_nor_user(
    place: Path,
) -> None:
    settings: dict[str, dict[str, object]] = {
        "auth": {"enabled": True},
        "api": {"socket": str(place / "tgpu.sock")},
        "engine": {"run_as": "games"},
    }
    with RealService(place / "service", settings=settings) as service:
        service.start()
        base = {"PATH": "/usr/bin:/bin", "FROM_SHELL": "secret"}
        job_id = job_of_nobody(
            place,
            'id -un; echo "$OWN $FROM_SHELL"',
            environment={"OWN": "secret"},
            base_environment=base,
        )
        ended(place, job_id)
        assert log_of(place, job_id) == "nobody\nsecret secret\n"
        with over_socket(place) as client:
            body = {"name": "ci", "role": "admin", "tenants": ["default"]}
            key = client.post("/api/v1/keys", json=body).json()["key"]
            member = client.post("/api/v1/keys", json=body | {"role": "user"}).json()["key"]
            for_owner = client.post(f"/api/v1/jobs/{job_id}/rerun").json()["job_id"]
        refused, answer = (
            service.http.post(
                f"/api/v1/jobs/{job_id}/rerun", headers={"Authorization": f"Bearer {each}"}
            )
            for each in (member, key)
        )
        assert refused.status_code == 403, refused.text
        assert answer.status_code == 201, answer.text
        by_key = answer.json()["job_id"]
        by_owner = as_nobody(place, "POST", f"/api/v1/jobs/{job_id}/rerun")[1]["job_id"]
        for again, log, user in (
            (by_key, "games\n \n", "ci"),
            (for_owner, "nobody\nsecret secret\n", "nobody"),
            (by_owner, "nobody\nsecret secret\n", "nobody"),
        ):
            assert ended(place, again)["user"] == user
            assert log_of(place, again) == log
