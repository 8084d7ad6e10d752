"""A cycle of the past as programs read it: `tgpu replay --json`."""

from pydantic import BaseModel

from tgpu.wire.v1 import BlockerModel, ReasonModel


class ReplayJob(BaseModel):
    job_id: str
    tenant_id: str
    user: str
    queue: str
    priority: int
    gpu_count: float
    submitted_at: str


class ReplayStart(BaseModel):
    job: ReplayJob
    on: str  # node:GPU,GPU …
    waited_s: float
    ahead: int | None  # jobs that stood before it in the line; None: nobody can tell


class ReplayPreemption(BaseModel):
    job: ReplayJob
    to: str
    cause: str


class ReplayWait(BaseModel):
    job: ReplayJob  # the oldest of them
    jobs: int
    reason: ReasonModel


class ReplayOther(BaseModel):
    """Whatever else a cycle decides: places kept, leases that ended, jobs given up."""

    what: str
    id: str
    text: str


class ReplayDifference(BaseModel):
    what: str
    id: str
    recorded: str | None
    decided: str | None


class ReplayPassage(BaseModel):
    """A recorded cycle in which others started and the job did not."""

    seq: int
    at: str
    started: list[str]
    passed: list[str]  # those of them that stood behind the job
    reason: ReasonModel


class ReplayOfJob(BaseModel):
    """What the cycle means for one job."""

    job: ReplayJob
    state: str  # before the cycle
    starts_here: bool
    reason: ReasonModel | None  # why it did not start; None where it does not wait
    blockers: list[BlockerModel]
    ahead: int | None
    ahead_first: list[str]
    passed_by: list[str]  # jobs that started here and stood behind it
    starts_by: str | None


class ReplayAnswer(BaseModel):
    journal: str
    version: str  # of the program that decided then
    seq: int  # the last event before the cycle
    at: str
    recorded: bool  # whether a cycle is on record here
    cycle_seq: tuple[int, int] | None  # its first and last event
    agrees: bool | None  # None: there is nothing on record to agree with
    settings: dict[str, str | int | float | bool | list[str | int | float | bool | None] | None]
    settings_recorded: bool  # false: those of the export, or the usual ones
    running: int
    waiting: int
    digest: str  # of the state before the cycle
    starts: list[ReplayStart]
    preemptions: list[ReplayPreemption]
    others: list[ReplayOther]
    waits: list[ReplayWait]
    untold: int
    differences: list[ReplayDifference]
    job: ReplayOfJob | None
    notes: list[str]
