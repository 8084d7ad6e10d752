"""Wire models for tests, with everything a test does not care about filled in."""

from typing import Any

from tgpu.wire.v1 import GpuList, GpuModel, JobModel, ReasonModel

NOW_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def a_job(job_id: str = "12", **changes: Any) -> JobModel:
    fields: dict[str, Any] = {
        "job_id": job_id,
        "tenant_id": "default",
        "name": "",
        "user": "ada",
        "queue": "default",
        "state": "pending",
        "held": False,
        "priority": 500,
        "gpu_count": 1.0,
        "gpu_type": None,
        "gpu_memory_mb": 0,
        "cpu_cores": 0.0,
        "memory_mb": 0,
        "command": ["python", "train.py"],
        "working_dir": "/home/ada",
        "image": "",
        "environment": {},
        "submitted_at": "2023-11-14T22:12:20Z",
        "started_at": None,
        "ended_at": None,
        "gpus": [],
        "node": None,
        "pid": None,
        "exit_code": None,
        "signal": None,
        "cause": None,
        "attempt": 0,
        "restarts": 0,
        "max_retries": 0,
        "requeue": False,
        "max_runtime_minutes": None,
        "after": [],
        "array": None,
        "params": {},
        "reason": None,
        "log_dir": None,
    }
    return JobModel.model_validate({**fields, **changes})


def a_running_job(job_id: str = "12", **changes: Any) -> JobModel:
    started = {"state": "running", "started_at": "2023-11-14T22:12:50Z", "attempt": 1}
    return a_job(job_id, **{**started, "gpus": [0], "node": "local", **changes})


def an_ended_job(job_id: str = "12", state: str = "completed", **changes: Any) -> JobModel:
    code = {"completed": 0, "failed": 1}.get(state)
    ended = {"ended_at": "2023-11-14T22:13:10Z", "exit_code": code}
    return a_running_job(job_id, state=state, **{**ended, **changes})


def a_reason(message: str, code: str = "gpus_busy", remedy: str = "tgpu gpus") -> ReasonModel:
    return ReasonModel(code=code, message=message, remedy=remedy)


def a_gpu(index: int = 0, **changes: Any) -> GpuModel:
    fields: dict[str, Any] = {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": "NVIDIA A100",
        "gpu_type": "A100",
        "memory_mb": 81_920,
        "memory_used_mb": 0,
        "temperature_c": 35,
        "utilisation_percent": 0,
        "nvlink_group": None,
        "numa_node": None,
        "status": "free",
        "allocated": 0.0,
        "jobs": [],
        "paused": None,
        "problem": None,
        "processes": [],
    }
    return GpuModel.model_validate({**fields, **changes})


def some_gpus(*gpus: GpuModel, simulated: bool = False) -> GpuList:
    provider = "simulated" if simulated else "nvml"
    return GpuList(
        provider=provider, simulated=simulated, problem=None, node="local", gpus=list(gpus)
    )
