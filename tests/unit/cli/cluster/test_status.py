"""status, metrics and health, as people and programs read them."""

import json

import pytest

from tests.unit.cli.builders import a_gpu, a_job, a_running_job, some_gpus
from tests.unit.cli.screen_service import ScreenService, a_status, some_metrics
from tgpu.cli import connect
from tgpu.cli.render.gpus import status_details


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
    out = tgpu("status", "--detailed").out
    for line in (
        "scheduler  running, version 1",
        "uptime     1m00s",
        "processed  42 jobs",
        "queue      1 job: 2 of high, 10 of normal, 3 of low priority",
        "health     healthy",
        "GPUs",
        "Running jobs: 0",
        "Settings",
    ):
        assert line in out.splitlines()
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["0"][2:4] == ["free", "75%"]
    assert rows["1"][:5] == ["1", "python", "train.py", "running", "1"]  # the job, below the GPU
    assert "problem: lost" in out
    assert "paused: fan is loud" in out


@pytest.mark.parametrize(("store", "told"), [("memory", ["store", "data"]), ("", [])])
def test_where_things_are_is_left_out_where_the_caller_is_not_told(store, told):
    lines = ["".join(cell.text for cell in line) for line in status_details(a_status(store=store))]
    assert [line.split()[0] for line in lines] == ["policy", "clock", "engine", *told]


def test_the_look_is_that_of_the_other_commands(tgpu, service):
    for command in (("status", "--detailed"), ("metrics",), ("health",)):
        out = tgpu(*command).out
        assert "===" not in out
        assert not any(ord(char) > 0x2FFF for char in out)  # no pictures


def test_the_short_status_shows_the_gpus_and_no_more(tgpu, service):
    out = tgpu("status").out
    assert "paused: fan is loud" in out
    assert "queue" not in out


def test_status_for_programs_has_the_resources(tgpu, service):
    found = json.loads(tgpu("status", "--json").out)
    assert [gpu["index"] for gpu in found["resources"]["gpus"]] == [0, 1, 2, 3]
    assert found["queue"] == {"total": 1, "high": 2, "normal": 10, "low": 3}
    assert found["active_jobs"][0]["gpus"] == [0, 1]
    assert (found["status"], found["health"]["status"]) == ("running", "healthy")


def test_metrics_are_times_and_use(tgpu, service):
    assert tgpu("metrics").out.splitlines() == [
        "jobs      156 in all",
        "run time  4m05s on average, 3m09s median, of the newest 42 jobs",
        "",
        "GPU use since the scheduler started",
        "GPU  MEAN USE  PEAK USE  NOTE",
        "  0     78.5%     95.0%",
        "  3      0.0%      0.0%  paused: fan is loud",
    ]


def test_metrics_before_the_first_end_say_so(tgpu, service):
    runs = {"count": 0, "mean_seconds": None, "median_seconds": None}
    service.metrics = some_metrics(runs=some_metrics().runs.model_copy(update=runs))
    assert "run time  none has ended yet" in tgpu("metrics").out


def test_metrics_are_json_for_programs(tgpu, service):
    assert json.loads(tgpu("metrics", "--json").out)["runs"]["count"] == 42


def test_health_is_an_exit_code(tgpu, service):
    assert (tgpu("health").code, tgpu("health").out) == (0, "health  healthy\n")
    service.health = {**service.health, "status": "degraded", "problems": ["GPU 2: lost"]}
    outcome = tgpu("health")
    assert outcome.code == 1
    assert outcome.out.splitlines() == ["health  degraded", "        GPU 2: lost"]
    assert json.loads(tgpu("health", "--json").out)["problems"] == ["GPU 2: lost"]
