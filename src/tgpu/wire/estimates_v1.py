"""Start estimates, as /api/v1 shows them."""

from pydantic import BaseModel, Field


class EstimateModel(BaseModel):
    """When a waiting job will start. Times are ISO 8601 in UTC."""

    p50: str = Field(description="half of such jobs start by then")
    p90: str = Field(description="nine of ten start by then")
    as_of: str = Field(description="when it was computed")
    basis: str = Field(
        description="next_cycle, simulated (the queue simulated with predicted run times), "
        "guessed (the same, but some jobs ahead have no runtime estimate) or "
        "throughput (beyond the simulated part of the queue)"
    )
    level: str = Field(
        default="",
        description="confidence: the least certain run time it is based on, as a level of "
        "predictions, or nothing; empty if it is based on none",
    )
    samples: int = Field(default=0, description="number of past runs behind it")
    latest: str | None = Field(
        default=None, description="latest start, by its backfill reservation"
    )


class SoonerModel(BaseModel):
    """A change after which the job would start sooner, checked by simulation."""

    sentence: str
    fields: dict[str, object] = Field(description="the fields of the submission to change")
    starts_now: bool
    estimate: EstimateModel


class EstimateAnswer(BaseModel):
    """When a submission would start; nothing was stored."""

    jobs: int = Field(description="number of jobs in the submission")
    starts_now: bool
    held: bool = Field(description="it would be on hold until released")
    estimate: EstimateModel | None = Field(description="for its first job; null if there is none")
    last: EstimateModel | None = Field(description="for its last job, if there are several")
    sooner: list[SoonerModel] = Field(description="smallest change first")
    warnings: list[str] = []


class AccuracyModel(BaseModel):
    """Jobs that waited with a start estimate, and started."""

    jobs: int
    before_p50: float | None = Field(
        description="share of jobs that started by the p50; null without jobs"
    )
    before_p90: float | None
    median_error_seconds: float = Field(
        description="absolute difference between the p50 and the start"
    )
    median_wait_seconds: float = Field(description="from the estimate to the start")
    median_window_seconds: float = Field(description="from the estimate to the p90")


class QueueAccuracyModel(AccuracyModel):
    tenant_id: str
    queue: str


class AccuracyAnswer(BaseModel):
    days: float
    since: str
    total: AccuracyModel
    queues: list[QueueAccuracyModel]
