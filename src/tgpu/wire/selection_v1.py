"""A request that changes many jobs, and its answer."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from tgpu.wire.bounds import NO_NUL, WIDEST, Int, RequestModel, Text, Word

MOST_NAMES = 10_000
ChangeName = Literal["cancel", "hold", "release", "priority", "pause", "resume", "rerun"]
StateName = Literal[
    "pending", "scheduled", "running", "preempted", "completed", "failed", "cancelled"
]
JobName = Annotated[str, Field(min_length=1, max_length=256, pattern=NO_NUL)]


class SelectionRequest(RequestModel):
    """Which jobs to change, and how: all in one commit, or nothing.

    All given filters must match. At least one of them, or `all`, is required.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"action": "cancel", "jobs": ["7"]},
                {"action": "hold", "jobs": ["7"], "states": ["pending"]},
                {"action": "priority", "priority": 900, "jobs": ["7.01", "8"]},
                {"action": "cancel", "states": ["pending"], "mine": True},
                {"action": "rerun", "jobs": ["7"]},
            ]
        }
    )

    action: ChangeName
    # Ids of jobs or of whole arrays and sweeps; `last` is the newest.
    jobs: Annotated[list[JobName], Field(max_length=MOST_NAMES), FailFast()] = []
    all: bool = False  # all that the caller may act on, as far as the other conditions hold
    states: Annotated[list[StateName], Field(max_length=7), FailFast()] = []
    name: Text = ""  # that the job's name contains
    user: Word | None = None
    # The caller's own; on a service that asks nobody who they are, those of `user`.
    mine: bool = False
    tenant_id: Word | None = None
    priority: Int | None = None  # of action priority: the new one
    # Of action rerun: only what ended in the last so many seconds, what failed like this, …
    ended_within_seconds: Annotated[int | None, Field(ge=1, le=WIDEST // 1000)] = None
    failures: Annotated[list[Word], Field(max_length=20), FailFast()] = []
    again: bool = False  # … and also what was run again before


class LeftAloneModel(BaseModel):
    """Jobs of the selection that were not changed, for one reason."""

    model_config = ConfigDict(extra="forbid")

    # over, ending, runs, held, not_held, same, waits, lease, paused, not_paused, state, rerun
    reason: str
    count: int
    message: str
    job_ids: list[str]  # the first ten


class RerunModel(BaseModel):
    """A new job or array, and the one it reruns."""

    model_config = ConfigDict(extra="forbid")

    job_id: str
    rerun_of: str
    is_array: bool
    count: int  # of its jobs


class SelectionAnswer(BaseModel):
    """Result of a selection."""

    model_config = ConfigDict(extra="forbid")

    action: str
    message: str
    changed: int
    # Of those changed, by what they did before: running, waiting; of action rerun: queued
    counts: dict[str, int] = {}
    job_ids: list[str] = []  # that were changed; of action rerun, the new ones
    left_alone: list[LeftAloneModel] = []
    reruns: list[RerunModel] = []
    warnings: list[str] = []
    recorded: bool = True  # false: it is done, and will be on record when the store works again
