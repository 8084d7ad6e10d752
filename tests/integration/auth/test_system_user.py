"""A user that is made for a tenant on the real machine, and what its jobs find."""

import json
import os
import pwd
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.real_service import RealService, eventually

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make users; run the tests as root"
)


@pytest.fixture
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="tgpu-made-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def tenant() -> Iterator[str]:
    """An id of its own, whose user is removed with its home."""
    name = f"test-{secrets.token_hex(4)}"
    yield name
    subprocess.run(["userdel", "--remove", f"tgpu-{name}"], capture_output=True, check=False)


def test_a_tenant_gets_a_user_of_its_own(place: Path, tenant: str) -> None:
    settings: dict[str, dict[str, object]] = {
        "auth": {"enabled": True},
        "api": {"socket": str(place / "tgpu.sock")},
    }
    with RealService(place / "service", settings=settings) as service:
        service.start()
        transport = httpx.HTTPTransport(uds=str(place / "tgpu.sock"))
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as admin:
            body = {"id": tenant, "name": tenant, "system_user": True}
            made = admin.post("/api/v1/tenants", json=body)
            assert made.status_code == 201, made.text
            assert made.json()["run_as"] == f"tgpu-{tenant}"
            again = admin.patch(f"/api/v1/tenants/{tenant}", json={"system_user": True})
            assert again.status_code == 200, again.text
            both = {"system_user": True, "run_as": "games"}
            assert admin.patch(f"/api/v1/tenants/{tenant}", json=both).status_code == 422
            rows = admin.get("/api/v1/audit").json()["entries"]
            assert f"jobs run as tgpu-{tenant}" in [row["detail"] for row in rows]
            bound = {"name": "boss", "role": "admin", "tenants": [tenant]}
            key = admin.post("/api/v1/keys", json=bound).json()["key"]
            bearer = {"Authorization": f"Bearer {key}"}
            for answer in (
                service.http.post("/api/v1/tenants", json=body, headers=bearer),
                service.http.patch(
                    f"/api/v1/tenants/{tenant}", json={"run_as": "games"}, headers=bearer
                ),
            ):
                assert answer.status_code == 403, answer.text
            check_job(service, tenant, bearer)
    account = pwd.getpwnam(f"tgpu-{tenant}")
    assert account.pw_uid != 0
    assert account.pw_shell.endswith(("nologin", "false"))
    home = os.stat(account.pw_dir)
    assert (home.st_uid, stat.S_IMODE(home.st_mode)) == (account.pw_uid, 0o700)


def check_job(service: RealService, tenant: str, bearer: dict[str, str]) -> None:
    script = 'id -un; pwd; echo "$HOME $SHELL"; touch here && ls'
    job = {"command": ["sh", "-c", script], "tenant_id": tenant}
    answer = service.http.post("/api/v1/jobs", json=job, headers=bearer)
    assert answer.status_code == 201, answer.text
    job_id = answer.json()["job_id"]

    def over() -> bool:
        found = service.http.get(f"/api/v1/jobs/{job_id}", headers=bearer).json()
        return found["state"] in ("completed", "failed")

    eventually(over, "the job to end")
    log = service.http.get(f"/api/v1/jobs/{job_id}/logs", headers=bearer).text
    home = pwd.getpwnam(f"tgpu-{tenant}").pw_dir
    user, cwd, shown, *files = log.splitlines()
    assert (user, cwd, shown) == (f"tgpu-{tenant}", home, f"{home} /bin/sh"), json.dumps(log)
    assert "here" in files
