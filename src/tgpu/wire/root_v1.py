"""Requests and answers of the paths at the root: plain jobs, manual ticks, bulk loads."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tgpu.wire.bounds import WIDEST, Int

PlainState = Literal["WAITING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
# Seconds whose milliseconds still are exact everywhere.
FARTHEST: Final = WIDEST // 1000
_Name = Annotated[str, Field(min_length=1, max_length=128)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


EXAMPLE: Final[dict[str, Any]] = {
    "examples": [
        {
            "job_id": "n1",
            "tenant_id": "default",
            "gpu_type": "A100",
            "gpus": 2,
            "priority": 5,
            "submitted_at": 100,
        }
    ]
}


class PlainJobRequest(BaseModel):
    """A job as a lease of whole GPUs; times are whole seconds on the manual clock."""

    model_config = ConfigDict(json_schema_extra=EXAMPLE)

    job_id: _Name
    tenant_id: _Name
    gpu_type: _Name
    gpus: Annotated[int, Field(gt=0, le=100_000)]
    priority: Int
    submitted_at: Annotated[int, Field(ge=-FARTHEST, le=FARTHEST)]
    max_runtime: Annotated[float, Field(gt=0, le=FARTHEST)] | None = None


class PlainSubmitAnswer(_Model):
    job_id: str
    status: PlainState


class PlainJobModel(_Model):
    job_id: str
    status: PlainState
    tenant_id: str
    gpu_type: str | None
    gpus: int | float
    priority: int
    submitted_at: int
    started_at: int | None
    completed_at: int | None


class RejectedJob(_Model):
    """`index` (from 0) in a list, `line` (from 1) in a file."""

    index: int | None = None
    line: int | None = None
    job_id: str | None
    code: str
    message: str


class LoadCounts(_Model):
    accepted: int
    rejected: int


class LoadAnswer(_Model):
    accepted: list[str]
    rejected: list[RejectedJob]
    counts: LoadCounts


class TickAnswer(_Model):
    started: list[str]
    waiting: int


class Capacity(_Model):
    """GPUs by type."""

    total: dict[str, int | float]
    used: dict[str, int | float]
    available: dict[str, int | float]


class Stats(_Model):
    total_jobs: int
    jobs: dict[PlainState, int]
    running: list[str]
    waiting: int
    capacity: Capacity
    tenant_quotas: dict[str, dict[str, int | float]]


class Alive(_Model):
    status: Literal["ok"]
