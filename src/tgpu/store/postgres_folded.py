"""Lists from PostgreSQL in which an array is one row: see `folding`."""

from dataclasses import replace
from typing import cast

from tgpu.core.model.lifecycle import JobState
from tgpu.store import codec
from tgpu.store.api import FoldedJob, JobQuery
from tgpu.store.folding import TALLY, WALK, Folding, StateTally
from tgpu.store.postgres_connect import Connection
from tgpu.store.postgres_read import conditions, numbered


def folded(connection: Connection, query: JobQuery, values: codec.SharedValues) -> list[FoldedJob]:
    found: list[int] = []
    for state in query.states or (None,):
        found += _walk(connection, query, state)
    rows = connection.execute(TALLY.format(among="= ANY(%s)").encode(), [found]).fetchall()
    tallies = (
        StateTally(found_by, JobState(state), count, first, last, ended_at)
        for found_by, state, count, first, last, ended_at in cast(
            list[tuple[int, str, int, int, int, int | None]], rows
        )
    )
    page = Folding(found, tallies, query.limit)
    return page.rows(numbered(connection, page.numbers(), values))


def _walk(connection: Connection, query: JobQuery, state: JobState | None) -> list[int]:
    wanted, parameters = conditions(replace(query, before=None))
    if state is not None:
        wanted.append(f"state = '{state.value}'")
    bound = "TRUE" if query.before is None else "number < %s"
    before: list[object] = [] if query.before is None else [query.before]
    walk = WALK.format(where=" AND ".join(["TRUE", *wanted]), bound=bound, mark="%s")
    rows = connection.execute(walk.encode(), [*parameters, *before, *parameters, query.limit])
    return [number for (number,) in cast(list[tuple[int]], rows.fetchall())]
