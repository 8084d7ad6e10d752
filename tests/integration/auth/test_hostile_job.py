"""A job of one tenant against the service, the machine and the jobs of another: it gets nowhere."""

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_service import RealService, eventually
from tgpu.engines.local.paths import RECORD

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can be several users; run the tests as root"
)
HOSTILE = Path(__file__).with_name("hostile.py")
NOBODY, GAMES = pwd.getpwnam("nobody"), pwd.getpwnam("games")
SECRET = "sesame-of-blue"


def a_python() -> str:
    """One that other users can run: the tests' own may lie in root's home."""
    found = [os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"]
    for python in filter(os.path.exists, found):
        with contextlib.suppress(OSError):
            done = subprocess.run([python, "-c", "import http.client"], user="nobody", check=False)
            if done.returncode == 0:
                return python
    raise AssertionError(f"no Python that the user nobody can run: {found}")


class Shared:
    """A service of root with two tenants, a key for each, and a job of the second that runs."""

    def __init__(self, place: Path, service: RealService) -> None:
        self.place = place
        self.service = service
        self.sock = str(place / "tgpu.sock")
        self.keys = {name: self._key(name) for name in ("red", "blue")}

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        transport = httpx.HTTPTransport(uds=self.sock)
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=30) as client:
            answer = client.request(method, path, json=body)
            assert answer.status_code < 400, answer.text
            return answer.json()

    def submit(self, tenant: str, *command: str, **fields: Any) -> str:
        body = {"command": list(command), "tenant_id": tenant, "working_dir": "/", **fields}
        answer = self.call(tenant, "POST", "/api/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    def call(self, tenant: str, method: str, path: str, **kwargs: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.keys[tenant]}"}
        return self.service.http.request(method, path, headers=headers, **kwargs)

    def ended(self, job_id: str) -> dict[str, Any]:
        def over() -> dict[str, Any] | None:
            job: dict[str, Any] = self.admin("GET", f"/api/v1/jobs/{job_id}")
            return job if job["state"] in ("completed", "failed", "cancelled") else None

        return eventually(over, f"job {job_id} to end")

    def log(self, tenant: str, job_id: str) -> str:
        return self.call(tenant, "GET", f"/api/v1/jobs/{job_id}/logs").text

    def _key(self, tenant: str) -> str:
        body = {"name": "ci", "role": "user", "tenants": [tenant]}
        return str(self.admin("POST", "/api/v1/keys", body)["key"])


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    place = Path(tempfile.mkdtemp(prefix="tgpu-hostile-"))
    place.chmod(0o755)
    settings: dict[str, dict[str, object]] = {
        "auth": {"enabled": True},
        "api": {"socket": str(place / "tgpu.sock")},
    }
    tenants = [
        {"tenant_id": "red", "run_as": NOBODY.pw_name},
        {"tenant_id": "blue", "run_as": GAMES.pw_name},
    ]
    environ = {"SERVICE_SECRET": "nobody-may-know"}
    try:
        with RealService(
            place / "service", settings=settings, tenants=tenants, environ=environ
        ) as service:
            service.start()
            yield Shared(place, service)
    finally:
        shutil.rmtree(place)


def attack(shared: Shared, **plan: Any) -> dict[str, str]:
    """What a job of tenant red gets of all it tries."""
    full = {"files": [], "folders": [], "sockets": [], "pids": [], "calls": [], "service": ""}
    job_id = shared.submit(
        "red", a_python(), "-c", HOSTILE.read_text(), json.dumps(full | plan), environment={}
    )
    job = shared.ended(job_id)
    assert job["exit_code"] == 0, shared.call(
        "red", "GET", f"/api/v1/jobs/{job_id}/logs?stream=stderr"
    ).text
    found: dict[str, str] = json.loads(shared.log("red", job_id))
    assert found.pop("uid") == str(NOBODY.pw_uid)
    return found


def gains(found: dict[str, str]) -> dict[str, str]:
    return {what: came for what, came in found.items() if came.startswith("got")}


def test_jobs_of_keys_run_as_the_user_of_their_tenant(shared: Shared) -> None:
    script = 'id -u; id -g; id -G; echo "$HOME $USER $LOGNAME"; umask; pwd; env'
    base = {"HOME": "/root", "USER": "ada", "XDG_RUNTIME_DIR": "/run/user/7", "PATH": "/bin"}
    job_id = shared.submit("blue", "sh", "-c", script, working_dir="", base_environment=base)
    assert shared.ended(job_id)["exit_code"] == 0
    uid, gid, groups, names, umask, cwd, *env = shared.log("blue", job_id).splitlines()
    assert (int(uid), int(gid)) == (GAMES.pw_uid, GAMES.pw_gid)
    assert set(map(int, groups.split())) == set(os.getgrouplist("games", GAMES.pw_gid))
    assert names == f"{GAMES.pw_dir} games games"
    assert umask == "0022"
    assert cwd == os.path.realpath(GAMES.pw_dir)
    assert not [line for line in env if "SECRET" in line or line.startswith("XDG_RUNTIME")]


