"""Receipts, as /api/v1 shows them."""

from pydantic import BaseModel, Field


class AttemptUseModel(BaseModel):
    """One attempt at running the job."""

    attempt: int
    started_at: str
    ended_at: str | None
    run_seconds: float
    gpu_hours: float
    gpus: list[int] = Field(description="GPU indexes on the node of its first worker")
    gpu_names: list[str] = Field(default=[], description='GPUs of all its workers, such as "b/3"')
    gpu_text: str = Field(default="", description='for people: "0-1", or "a/0-1,b/0"')
    failure: str | None = Field(description="kind of failure")
    paused_seconds: float = Field(default=0, description="pause during the run")


class AnnouncedModel(BaseModel):
    """The first start estimate of a job that had to wait, and its actual start."""

    at: str
    p50: str = Field(description="half of such jobs start by then")
    p90: str = Field(description="nine of ten start by then")
    started_at: str | None = Field(description="its first start; null if it has not started yet")
    error_seconds: float | None = Field(
        description="start minus p50; negative if it started sooner"
    )
    before_p90: bool | None


class ReceiptModel(BaseModel):
    job_id: str
    tenant_id: str
    user: str
    name: str
    state: str
    failure: str | None
    cause: str | None
    submitted_at: str
    ended_at: str | None
    wait_seconds: float = Field(description="time without GPUs, also between attempts")
    announced: AnnouncedModel | None = Field(
        default=None, description="its first start estimate; null if it had none"
    )
    run_seconds: float = Field(description="run time of all attempts")
    paused_seconds: float = Field(default=0, description="paused time in it, which is charged")
    gpu_count: float
    gpu_hours: float
    lost_gpu_hours: float = Field(description="part of it lost to preemption")
    peak_gpu_memory_mb: int | None = Field(description="on all its GPUs; null if not known")
    cost: float | None = Field(description="null if no price is set")
    attempts: list[AttemptUseModel]
    complete: bool = Field(description="false if the records do not go back to its submission")
