"""The service with a fault: `python faulty_service.py STEP serve …`.

A bug behind the commits strikes at the commit of a job named "boom", once it is durable; "half" in
the midst of the commit of a selection.
"""

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tgpu.cli.main import run
from tgpu.core.model.events import Event, JobsSubmitted
from tgpu.core.state.cluster_state import State
from tgpu.service.feed.feed import Feed
from tgpu.service.service import Service
from tgpu.store import sqlite_write
from tgpu.store.api import Record
from tgpu.store.rows import FlatRows
from tgpu.store.sqlite import SqliteStore


def strikes(events: Sequence[Event]) -> bool:
    return any(
        job.job_id == "boom"
        for event in events
        if isinstance(event, JobsSubmitted)
        for job in event.jobs
    )


def before(owner: type, name: str, events_of: Callable[..., Sequence[Event]], act: object) -> None:
    real = getattr(owner, name)

    def faulty(*arguments: Any) -> Any:
        if strikes(events_of(*arguments)):
            assert callable(act)
            act()
        return real(*arguments)

    setattr(owner, name, faulty)


def bug() -> None:
    raise ZeroDivisionError("a bug for the test")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    """Commits of SQLite, for as long as a file is there: a disk that does not answer."""
    real = SqliteStore._commit
    frozen = Path(os.environ["FAULTY_FROZEN"])

    def slow(self: SqliteStore, record: Record) -> int:
        while frozen.exists():
            time.sleep(0.01)
        return real(self, record)

    SqliteStore._commit = slow  # type: ignore[method-assign]  # for the test alone


def half() -> None:
    """Killed in the midst of a commit that moves many jobs, when SQLite has all of them."""
    real = sqlite_write._set_the_rest

    def set_the_rest(connection: sqlite3.Connection, rows: FlatRows) -> None:
        if len(rows.moves) > 50:
            die()
        real(connection, rows)

    sqlite_write._set_the_rest = set_the_rest


STEPS: dict[str, Callable[[], None]] = {
    "publish": lambda: before(Feed, "publish", lambda _, events, *__: events, bug),
    "apply": lambda: before(State, "apply", lambda _, event: [event], bug),
    "published": lambda: before(Service, "_published", lambda _, events: events, bug),
    "hang": hang,
    "half": half,
    "killed": lambda: before(State, "apply", lambda _, event: [event], die),
}

if __name__ == "__main__":
    STEPS[sys.argv.pop(1)]()
    run()