def test_a_job_reads_nothing_that_the_service_keeps(shared: Shared) -> None:
    data = shared.service.data_dir
    victim = shared.submit("blue", "sh", "-c", f"echo {SECRET}")
    shared.ended(victim)
    assert shared.log("blue", victim) == f"{SECRET}\n"
    kept = [path for path in data.rglob("*") if path.is_file()]
    assert {path.name for path in kept} >= {"tgpu.db", "service.json", "stdout.log", RECORD}
    found = attack(
        shared,
        files=[str(path) for path in kept],
        folders=[str(path) for path in (data, *data.rglob("*")) if path.is_dir()],
        sockets=[str(path) for path in data.rglob("*") if path.is_socket()],
    )
    assert [what for what in found if "supervisor.sock" in what]
    assert gains(found) == {}


def test_what_the_service_keeps_is_for_its_owner_alone_also_in_an_open_directory(
    shared: Shared,
) -> None:
    """Somebody made the data directory beforehand, for everybody to see."""
    data = shared.service.data_dir
    data.chmod(0o755)
    try:
        files = [str(path) for path in data.rglob("*") if path.is_file()]
        folders = [str(path) for path in data.rglob("*") if path.is_dir()]
        sockets = [str(path) for path in data.rglob("*") if path.is_socket()]
        found = attack(shared, files=files, folders=folders, sockets=sockets)
    finally:
        data.chmod(0o700)
    assert gains(found) == {}


def test_a_job_reaches_no_process_but_its_own(shared: Shared) -> None:
    victim = shared.submit("blue", "sleep", "300", environment={"TOKEN": SECRET})
    eventually(lambda: shared.service.processes_of(victim), "the victim to run")
    ours = shared.service.processes()
    assert shared.service.pid in ours
    found = attack(shared, pids=sorted({*ours, *shared.service.processes_of(victim)}))
    assert gains(found) == {}
    assert shared.admin("GET", f"/api/v1/jobs/{victim}")["state"] == "running"
    shared.call("blue", "DELETE", f"/api/v1/jobs/{victim}")


def test_a_job_is_no_admin_and_no_other_tenant_over_the_socket(shared: Shared) -> None:
    victim = shared.submit("blue", "sh", "-c", f"echo {SECRET}; sleep 300")
    eventually(lambda: shared.service.processes_of(victim), "the victim to run")
    calls = [
        ("POST", "/api/v1/keys", {"name": "mine", "role": "admin"}),
        ("GET", "/api/v1/keys", None),
        ("GET", "/api/v1/audit", None),
        ("PATCH", "/api/v1/tenants/red", {"run_as": "daemon"}),
        ("GET", f"/api/v1/jobs/{victim}", None),
        ("GET", f"/api/v1/jobs/{victim}/logs", None),
        ("DELETE", f"/api/v1/jobs/{victim}", None),
        ("POST", f"/api/v1/jobs/{victim}/rerun", None),
        ("POST", "/api/v1/jobs", {"command": ["id"], "tenant_id": "blue"}),
    ]
    found = attack(shared, calls=calls, service=shared.sock)
    who = json.loads(found.pop("whoami"))
    assert (who["kind"], who["role"], who["tenants"]) == ("job", "user", ["red"])
    assert gains(found) == {}
    assert all(came[:3] in ("403", "404", "422") for what, came in found.items() if "/api/" in what)
    shared.call("blue", "DELETE", f"/api/v1/jobs/{victim}")


def test_two_tenants_never_get_one_user(shared: Shared) -> None:
    transport = httpx.HTTPTransport(uds=shared.sock)
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=30) as client:
        for user, status in (
            ("games", 409),
            ("root", 422),
            ("no-such-user", 422),
            ("0", 422),
            ("65534", 422),
        ):
            answer = client.patch("/api/v1/tenants/red", json={"run_as": user})
            assert answer.status_code == status, (user, answer.text)
            assert "run_as" in answer.text
        made = client.post("/api/v1/tenants", json={"name": "g", "id": "g", "run_as": "games"})
        assert made.status_code == 409, made.text
        assert client.get("/api/v1/tenants/red").json()["run_as"] == "nobody"


def test_a_tenant_without_a_user_runs_no_job_of_a_key_and_says_what_to_set(shared: Shared) -> None:
    shared.admin("POST", "/api/v1/tenants", {"id": "green", "name": "green"})
    made = shared.admin("POST", "/api/v1/keys", {"name": "green", "tenants": ["green"]})
    (warning,) = made["warnings"]
    assert warning.startswith("its jobs are refused for tenant green: no user is set")
    assert "never run as root" in warning
    shared.keys["green"] = made["key"]
    body = {"command": ["id"], "tenant_id": "green"}
    answer = shared.call("green", "POST", "/api/v1/jobs", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["details"][0]["field"] == "tenant_id"
    assert "tgpu tenants change green --run-as USER" in answer.json()["error"]["message"]
    transport = httpx.HTTPTransport(uds=shared.sock)
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=30) as client:
        answer = client.post("/api/v1/jobs", json=body)  # of root, who is admin here
    assert answer.status_code == 422, answer.text
    # A lease runs nothing.
    lease = {"tenant_id": "green", "gpu_count": 1}
    assert shared.call("green", "POST", "/api/v1/jobs", json=lease).status_code == 201
