"""The life of a job: its states, the closed table of legal moves, and what each move changes.

Whatever is not in `MOVES` is refused. A missing edge leaks GPUs in other schedulers; here a test
goes through every pair.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tgpu.core.errors import IllegalMove
from tgpu.core.model.cause import Fault
from tgpu.core.model.ids import JobId
from tgpu.core.model.node import Placement


class JobState(StrEnum):
    PENDING = "pending"
    SCHEDULED = "scheduled"  # decided and on record; the engine has not confirmed it yet
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"  # on its way back to pending


class Move(StrEnum):
    START = "start"
    RUN = "run"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "be cancelled"
    REQUEUE = "be requeued"
    PREEMPT = "be preempted"
    STOP = "be stopped"
    NOMINATE = "be promised room"
    CHECKPOINT = "mark a checkpoint"
    NOTE = "be told something"
    HOLD = "be held"
    RELEASE = "be released"
    PAUSE = "be paused"
    RESUME = "be resumed"


TERMINAL: Final = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})
PLACED: Final = frozenset({JobState.SCHEDULED, JobState.RUNNING})

_S, _M = JobState, Move
_START: Final = Move.START  # at hand: names of an enum are looked up each time
MOVES: Final = MappingProxyType(
    {
        (_S.PENDING, _M.START): _S.SCHEDULED,
        (_S.PENDING, _M.CANCEL): _S.CANCELLED,
        (_S.PENDING, _M.HOLD): _S.PENDING,
        (_S.PENDING, _M.RELEASE): _S.PENDING,
        (_S.PENDING, _M.NOMINATE): _S.PENDING,
        (_S.SCHEDULED, _M.RUN): _S.RUNNING,
        # An attempt may be over before we hear that it began.
        (_S.SCHEDULED, _M.COMPLETE): _S.COMPLETED,
        (_S.SCHEDULED, _M.FAIL): _S.FAILED,
        (_S.SCHEDULED, _M.CANCEL): _S.CANCELLED,
        (_S.SCHEDULED, _M.REQUEUE): _S.PENDING,
        (_S.SCHEDULED, _M.PREEMPT): _S.PREEMPTED,
        (_S.SCHEDULED, _M.STOP): _S.SCHEDULED,
        (_S.RUNNING, _M.COMPLETE): _S.COMPLETED,
        (_S.RUNNING, _M.FAIL): _S.FAILED,
        (_S.RUNNING, _M.CANCEL): _S.CANCELLED,
        (_S.RUNNING, _M.REQUEUE): _S.PENDING,
        (_S.RUNNING, _M.PREEMPT): _S.PREEMPTED,
        (_S.RUNNING, _M.STOP): _S.RUNNING,
        (_S.RUNNING, _M.CHECKPOINT): _S.RUNNING,
        (_S.RUNNING, _M.NOTE): _S.RUNNING,
        (_S.RUNNING, _M.PAUSE): _S.RUNNING,
        (_S.RUNNING, _M.RESUME): _S.RUNNING,
        (_S.PREEMPTED, _M.REQUEUE): _S.PENDING,
        (_S.PREEMPTED, _M.CANCEL): _S.CANCELLED,
    }
)


def next_state(job_id: JobId, state: JobState, move: Move) -> JobState:
    """The state after a move; IllegalMove where the table has none."""
    after = MOVES.get((state, move))
    if after is None:
        raise IllegalMove(job_id, state, move)
    return after


class Progress(Struct, frozen=True, gc=False):
    """What has become of a job so far.

    A struct and not a dataclass because every move makes one: a tenth of the time.
    """

    state: JobState = JobState.PENDING
    attempt: int = 0  # the number of the newest attempt; 0 before the first
    failures: int = 0  # attempts that count against `max_retries`
    restarts: int = 0  # times it went back to pending, for whatever cause
    held: bool = False
    eligible_at: int = 0  # not before this instant (back-off)
    placement: Placement | None = None
    started_at: int | None = None
    ended_at: int | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    cause: str | None = None  # why it ended, waits again, or is being stopped
    stopping: bool = False  # its end was asked for and is on record
    gives_way_to: JobId | None = None  # … because this job gets its GPUs: it will be requeued
    checkpoint_at: int | None = None  # what it did before this is not lost when it is ended
    preemptions: int = 0  # times it was preempted
    lost_gpu_millis_ms: int = 0  # GPU time that those times cost it
    # GPUs that others are giving up for this waiting job, its nomination: it is served first, on
    # these if it can. By the name it is stored under.
    claim: Placement | None = None
    fault: Fault | None = None  # whose doing it was that its last attempt did not end well
    ran_ms: int = 0  # how long its earlier attempts had their GPUs, all together
    held_by: str = ""  # who put it on hold, where somebody did
    paused_at: int | None = None  # its processes stand still since then; its GPUs are still its own
    paused_by: str = ""  # who asked for it
    paused_ms: int = 0  # how long this attempt stood still before that, all together
    free_restarts: int = 0  # times the infrastructure failed it: they count against no retries


PENDING: Final = Progress()
PENDING_HELD: Final = Progress(held=True)


def place(job_id: JobId, progress: Progress, placement: Placement, at: int) -> Progress:
    """Start the next attempt on these GPUs."""
    return Progress(  # every job comes here, and by name the fields would take ten times as long
        next_state(job_id, progress.state, _START),
        progress.attempt + 1,
        progress.failures,
        progress.restarts,
        False,
        0,
        placement,
        at,  # started_at
        None,
        None,
        None,
        None,
        None,
        False,
        None,
        None,
        progress.preemptions,
        progress.lost_gpu_millis_ms,
        None,
        None,
        progress.ran_ms,
        free_restarts=progress.free_restarts,
    )


def run(job_id: JobId, progress: Progress, at: int, pid: int | None) -> Progress:
    state = next_state(job_id, progress.state, Move.RUN)
    return replace(progress, state=state, started_at=at, pid=pid)


_END: Final = MappingProxyType(
    {_S.COMPLETED: _M.COMPLETE, _S.FAILED: _M.FAIL, _S.CANCELLED: _M.CANCEL}
)


def end(
    job_id: JobId,
    progress: Progress,
    to: JobState,
    at: int,
    *,
    exit_code: int | None = None,
    signal: int | None = None,
    cause: str | None = None,
) -> Progress:
    """Move to one of the terminal states. The placement stays, as history."""
    return Progress(  # as in `place`
        next_state(job_id, progress.state, _END[to]),
        progress.attempt,
        progress.failures,
        progress.restarts,
        progress.held,
        progress.eligible_at,
        progress.placement,
        progress.started_at,
        at,  # ended_at
        progress.pid,
        exit_code,
        signal,
        cause,
        False,  # stopping
        progress.gives_way_to,
        progress.checkpoint_at,
        progress.preemptions,
        progress.lost_gpu_millis_ms,
        progress.claim,
        None,  # fault
        progress.ran_ms,
        progress.held_by,
        None,  # paused_at
        "",
        paused_ms(progress, at),
        progress.free_restarts,
    )


def requeue(
    job_id: JobId,
    progress: Progress,
    eligible_at: int,
    cause: str,
    counts: bool,
    *,
    at: int | None = None,
    is_free: bool = False,
) -> Progress:
    """Back to the queue, keeping the count of attempts; `counts` spends one retry, `is_free` one of
    those that the infrastructure owes it.

    `at` is when its GPUs were given back, where that was not told before.
    """
    return Progress(
        state=next_state(job_id, progress.state, Move.REQUEUE),
        attempt=progress.attempt,
        failures=progress.failures + counts,
        restarts=progress.restarts + 1,
        eligible_at=eligible_at,
        exit_code=progress.exit_code,
        cause=cause,
        preemptions=progress.preemptions,
        lost_gpu_millis_ms=progress.lost_gpu_millis_ms,
        ran_ms=progress.ran_ms if at is None else ran_ms(progress, at),
        free_restarts=progress.free_restarts + is_free,
    )


def nominate(job_id: JobId, progress: Progress, placement: Placement) -> Progress:
    """Promise a waiting job the GPUs that others give up for it."""
    return replace(
        progress, state=next_state(job_id, progress.state, Move.NOMINATE), claim=placement
    )


def ask_preemption(job_id: JobId, progress: Progress, to: JobId, cause: str) -> Progress:
    """Ask a job to end for another; it keeps its GPUs until nothing of it is left."""
    stopping = stop(job_id, progress, cause)
    return progress if progress.stopping else replace(stopping, gives_way_to=to)


def ran_ms(progress: Progress, at: int) -> int:
    """How long a job had GPUs until then, in all its attempts."""
    if progress.started_at is None or progress.state not in PLACED:
        return progress.ran_ms
    return progress.ran_ms + max(0, at - progress.started_at)


def lost_ms(progress: Progress, at: int) -> int:
    """How much of its run a job loses if it is ended then: all since its last checkpoint."""
    since = at if progress.started_at is None else progress.started_at
    if progress.checkpoint_at is not None:
        since = max(since, progress.checkpoint_at)
    return max(0, at - since)


def preempt(job_id: JobId, progress: Progress, at: int, gpu_millis: int) -> Progress:
    """It was preempted: what it did since its last checkpoint is lost, its age is not."""
    return Progress(
        state=next_state(job_id, progress.state, Move.PREEMPT),
        attempt=progress.attempt,
        failures=progress.failures,
        restarts=progress.restarts,
        exit_code=progress.exit_code,
        cause=progress.cause,
        preemptions=progress.preemptions + 1,
        lost_gpu_millis_ms=progress.lost_gpu_millis_ms + lost_ms(progress, at) * gpu_millis,
        ran_ms=ran_ms(progress, at),
        free_restarts=progress.free_restarts,
    )


def checkpoint(job_id: JobId, progress: Progress, at: int) -> Progress:
    state = next_state(job_id, progress.state, Move.CHECKPOINT)
    return replace(progress, state=state, checkpoint_at=at)


def stop(job_id: JobId, progress: Progress, cause: str) -> Progress:
    """Record that its end was asked for; a first cause is kept, unless it was a preemption."""
    state = next_state(job_id, progress.state, Move.STOP)
    if progress.stopping and progress.gives_way_to is None and not progress.held:
        return progress
    return replace(progress, state=state, stopping=True, cause=cause, gives_way_to=None, held=False)


def put_back(job_id: JobId, progress: Progress, cause: str) -> Progress:
    """Ask a job to end, to wait on hold: until it is over, `held` says what becomes of it."""
    stopping = stop(job_id, progress, cause)
    return progress if progress.stopping else replace(stopping, held=True)


def note(job_id: JobId, progress: Progress, text: str | None) -> Progress:
    """Tell the owner of a running job something about it; None takes it back."""
    state = next_state(job_id, progress.state, Move.NOTE)
    return replace(progress, state=state, cause=text)


def pause(job_id: JobId, progress: Progress, at: int) -> Progress:
    """Have a running job stand still, with its GPUs. One that does already stays as it is."""
    state = next_state(job_id, progress.state, Move.PAUSE)
    if progress.paused_at is not None:
        return progress
    return replace(progress, state=state, paused_at=at)


def resume(job_id: JobId, progress: Progress, at: int) -> Progress:
    """Have it go on."""
    state = next_state(job_id, progress.state, Move.RESUME)
    stood = paused_ms(progress, at)
    return replace(progress, state=state, paused_at=None, paused_by="", paused_ms=stood)


def paused_ms(progress: Progress, at: int) -> int:
    """How long its newest attempt has stood still until then."""
    if progress.paused_at is None:
        return progress.paused_ms
    return progress.paused_ms + max(0, at - progress.paused_at)


def hold(job_id: JobId, progress: Progress, held: bool) -> Progress:
    state = next_state(job_id, progress.state, Move.HOLD if held else Move.RELEASE)
    return replace(progress, state=state, held=held)
