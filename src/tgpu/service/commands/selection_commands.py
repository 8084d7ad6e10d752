"""Commands on a selection of jobs: one decision and one commit, with no cycle in between.

Job by job, each end would make room for the next waiting job before that is cancelled itself: of an
array that is cancelled nearly every element would start. Here all are decided on the same state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tgpu.core.model.events import Event, JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import PLACED, JobState, Move
from tgpu.core.state.cluster_state import Entry, State
from tgpu.service.commands.job_changes import (
    cancel_job,
    hold_job,
    pause_job,
    rerank_job,
    resume_job,
)
from tgpu.service.commands.selection import Picked, Refusal, Selection, pick
from tgpu.service.recording import audit
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store
from tgpu.text.plurals import plural


class SelectionChange(StrEnum):
    """What can be done to many jobs at once."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    PRIORITY = "priority"
    PAUSE = "pause"
    RESUME = "resume"


class Left(StrEnum):
    """Why a job of a selection was left as it is."""

    OVER = "over"
    ENDING = "ending"
    RUNS = "runs"
    HELD = "held"
    NOT_HELD = "not_held"
    SAME = "same"
    WAITS = "waits"
    LEASE = "lease"
    PAUSED = "paused"
    NOT_PAUSED = "not_paused"
    STATE = "state"  # in none of the states asked for


@dataclass(frozen=True, slots=True)
class Changed:
    """What came of a command. `moved`: the ids that changed, with the state before."""

    moved: dict[JobId, JobState]
    left: dict[Left, list[JobId]]
    leases: int = 0  # of those that ran: they are over at once
    unrecorded: str | None = None  # why it is not on record yet, though the engine was told


class SelectionCommands:
    def __init__(self, state: State, store: Store, writer: Writer, clock: Clock) -> None:
        self._state = state
        self._store = store
        self._writer = writer
        self._clock = clock

    async def pick(self, selection: Selection, refusal: Refusal) -> Picked:
        """The jobs that it means: see `selection.pick`."""
        return await pick(self._state, self._store, selection, refusal)

    async def change(
        self,
        change: SelectionChange,
        job_ids: Sequence[JobId],
        selection: Selection,
        *,
        cause: str = "",
        priority: int = 0,
    ) -> Changed:
        """All of them in one commit. `cause`: of a cancel."""
        trail = audit.current()

        def decide(state: State) -> Decision[Changed]:
            now = self._clock.now()
            moved: dict[JobId, JobState] = {}
            left: dict[Left, list[JobId]] = {}
            events: list[Event] = []
            leases = 0
            for job_id in job_ids:
                entry = state.entry(job_id)
                reason = _left_alone(change, entry, selection.states, priority)
                if entry is None or reason is not None:
                    left.setdefault(reason or Left.OVER, []).append(job_id)
                    continue
                event = _event(change, entry, now, cause, priority)
                moved[job_id] = entry.progress.state
                events.append(event)
                is_over = isinstance(event, JobMoved) and event.move is Move.CANCEL
                leases += is_over and entry.progress.state in PLACED
            if trail is not None and events:
                trail.target = selection.told()
                trail.detail = f"{change}: {plural(len(events), 'job')}"
            return Decision(Changed(moved, left, leases), events)

        return await self._writer.do(decide, touches=None)


def _left_alone(
    change: SelectionChange, entry: Entry | None, states: frozenset[JobState], priority: int
) -> Left | None:
    """None where the change can be made."""
    if entry is None:
        return Left.OVER
    progress = entry.progress
    if states and progress.state not in states:
        return Left.STATE
    if change is SelectionChange.CANCEL:
        is_asked = progress.stopping and progress.gives_way_to is None and not progress.held
        return Left.ENDING if is_asked else None
    if change in (SelectionChange.PAUSE, SelectionChange.RESUME):
        return _not_paused(change, entry)
    if progress.state is not JobState.PENDING:
        return Left.RUNS
    has_it = {
        SelectionChange.HOLD: (progress.held, Left.HELD),
        SelectionChange.RELEASE: (not progress.held, Left.NOT_HELD),
        SelectionChange.PRIORITY: (entry.job.priority == priority, Left.SAME),
    }
    is_so, reason = has_it[change]
    return reason if is_so else None


def _not_paused(change: SelectionChange, entry: Entry) -> Left | None:
    """Why a job is not paused, or not resumed; None where it can be."""
    progress = entry.progress
    if entry.job.options.lease:
        return Left.LEASE
    if progress.stopping:
        return Left.ENDING
    if progress.state is not JobState.RUNNING:
        return Left.WAITS
    if change is SelectionChange.PAUSE:
        return None if progress.paused_at is None else Left.PAUSED
    return Left.NOT_PAUSED if progress.paused_at is None else None


def _event(change: SelectionChange, entry: Entry, now: int, cause: str, priority: int) -> Event:
    match change:
        case SelectionChange.CANCEL:
            return cancel_job(entry, now, cause)
        case SelectionChange.HOLD | SelectionChange.RELEASE:
            return hold_job(entry, now, held=change is SelectionChange.HOLD)
        case SelectionChange.PRIORITY:
            changed = rerank_job(entry, now, priority)
            assert changed is not None  # those that have it already were left alone
            return changed
        case SelectionChange.PAUSE:
            paused = pause_job(entry, now)
            assert paused is not None  # those that are already were left alone
            return paused
        case SelectionChange.RESUME:
            return resume_job(entry, now)
