"""The examples do what the documents say of them."""

import json
import os
import subprocess
import sys

import pytest

from tests.meta.repository import ROOT
from tgpu.api.rest.loading.ingest import reader_for
from tgpu.api.rest.loading.plain import decode
from tgpu.cli.main import build_command
from tgpu.cli.submit.job_file import read_job_file
from tgpu.core.model.tenant import Tenant
from tgpu.settings import load_settings

EXAMPLES = ROOT / "examples"


def run(*command: str, cwd=ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TGPU_")}
    return subprocess.run(
        command, cwd=cwd, env=environ | variables, capture_output=True, text=True, check=False
    )


def test_the_quickstart_is_the_tick_driven_scheduler_with_two_tenants():
    settings = load_settings(EXAMPLES / "quickstart.yaml", environ={"HOME": "/home/nobody"})
    assert settings.scheduler.clock == "manual"
    assert (settings.database.kind, settings.engine.kind) == ("memory", "none")
    assert settings.devices.gpus == "sim:4xA100,2xH100"
    quota = (("A100", 2000), ("H100", 1000))
    assert [tenant.to_tenant() for tenant in settings.tenants] == [
        Tenant("t1", max_gpu_millis_by_type=quota),  # type: ignore[arg-type]  # ids are text
        Tenant("t2", max_gpu_millis_by_type=quota),  # type: ignore[arg-type]
    ]


def content(file: str, fmt: str) -> list:
    reader = reader_for(fmt)
    return [row for _, row in [*reader.feed((EXAMPLES / file).read_bytes()), *reader.end()]]


def test_the_example_jobs_are_valid():
    ndjson = [decode(line) for line in content("jobs.ndjson", "ndjson")]
    csv = content("jobs.csv", "csv")
    assert [job.job_id for job in ndjson] == ["n1", "n2", "n3"]
    assert [isinstance(row, dict) and row["job_id"] for row in csv] == ["c1", "c2", "c3"]


def test_the_example_job_file_is_read():
    command = build_command().commands["submit"]
    text = (EXAMPLES / "job.yaml").read_text()
    first, second = read_job_file(text, "job.yaml", command)  # type: ignore[arg-type]  # no group
    assert first.options["command"] == ["sh", "examples/sleep_job.sh", "5"]
    assert (second.options["after"], second.options["gpus"]) == (["first"], "2")


def test_the_sleeping_job_says_where_it_sleeps():
    done = run("sh", "examples/sleep_job.sh", "0", TGPU_JOB_ID="7", CUDA_VISIBLE_DEVICES="2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "job 7 sleeps for 0 s on GPU 2" in done.stdout


def test_the_multi_gpu_job_is_content_with_as_many_gpus_as_it_asked_for():
    done = run("sh", "examples/multi_gpu_job.sh", CUDA_VISIBLE_DEVICES="0,3", TGPU_GPU_COUNT="2")
    assert done.returncode == 0
    assert "worker 1 would use GPU 3" in done.stdout


@pytest.mark.parametrize("given", ["", "0", "0,1,2"])
def test_the_multi_gpu_job_fails_when_it_has_others(given):
    done = run("sh", "examples/multi_gpu_job.sh", CUDA_VISIBLE_DEVICES=given, TGPU_GPU_COUNT="2")
    assert done.returncode == 1
    assert "asked for 2 GPUs" in done.stderr


def test_the_training_learns(tmp_path):
    done = run(sys.executable, str(EXAMPLES / "train_demo.py"), "--pause", "0", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "epoch 20/20" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_training_goes_on_from_its_checkpoint(tmp_path):
    saved = {"epoch": 18, "bias": 0.0, "weight_x": 1.5, "weight_y": 1.5}
    (tmp_path / "train_demo.7.json").write_text(json.dumps(saved))
    script = str(EXAMPLES / "train_demo.py")
    done = run(sys.executable, script, "--pause", "0", cwd=tmp_path, TGPU_JOB_ID="7")
    assert "resuming after epoch 18" in done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("epoch")] == [
        "19/20",
        "20/20",
    ]
