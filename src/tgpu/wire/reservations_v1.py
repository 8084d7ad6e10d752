"""Requests and answers about reservations of `/api/v1`."""

from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from tgpu.wire.bounds import RequestModel, Word

Minutes = Annotated[float, Field(ge=0, le=5_256_000, allow_inf_nan=False)]


class ReservationCreate(RequestModel):
    """GPUs on one machine for a time. Types are strict: true is not a number, and "5" is text."""

    model_config = ConfigDict(
        extra="forbid",
        populate_by_name=True,
        strict=True,
        json_schema_extra={
            "examples": [
                {"gpus": 4, "starts_at": "2030-01-31T14:00:00Z", "minutes": 120, "gpu_type": "A100"}
            ]
        },
    )

    id: Word | None = None
    # Left out: the caller's only tenant, or `default` where that is one of theirs.
    tenant_id: Word | None = Field(
        default=None, validation_alias=AliasChoices("tenant_id", "project_id")
    )
    user: Word = ""
    gpus: Annotated[int, Field(ge=1, le=100_000)]
    minutes: Minutes
    starts_at: Word | None = None  # ISO 8601, with its zone; now where it is left out
    gpu_type: Word | None = None
    node: Word | None = None
    # Given back when no job ran or waits this long after its start; 0: kept until it ends; left
    # out: as the settings have it.
    unused_minutes: Minutes | None = None


class ReservationModel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    tenant_id: str
    user: str
    node: str
    gpus: list[int]  # indexes on the node
    gpu_type: str
    starts_at: str
    ends_at: str
    state: str  # "waiting" until it starts, then "open"
    used: bool  # a job of it has started
    unused_minutes: float | None  # null: kept until it ends
    jobs: list[str]  # those of it that are not over
    problem: str | None  # why it misses GPUs


class ReservationList(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reservations: list[ReservationModel]  # by start, then id
