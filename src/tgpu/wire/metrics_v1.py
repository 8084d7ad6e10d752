"""The figures of `tgpu metrics`: how long jobs ran, how busy the GPUs were, what waits."""

from pydantic import BaseModel, Field


class RunsModel(BaseModel):
    """Of the newest jobs that ran to an end, up to a thousand."""

    count: int
    mean_seconds: float | None = Field(description="null where none has ended yet")
    median_seconds: float | None


class WaitingModel(BaseModel):
    """Jobs that wait, by priority: high from 1000 on, low below 500."""

    high: int
    normal: int
    low: int


class GpuUseModel(BaseModel):
    index: int = Field(description="on its node")
    node: str = ""
    gpu_name: str = Field(default="", description='node and index, as "b/3"')
    uuid: str
    mean_percent: float = Field(description="since the service started")
    peak_percent: int
    readings: int = Field(description="from how many looks at the GPU this comes")
    paused: str | None = Field(description="the reason, while paused")


class MetricsAnswer(BaseModel):
    total_jobs: int
    ended_jobs: int
    waiting: WaitingModel
    runs: RunsModel
    gpus: list[GpuUseModel]
    uptime_seconds: float
