"""What a job has used up, as /api/v1 shows it."""

from pydantic import BaseModel, Field


class AttemptUseModel(BaseModel):
    """One try at running the job."""

    attempt: int
    started_at: str
    ended_at: str | None
    run_seconds: float
    gpu_hours: float
    gpus: list[int] = Field(description="indexes on the node of its first worker")
    gpu_names: list[str] = Field(default=[], description='of all its workers, as "b/3"')
    gpu_text: str = Field(default="", description='for people: "0-1", or "a/0-1,b/0"')
    failure: str | None = Field(description="whose fault it was that it did not end well")
    paused_seconds: float = Field(default=0, description="of its run it stood still")


class AnnouncedModel(BaseModel):
    """What a job that had to wait was first told, and what came of it."""

    at: str
    p50: str = Field(description="half of such jobs start by then")
    p90: str = Field(description="nine of ten start by then")
    started_at: str | None = Field(description="its first start; null: it has not started yet")
    error_seconds: float | None = Field(description="of the p50; below 0: it started sooner")
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
    wait_seconds: float = Field(description="without GPUs, also between attempts")
    announced: AnnouncedModel | None = Field(
        default=None, description="its first start estimate; null where it had none"
    )
    run_seconds: float = Field(description="with them, all attempts together")
    paused_seconds: float = Field(default=0, description="of these it stood still, and is charged")
    gpu_count: float
    gpu_hours: float
    lost_gpu_hours: float = Field(description="of these, what preemption cost it")
    peak_gpu_memory_mb: int | None = Field(description="on all its GPUs; null where not known")
    cost: float | None = Field(description="null where no price is set")
    attempts: list[AttemptUseModel]
    complete: bool = Field(description="false: the record does not reach back to its beginning")
