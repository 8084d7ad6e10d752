"""status, metrics and health, as people and programs read them."""

import json

import pytest

from tests.unit.cli.builders import a_gpu, a_job, a_running_job, some_gpus
from tests.unit.cli.screen_service import ScreenService, some_metrics
from tgpu.cli import connect


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> ScreenService:
    fake = ScreenService(
        gpus=some_gpus(
            a_gpu(0, allocated=0.75),
            a_gpu(1, allocated=1.0),
            a_gpu(2, problem="lost"),
            a_gpu(3, paused="fan is loud", status="paused"),
        )
    )
    fake.add(a_running_job("1", gpus=[0, 1]), a_job("2"))
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: fake.client())
    return fake


def test_the_detailed_status_has_queue_gpus_jobs_and_health(tgpu, service):
    lines = tgpu("status", "--detailed").out.splitlines()
    for line in (
        "Status: running",
        "Uptime: 60 seconds",
        "Jobs Processed: 42",
        "📋 Queue Status:",
        "  High Priority: 2",
        "  Normal Priority: 10",
        "  Low Priority: 3",
        "🎮 GPU Resources:",
        "  GPU 0: 75% allocated",
        "  GPU 1: 100% allocated",
        "  GPU 2: OUT OF ORDER (lost)",
        "  GPU 3: PAUSED (fan is loud)",
        "  1: python train.py (GPUs: [0, 1])",
        "✅ Health: HEALTHY",
    ):
        assert line in lines


def test_the_short_status_shows_the_gpus_and_no_more(tgpu, service):
    out = tgpu("status").out
    assert "paused: fan is loud" in out
    assert "Queue Status" not in out


def test_status_for_programs_has_the_resources(tgpu, service):
    found = json.loads(tgpu("status", "--json").out)
    assert [gpu["index"] for gpu in found["resources"]["gpus"]] == [0, 1, 2, 3]
    assert found["queue"] == {"total": 1, "high": 2, "normal": 10, "low": 3}
    assert found["active_jobs"][0]["gpus"] == [0, 1]
    assert (found["status"], found["health"]["status"]) == ("running", "healthy")


def test_metrics_are_times_and_use(tgpu, service):
    assert tgpu("metrics").out.splitlines() == [
        "📊 Performance Metrics",
        "==============================",
        "Total Jobs: 156",
        "Avg Execution Time: 245.3s",
        "Median Execution Time: 189.7s",
        "",
        "GPU Utilization:",
        "  GPU 0: 78.5% avg, 95.0% peak",
        "  GPU 3: 0.0% avg, 0.0% peak (PAUSED)",
    ]


def test_metrics_before_the_first_end_say_so(tgpu, service):
    runs = {"count": 0, "mean_seconds": None, "median_seconds": None}
    service.metrics = some_metrics(runs=some_metrics().runs.model_copy(update=runs))
    assert "Avg Execution Time: none yet" in tgpu("metrics").out


def test_metrics_are_json_for_programs(tgpu, service):
    assert json.loads(tgpu("metrics", "--json").out)["runs"]["count"] == 42


def test_health_is_an_exit_code(tgpu, service):
    assert (tgpu("health").code, tgpu("health").out) == (0, "✅ Health: HEALTHY\n")
    service.health = {**service.health, "status": "degraded", "problems": ["GPU 2: lost"]}
    outcome = tgpu("health")
    assert outcome.code == 1
    assert outcome.out.splitlines() == ["❌ Health: DEGRADED", "  GPU 2: lost"]
    assert json.loads(tgpu("health", "--json").out)["problems"] == ["GPU 2: lost"]
