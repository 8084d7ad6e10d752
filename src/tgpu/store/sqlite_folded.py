"""Lists from SQLite in which an array is one row: see `folding`."""

import sqlite3
from dataclasses import replace
from typing import Final

import msgspec

from tgpu.core.model.lifecycle import JobState
from tgpu.store import codec
from tgpu.store.api import FoldedJob, JobQuery
from tgpu.store.folding import TALLY, WALK, Folding, StateTally
from tgpu.store.sqlite_read import conditions, numbered

_ENCODER: Final = msgspec.json.Encoder()
_NUMBERS: Final = msgspec.json.Decoder(list[int])
_TALLIES: Final = msgspec.json.Decoder(list[tuple[int, JobState, int, int, int, int | None]])


def folded(
    connection: sqlite3.Connection, query: JobQuery, values: codec.SharedValues
) -> list[FoldedJob]:
    found: list[int] = []
    for state in query.states or (None,):
        found += _walk(connection, query, state)
    among = "IN (SELECT value FROM json_each(?))"
    tallies = connection.execute(
        "SELECT json_group_array(json_array(found, state, count, first, last, ended_at))"
        f" FROM ({TALLY.format(among=among)})",
        [_ENCODER.encode(found).decode()],
    ).fetchone()[0]
    page = Folding(found, (StateTally(*row) for row in _TALLIES.decode(tallies)), query.limit)
    return page.rows(numbered(connection, page.numbers(), values))


def _walk(connection: sqlite3.Connection, query: JobQuery, state: JobState | None) -> list[int]:
    wanted, parameters = conditions(replace(query, before=None))
    if state is not None:
        wanted.append(f"state = '{state.value}'")
    bound = "TRUE" if query.before is None else "number < ?"
    before = [] if query.before is None else [query.before]
    walk = WALK.format(where=" AND ".join(["TRUE", *wanted]), bound=bound, mark="?")
    row = connection.execute(
        f"SELECT json_group_array(number) FROM ({walk})",
        [*parameters, *before, *parameters, query.limit],
    ).fetchone()
    return _NUMBERS.decode(row[0])
