"""`tgpu report` asks the real service, and reads its database without it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_service import RealService, clean_environ


@pytest.fixture
def service(tmp_path):
    price = {"billing": {"cost_per_gpu_hour": 3600.0}}
    with RealService(tmp_path, settings=price) as served:
        yield served.start()


def report(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tgpu", "report", *arguments]
    return subprocess.run(
        command, cwd=folder, env=clean_environ(), capture_output=True, text=True, timeout=60
    )


def test_what_really_ran_is_on_the_page(service, tmp_path):
    done = service.submit("true", gpu_count=2, name="quick")
    failed = service.submit("exit 1")
    for job_id in (done, failed):
        service.end(job_id)
    outcome = report("--api-url", service.url, folder=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    page = (tmp_path / "tgpu-report" / "report.html").read_text()
    assert re.search(rf"job {done} quick, (\S+ of )?default, completed", page)
    assert "the program itself" in page
    assert (tmp_path / "tgpu-report" / "gantt.png").read_bytes().startswith(b"\x89PNG")


def test_the_numbers_are_the_same_from_the_service_and_from_its_database(service, tmp_path):
    service.end(service.submit("sleep 0.2", gpu_count=2))
    asked = report("--json", "--api-url", service.url, folder=tmp_path)
    assert service.terminate() == 0
    read = report("--json", "--data-dir", str(service.data_dir), folder=tmp_path)
    found = [json.loads(outcome.stdout) for outcome in (asked, read)]
    for each in found:
        assert (each["jobs_submitted"], each["jobs_completed"], each["gpus"]) == (1, 1, 4)
    assert found[0]["gpu_hours"] == found[1]["gpu_hours"] > 0
    assert found[0]["mean_wait_s"] == found[1]["mean_wait_s"]
    assert found[0]["cost"] == found[1]["cost"]
    assert found[0]["cost"] == pytest.approx(3600 * found[0]["gpu_hours"], abs=0.01)
