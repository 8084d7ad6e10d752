"""A whole array or sweep, as /api/v1 shows it."""

from pydantic import BaseModel, ConfigDict


class ArraySummary(BaseModel):
    """Progress of an array and the results of its jobs. Times are ISO 8601 in UTC."""

    model_config = ConfigDict(extra="forbid")

    array_id: str
    tenant_id: str
    name: str
    user: str
    state: str  # running, pending, or once all are over: failed, cancelled, completed
    is_over: bool
    total: int
    states: dict[str, int]  # how many elements are in each
    indexes: str  # "1-100", "1,3,5-9"
    max_running: int | None
    command: list[str]  # of the first element
    params: dict[str, list[str]]  # of a sweep: the first 50 values of each
    gpu_count: float  # of each element
    # How the elements that are over ended: "0", "3", "signal 9", "cancelled", "failed".
    exit_codes: dict[str, int]
    exit_code: int  # the highest of them, as a shell has it; 0 where all went well so far
    failed: list[str]  # ids of elements that failed; the first 100
    failed_indexes: str  # of all that failed: "3,7-9"
    next_waiting: str | None  # the element that is next in line
    rerun_of: str | None  # the array whose elements it runs again
    submitted_at: str
    started_at: str | None  # the first of them
    ended_at: str | None  # the last of them, once all are over
    run_seconds: float  # with GPUs, all attempts of all elements together
    gpu_hours: float
    lost_gpu_hours: float  # of these, what preemption cost
    cost: float | None  # null where no price is set
