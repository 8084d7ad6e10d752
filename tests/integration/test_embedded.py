"""The scheduler inside a program, as its documentation shows it."""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tgpu.core.errors import InvalidRequest
from tgpu.devices.simulated import SimulatedProvider
from tgpu.embedded import Scheduler, SchedulerConfig


class RecordedMetrics:
    def __init__(self) -> None:
        self.seen: list[tuple[str, float, dict[str, str]]] = []

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        self.seen.append((name, value, dict(labels)))


class RecordedHealth:
    def __init__(self) -> None:
        self.reports: list[list[str]] = []

    def report(self, problems: Sequence[str]) -> None:
        self.reports.append(list(problems))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(
        "import os, sys\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "sys.exit(3 if '--fail' in sys.argv else 0)\n"
    )
    return path


def test_a_job_runs_on_its_gpus_and_its_end_is_known(script: Path, tmp_path: Path) -> None:
    with Scheduler(SchedulerConfig(num_gpus=2, queue_size_limit=10)) as scheduler:
        job = scheduler.wait(scheduler.add_job(script, args=["--test"], gpus=2), 30)
        status = scheduler.get_status()
    assert (job["state"], job["exit_code"], job["gpus"]) == ("completed", 0, [0, 1])
    assert (tmp_path / "seen").read_text() == "0,1"
    assert status["jobs"]["completed"] == 1
    assert [gpu["allocated"] for gpu in status["resources"]] == [0.0, 0.0]


def test_a_job_runs_where_it_may(script: Path) -> None:
    with Scheduler(SchedulerConfig(num_gpus=3)) as scheduler:
        job_id = scheduler.add_job(
            script,
            deadline=datetime.now(UTC) + timedelta(hours=1),
            checkpoint_signal="USR1",
            constraints={"excluded_gpus": [0], "allowed_gpus": [2], "spread": True},
        )
        assert scheduler.wait(job_id, 30)["gpus"] == [2]
        with pytest.raises(InvalidRequest, match="checkpoint_signal: must be a signal"):
            scheduler.add_job(script, checkpoint_signal="NOPE")


def test_a_failing_script_gives_its_exit_code(script: Path) -> None:
    with Scheduler(SchedulerConfig(num_gpus=1)) as scheduler:
        job = scheduler.wait(scheduler.add_job(script, ["--fail"]), 30)
    assert (job["state"], job["exit_code"]) == ("failed", 3)


def test_injected_providers_are_used_and_told(script: Path) -> None:
    gpus = SimulatedProvider("sim:3xH100")
    metrics, health = RecordedMetrics(), RecordedHealth()
    config = SchedulerConfig(settings={"devices.monitor_interval_seconds": 0.1})
    scheduler = Scheduler(
        config, gpu_provider=gpus, metrics_provider=metrics, health_monitor=health
    )
    assert scheduler.start()
    try:
        assert [gpu["gpu_type"] for gpu in scheduler.get_status()["resources"]] == ["H100"] * 3
        scheduler.wait(scheduler.add_job(script), 30)
        gpus.set(1, lost=True)
        deadline = time.monotonic() + 20
        while not any("GPU 1" in line for report in health.reports for line in report):
            assert time.monotonic() < deadline, health.reports
            time.sleep(0.05)
    finally:
        assert scheduler.stop()
    assert health.reports[0] == []
    assert ("jobs_total", 1.0, {"state": "completed"}) in metrics.seen


def test_what_was_kept_in_a_directory_is_there_again(script: Path, tmp_path: Path) -> None:
    config = SchedulerConfig(num_gpus=1, data_dir=tmp_path / "data")
    with Scheduler(config) as first:
        job_id = first.add_job(script)
        first.wait(job_id, 30)
    with Scheduler(config) as second:
        assert second.get_job(job_id)["state"] == "completed"


def test_calls_before_the_start_say_what_to_do() -> None:
    scheduler = Scheduler()
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        scheduler.get_status()
    assert not scheduler.stop()


def test_a_scratch_directory_is_gone_after_the_stop(script: Path) -> None:
    scheduler = Scheduler(SchedulerConfig(num_gpus=1))
    scheduler.start()
    scratch = scheduler._scratch
    scheduler.stop()
    assert scratch is not None
    assert not os.path.exists(scratch)


def test_a_config_comes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"devices": {"gpus": "sim:5xT4"}}')
    with Scheduler(SchedulerConfig.from_file(path)) as scheduler:
        assert len(scheduler.get_status()["resources"]) == 5
