"""When jobs start, as /api/v1 tells it."""

from pydantic import BaseModel, Field


class EstimateModel(BaseModel):
    """When a waiting job will start. Times are ISO 8601 in UTC."""

    p50: str = Field(description="half of such jobs start by then")
    p90: str = Field(description="nine of ten start by then")
    as_of: str = Field(description="when this was worked out")
    basis: str = Field(
        description="next_cycle, simulated (the queue played forward with predicted run times), "
        "guessed (the same, and of some jobs before it nothing is known) or throughput (behind "
        "all that was played forward)"
    )
    level: str = Field(
        default="",
        description="how much is known of those before it: the least sure of the run times it "
        "rests on, as the levels of predictions, or nothing; empty: it rests on none",
    )
    samples: int = Field(default=0, description="how many past runs that is")
    latest: str | None = Field(default=None, description="it was promised to start by then")


class SoonerModel(BaseModel):
    """A change after which the job would start sooner, checked by simulation."""

    sentence: str
    fields: dict[str, object] = Field(description="the fields of the submission that are others")
    starts_now: bool
    estimate: EstimateModel


class EstimateAnswer(BaseModel):
    """What would become of a submission; nothing was stored."""

    jobs: int = Field(description="how many jobs the submission is")
    starts_now: bool
    held: bool = Field(description="it would be on hold, and start when it is released")
    estimate: EstimateModel | None = Field(description="of its first job; null: none can be made")
    last: EstimateModel | None = Field(description="of its last job, where it is many")
    sooner: list[SoonerModel] = Field(description="the cheapest first")
    warnings: list[str] = []


class AccuracyModel(BaseModel):
    """Jobs that waited, were told when they would start, and started."""

    jobs: int
    before_p50: float | None = Field(description="share that started by then; null without jobs")
    before_p90: float | None
    median_error_seconds: float = Field(description="between the p50 and the start, either way")
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
