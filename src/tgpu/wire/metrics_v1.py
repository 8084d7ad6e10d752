"""The figures of `tgpu metrics`: how long jobs ran, how busy the GPUs were, what waits."""

from pydantic import BaseModel, Field


class RunsModel(BaseModel):
    """Run times of the last thousand finished jobs."""

    count: int
    mean_seconds: float | None = Field(description="null if none has ended yet")
    median_seconds: float | None


class WaitingModel(BaseModel):
    """Waiting jobs by priority: high from 1000, low below 500."""

    high: int
    normal: int
    low: int


class GpuUseModel(BaseModel):
    index: int = Field(description="index on its node")
    node: str = ""
    gpu_name: str = Field(default="", description='node and index, such as "b/3"')
    uuid: str
    mean_percent: float = Field(description="since the service started")
    peak_percent: int
    readings: int = Field(description="number of readings")
    paused: str | None = Field(description="the reason, if paused")


class MetricsAnswer(BaseModel):
    total_jobs: int
    ended_jobs: int
    waiting: WaitingModel
    runs: RunsModel
    gpus: list[GpuUseModel]
    uptime_seconds: float
