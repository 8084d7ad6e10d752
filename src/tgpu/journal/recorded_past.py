"""A recorded period: its initial state, its external events, and the run times of its jobs.

What people and machines did (submissions, holds, quotas, nodes) is kept; what the scheduler decided
is not, since it is to be decided again. Jobs in between are remembered by their lives alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median_low
from typing import Final, NamedTuple

from tgpu.core.model.events import (
    BookingRemoved,
    BookingSet,
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    MixSet,
    NodeSet,
    QueueRemoved,
    QueueSet,
    SettingsSet,
    TenantSet,
)
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.lifecycle import TERMINAL, Move
from tgpu.core.model.node import Node
from tgpu.core.prediction.runtimes import History, Predictor
from tgpu.journal.job_histories import JobHistories, JobHistory
from tgpu.journal.lines import Journal, Values, header_line
from tgpu.journal.rebuild import Rebuilt, Tell, rebuild, snapshot_lines
from tgpu.journal.replay import JournalWalk, Step

FOR_EVER: Final = 1 << 60  # ms: longer than any journal

_OUTSIDE: Final = (JobsSubmitted, JobChanged, TenantSet, QueueSet, QueueRemoved, NodeSet)


class Outside(NamedTuple):
    at: int  # never before the one that was recorded before it
    event: Event


class Before(NamedTuple):
    """What a job had when it began."""

    run_ms: int = 0
    held_ms: int = 0
    preemptions: int = 0


NOTHING: Final = Before()


@dataclass(slots=True)
class RecordedPast:
    """Instants are in ms."""

    begins: int
    ends: int
    values: Values | None  # the settings when it begins
    outside: list[Outside] = field(default_factory=list)
    lives: dict[JobId, JobHistory] = field(default_factory=dict)  # of all that were there
    before: dict[JobId, Before] = field(default_factory=dict)  # of those that were there
    unknown: set[JobId] = field(default_factory=set)  # that never ran to an end
    cut: set[JobId] = field(default_factory=set)  # that ran when it ended
    guess_ms: int = 0
    _lines: list[bytes] = field(default_factory=list)
    _predictor: Callable[[], Predictor] = History

    def beginning(self) -> Rebuilt:
        """The state when it began: a new one each time."""
        journal = Journal("snapshot", self._lines)
        return rebuild(journal, self._predictor())

    def tenants(self) -> set[TenantId]:
        """Those that came in between."""
        return {e.tenant.tenant_id for _, e in self.outside if isinstance(e, TenantSet)}

    def nodes(self) -> list[Node]:
        """As they came in between, those that jobs can be on."""
        came = (event.node for _, event in self.outside if isinstance(event, NodeSet))
        return [node for node in came if node.engine]

    def left_ms(self, job_id: JobId) -> int:
        """From when it began; what went on when it ended goes on for ever."""
        life = self.lives[job_id]
        if job_id in self.cut:
            return FOR_EVER
        if job_id in self.unknown:
            return FOR_EVER if life.state in TERMINAL else self.guess_ms
        return max(0, life.run_ms - self.before.get(job_id, NOTHING).run_ms)

    def whole_ms(self, job_id: JobId) -> int:
        """From its very beginning, after it lost all that it did."""
        left = self.left_ms(job_id)
        return left if left == FOR_EVER else left + self.before.get(job_id, NOTHING).run_ms


def read_past(
    journal: Journal,
    predictor: Callable[[], Predictor],
    since: int | None,
    until: int | None,
    tell: Tell | None = None,
) -> RecordedPast | None:
    """None where nothing happened in between."""
    walk = JournalWalk(journal, predictor(), tell)
    reader: _Reader | None = None
    over: list[JobHistory] = []
    lives = JobHistories(over.append)
    is_first = True
    for step in walk.steps():
        if is_first:  # whom a snapshot brought along
            is_first = False
            for entry in walk.rebuilt.state.entries():
                lives.restore(entry.job, entry.progress, walk.rebuilt.at)
        if reader is None and (since is None or step.at >= since):
            # Before the first event of all there was nothing to look at.
            begins = step.at if since is None or not walk.rebuilt.seq else since
            reader = _Reader(walk.rebuilt, predictor, begins, lives)
        if until is not None and step.at >= until:
            break
        for taken in step.rows:
            lives.take(taken.row, taken.event)
        if reader is not None:
            reader.take(step)
            for life in over:
                reader.past.lives[life.job.job_id] = life
        over.clear()
    if until is None and journal.is_whole:
        until = journal.header.exported_at  # nothing happened since then either
    return None if reader is None else reader.finished(lives, until)


class _Reader:
    def __init__(
        self, rebuilt: Rebuilt, predictor: Callable[[], Predictor], begins: int, lives: JobHistories
    ) -> None:
        rebuilt.at = max(rebuilt.at, begins)
        lines = [header_line(exported_at=begins, last_seq=rebuilt.seq, after=rebuilt.seq)]
        lines += snapshot_lines(rebuilt)
        self.past = RecordedPast(
            begins, begins, rebuilt.values(), _lines=lines, _predictor=predictor
        )
        self._at = begins
        for job_id, life in lives.live.items():
            had = 0 if life.since is None else begins - life.since
            before = Before(life.run_ms + had, life.held_ms + had, life.preemptions)
            self.past.before[job_id] = before

    def take(self, step: Step) -> None:
        if step.comes_at != step.at:  # a step of the clock
            self.past.outside.append(Outside(max(self._at, step.comes_at), step.rows[0].event))
            self._at = step.at
            return
        self._at = max(self._at, step.at)
        for event in step.events():
            if _is_from_outside(event, step):
                self.past.outside.append(Outside(self._at, event))

    def finished(self, lives: JobHistories, until: int | None) -> RecordedPast:
        past = self.past
        past.ends = max(self._at, until or 0)
        ran = [life.run_ms for life in past.lives.values() if life.first_start is not None]
        past.guess_ms = median_low(ran) if ran else 3_600_000
        for job_id, life in lives.live.items():
            past.lives[job_id] = life
            if life.since is not None:
                life.held_ms += max(0, past.ends - life.since)
                past.cut.add(job_id)
        past.unknown = {
            job_id
            for job_id, life in past.lives.items()
            if job_id not in past.cut and not life.ended_by_itself
        }
        return past


def _is_from_outside(event: Event, step: Step) -> bool:
    if isinstance(event, JobMoved):
        if event.move in (Move.HOLD, Move.RELEASE):
            return True
        # Who waits is cancelled by people; who runs ends when its time is over.
        return event.move is Move.CANCEL and not step.is_cycle and event.progress.started_at is None
    if isinstance(event, BookingSet | BookingRemoved):
        return not step.is_cycle
    return isinstance(event, (*_OUTSIDE, SettingsSet, MixSet))
