"""/api/v1/sizes and /api/v1/jobs-file: what they answer, and to whom."""

from pathlib import Path

from tests.integration.api.http import an_api, error_of
from tests.unit.service.eventually import eventually
from tgpu.service.commands.jobs_file import JobsFileSettings
from tgpu.service.hardware.memory_history import ModelPeaks, ModelRun


async def test_a_size_is_answered_with_its_arithmetic() -> None:
    async with an_api(gpus="sim:4xA100", leases=True) as api:
        answer = (await api.get("/api/v1/sizes", params={"model": "org/llama-70b-int4"})).json()
        assert answer["model"] == "org/llama-70b-int4"
        assert answer["gpu_memory_each_mb"] == 81920
        assert (answer["size"]["gpu_count"], answer["size"]["source"]) == (0.49, "estimate")
        assert len(answer["size"]["arithmetic"]) == 3
        assert (answer["learned"], answer["runs"], answer["peak_memory_mb"]) == (None, 0, None)


async def test_past_runs_stand_beside_it_newest_first() -> None:
    async with an_api(gpus="sim:4xA100", leases=True) as api:
        peaks = ModelPeaks((ModelRun("1", 30_000), ModelRun("2", 40_000)), 2)
        api.box.service.gpu_monitor.memory_history._models["m-7b"] = peaks
        answer = (await api.get("/api/v1/sizes", params={"model": "M-7B"})).json()
        assert answer["learned"]["gpu_count"] == 0.54
        assert (answer["runs"], answer["peak_memory_mb"]) == (2, 40_000)
        assert [run["job_id"] for run in answer["last_runs"]] == ["2", "1"]


async def test_a_size_needs_a_model() -> None:
    async with an_api(leases=True) as api:
        answer = await api.get("/api/v1/sizes")
        assert "model" in error_of(answer, 422, "VALIDATION_ERROR")["message"]


async def test_a_job_is_queued_with_the_size_of_its_model_and_told_so() -> None:
    async with an_api(gpus="sim:4xA100") as api:
        body = {"command": ["x", "--llm", "llama-70b"], "size_by": "model"}
        answer = await api.post("/api/v1/jobs", json=body)
        assert answer.status_code == 201
        assert answer.json()["warnings"] == [
            "2 GPUs for llama-70b: 160218 MiB on GPUs of 81920 MiB = 2 GPUs"
        ]
        job = (await api.get(f"/api/v1/jobs/{answer.json()['job_id']}")).json()
        assert job["gpu_count"] == 2


async def test_without_a_jobs_file_there_are_no_lines() -> None:
    async with an_api(leases=True) as api:
        assert (await api.get("/api/v1/jobs-file")).json() == {
            "path": None,
            "exists": False,
            "problem": None,
            "lines": [],
        }


async def test_the_lines_of_the_jobs_file_are_shown_with_their_jobs(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    file = tmp_path / "jobs.txt"
    file.write_text("1,a.py,,--x,\n9,a.py\n")
    async with an_api(jobs_file=JobsFileSettings(file)) as api:
        watch = api.box.service.jobs_file
        assert watch is not None
        await eventually(lambda: watch.lines, "the first reading")
        answer = (await api.get("/api/v1/jobs-file")).json()
        good, bad = answer["lines"]
        assert (answer["path"], answer["exists"]) == (str(file), True)
        assert (good["line"], good["text"], good["job_id"]) == (1, "a.py --x", "1")
        assert good["state"] == "pending"
        assert (bad["line"], bad["job_id"], "priority" in bad["problem"]) == (2, None, True)
