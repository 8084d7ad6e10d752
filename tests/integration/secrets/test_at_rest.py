"""Nothing that a job was given as a secret is readable in the files of a service."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_service import RealService, clean_environ

SECRETS = (
    "h1dden-in-the-shell",
    "h1dden-in-a-variable",
    "h1dden-on-the-command-line",
    "ghp_" + "Zz9" * 12,
    "unremarkableword",  # nothing but its owner's word tells that it is a secret
)

SEEN = f"{SECRETS[0]} {SECRETS[1]} {SECRETS[2]} {SECRETS[4]}"


def a_secret_job(service: RealService) -> str:
    """It writes down what it was given, in its own directory."""
    script = 'printf "%s %s %s %s" "$SHELL_TOKEN" "$MY_PASSWORD" "$2" "$PLAIN" > seen; echo ready'
    body = {
        "command": ["/bin/sh", "-c", script, "sh", "--password", *SECRETS[2:]],
        "name": f"with {SECRETS[3]}",
        "environment": {"MY_PASSWORD": SECRETS[1]},
        "secrets": {"PLAIN": SECRETS[4]},
        "base_environment": {"SHELL_TOKEN": SECRETS[0], "PATH": os.environ["PATH"]},
        "working_dir": str(service.work),
    }
    return str(service.post("/jobs", body)["job_id"])


def secrets_in_database(directory: Path) -> list[str]:
    files = [path.read_bytes() for path in directory.glob("tgpu.db*")]
    assert files
    return [secret for secret in SECRETS if any(secret.encode() in each for each in files)]


def rotate(service: RealService, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tgpu", "db", "rotate-key", *options]
    command += ["--config", str(service.log.parent / "settings.json")]
    return subprocess.run(
        [*command, "--data-dir", str(service.data_dir), "--json"],
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def service(tmp_path: Path) -> RealService:
    return RealService(tmp_path, gpus="sim:1xA100")


def test_it_runs_with_its_secrets_and_the_database_has_none_under_any_key(
    service: RealService,
) -> None:
    with service:
        service.start()
        job_id = a_secret_job(service)
        service.in_state(job_id, "completed")
        assert (service.work / "seen").read_text() == SEEN
        service.terminate()
        assert secrets_in_database(service.data_dir) == []
        record = service.data_dir / "engine" / "jobs" / job_id / "1" / "attempt.jsonl"
        assert "--password" in record.read_text()
        assert not any(secret in record.read_text() for secret in SECRETS)
        assert not any(secret in service.log_text() for secret in SECRETS)
        key = service.data_dir / "secret.key"
        assert key.stat().st_mode & 0o777 == 0o600
        before = key.read_bytes()
        done = rotate(service)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"] > 0
        assert before not in key.read_bytes()
        service.start()
        again = service.post(f"/jobs/{job_id}/rerun", {})["job_id"]
        (service.work / "seen").unlink()
        service.in_state(again, "completed")
        assert (service.work / "seen").read_text() == SEEN
        assert secrets_in_database(service.data_dir) == []


def test_without_its_key_the_service_does_not_start_and_says_what_to_do(
    service: RealService, tmp_path: Path
) -> None:
    with service:
        service.start()
        held = a_secret_job(service)
        service.in_state(held, "completed")
        service.terminate()
        shutil.move(service.data_dir / "secret.key", tmp_path / "kept.key")
        process = service.launch()
        assert process.wait(30) != 0
        assert "put the right file back" in service.log_text()
        assert "Traceback" not in service.log_text()
        refused = rotate(service)
        assert refused.returncode != 0
        assert "--lost-key" in refused.stdout + refused.stderr
        assert rotate(service, "--lost-key").returncode == 0
        service.start()
        lost = service.http.post(f"/api/v1/jobs/{held}/rerun", json={})
        assert lost.status_code == 409
        assert "cannot be read" in lost.text
        fresh = a_secret_job(service)
        service.in_state(fresh, "completed")
