"""Pages of jobs in which each array or sweep is one row.

The elements of one submission have numbers in a row, without gaps, so that a list steps over all
of them at once. A group is what one submission made: a rerun of one element is a row of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tgpu.core.model.lifecycle import JobState
from tgpu.store.api import FoldedJob, StoredJob

# The element that stands for an array is one of the first of these states that any of them is in:
# why the next one waits says more than that others run.
_TELLING: Final = (
    JobState.PENDING,
    JobState.PREEMPTED,
    JobState.RUNNING,
    JobState.SCHEDULED,
    JobState.FAILED,
    JobState.CANCELLED,
    JobState.COMPLETED,
)
_STARTED: Final = (
    JobState.RUNNING,
    JobState.SCHEDULED,
    JobState.COMPLETED,
    JobState.FAILED,
    JobState.CANCELLED,
)


# Steps from row to row, down an index: below a job comes the next job, below an element what comes
# below all elements of its submission. {where} is the conditions of the list, {bound} those of the
# first row, {mark} how the database writes a parameter.
WALK: Final = """
WITH RECURSIVE walk(number, depth) AS (
    SELECT (SELECT number FROM jobs WHERE {where} AND {bound} ORDER BY number DESC LIMIT 1), 1
    UNION ALL
    SELECT (
        SELECT number FROM jobs WHERE {where} AND number < coalesce(
            (SELECT other.number FROM jobs AS this JOIN jobs AS other
             ON other.array_id = this.array_id AND other.submit_seq = this.submit_seq
             WHERE this.number = walk.number ORDER BY other.number LIMIT 1), walk.number)
        ORDER BY number DESC LIMIT 1), depth + 1
    FROM walk WHERE walk.number IS NOT NULL AND depth < {mark}
)
SELECT number FROM walk WHERE number IS NOT NULL"""

# How many rows there are: jobs of no array, and what each submission made of one.
COUNT_FOLDED: Final = "count(*) - count(array_id) + count(DISTINCT array_id || ' ' || submit_seq)"

# Walks the index of arrays alone.
TALLY: Final = """
SELECT this.number AS found, other.state AS state, count(*) AS count, min(other.number) AS first,
    max(other.number) AS last, max(other.ended_at) AS ended_at
FROM jobs AS this JOIN jobs AS other
    ON other.array_id = this.array_id AND other.submit_seq = this.submit_seq
WHERE this.number {among} GROUP BY this.number, other.state"""


@dataclass(frozen=True, slots=True)
class StateTally:
    """The elements of one group that are in one state."""

    found: int  # the number by which the group was found
    state: JobState
    count: int
    first: int  # the lowest number
    last: int
    ended_at: int | None  # the last of them that ended


@dataclass(slots=True)
class _Group:
    tallies: list[StateTally] = field(default_factory=list)

    @property
    def first(self) -> int:
        return min(tally.first for tally in self.tallies)

    @property
    def last(self) -> int:
        return max(tally.last for tally in self.tallies)

    def first_in(self, states: Sequence[JobState]) -> int | None:
        by_state = {tally.state: tally.first for tally in self.tallies}
        return next((by_state[state] for state in states if state in by_state), None)

    def numbers(self) -> set[int]:
        """Of the elements that must be read to tell of all."""
        firsts = {tally.first for tally in self.tallies if tally.state in _STARTED}
        telling = self.first_in(_TELLING)
        return firsts | {self.first, self.last} | (set() if telling is None else {telling})


class Folding:
    """One page. Told what was found and counted, it says which jobs to read, and makes the rows."""

    def __init__(self, found: Iterable[int], tallies: Iterable[StateTally], limit: int) -> None:
        groups: dict[int, _Group] = {}
        for tally in tallies:
            groups.setdefault(tally.found, _Group()).tallies.append(tally)
        # Found once in each state that it has elements in: it stands where its first one does.
        rows: dict[int, _Group | None] = {}
        for number in found:
            group = groups.get(number)
            rows.setdefault(number if group is None else group.first, group)
        self._rows = {number: rows[number] for number in sorted(rows, reverse=True)[:limit]}

    def numbers(self) -> list[int]:
        wanted: set[int] = set()
        for number, group in self._rows.items():
            wanted |= {number} if group is None else group.numbers()
        return sorted(wanted)

    def rows(self, jobs: Mapping[int, StoredJob]) -> list[FoldedJob]:
        return [_row(number, group, jobs) for number, group in self._rows.items()]


def _row(number: int, group: _Group | None, jobs: Mapping[int, StoredJob]) -> FoldedJob:
    if group is None or group.first == group.last:
        return FoldedJob(number, jobs[number])
    starts = [jobs[t.first].progress.started_at for t in group.tallies if t.state in _STARTED]
    ends = [tally.ended_at for tally in group.tallies if tally.ended_at is not None]
    telling = group.first_in(_TELLING)
    return FoldedJob(
        number,
        jobs[group.last if telling is None else telling],
        states={tally.state: tally.count for tally in group.tallies},
        first_index=_index(jobs[group.first]),
        last_index=_index(jobs[group.last]),
        started_at=min((at for at in starts if at is not None), default=None),
        ended_at=max(ends, default=None),
    )


def _index(stored: StoredJob) -> int:
    return 0 if stored.job.array is None else stored.job.array.index
