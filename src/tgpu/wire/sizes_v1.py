"""Sizes of models over `/api/v1/sizes`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SizeModel(_Model):
    """A number of GPUs, and where it comes from."""

    gpu_count: float
    gpu_memory_mb: int  # over all its GPUs together; 0: not said
    source: str  # "table", "pattern", "estimate", "default" or "learned"
    matched: str  # the line of the table
    arithmetic: list[str]


class RunModel(_Model):
    job_id: str
    peak_memory_mb: int


class SizeAnswer(_Model):
    """GPUs that one model needs."""

    model: str
    gpu_memory_each_mb: int  # of the smallest GPU there is, which it was reckoned for
    size: SizeModel  # without --auto
    learned: SizeModel | None  # with --auto, where past runs are known
    runs: int  # how many those were
    peak_memory_mb: int | None
    last_runs: Annotated[list[RunModel], Field(max_length=100)]  # newest first
    table: str | None  # the file
