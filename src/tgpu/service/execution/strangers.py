"""Attempts of the engine that this database does not know.

They are of a job that was submitted after the backup was made which is in use now, or of another
database that was used with this data directory. Nobody ends them for that: they run until they are
over by themselves, or until an operator asks for their end.
"""

from collections.abc import Iterable, Sequence

import structlog

from tgpu.core.model.ids import JobId
from tgpu.core.state.cluster_state import State
from tgpu.engines.api import AttemptKey, Observation
from tgpu.store.api import JobQuery, Store

_log = structlog.get_logger("gpu_scheduler.attempts")

_ASKED_AT_ONCE = 1000


class Strangers:
    def __init__(self, state: State, store: Store) -> None:
        self._state = state
        self._store = store
        self.running: dict[AttemptKey, Observation] = {}

    async def take_out(
        self, batch: Sequence[Observation]
    ) -> tuple[list[Observation], list[Observation]]:
        """What is about our jobs, and what is not."""
        unknown = await self.unknown(seen.key for seen in batch)
        for seen in batch:
            if seen.key in unknown:
                self._note(seen)
        ours = [seen for seen in batch if seen.key not in unknown]
        return ours, [seen for seen in batch if seen.key in unknown]

    async def unknown(self, keys: Iterable[AttemptKey]) -> set[AttemptKey]:
        """Those of these that no job of ours has, whether it is over or not. Asks the store."""
        doubtful = [key for key in keys if not self._lives(key)]
        found: set[AttemptKey] = set()
        for start in range(0, len(doubtful), _ASKED_AT_ONCE):
            part = doubtful[start : start + _ASKED_AT_ONCE]
            ids = tuple({JobId(key.job_id) for key in part})
            stored = await self._store.jobs(JobQuery(job_ids=ids, limit=len(ids)))
            known = {each.job.job_id: (each.job.identity, each.progress.attempt) for each in stored}
            found |= {key for key in part if not _is_ours(key, known.get(JobId(key.job_id)))}
        return found

    def _lives(self, key: AttemptKey) -> bool:
        entry = self._state.entry(JobId(key.job_id))
        return entry is not None and _is_ours(key, (entry.job.identity, entry.progress.attempt))

    def _note(self, seen: Observation) -> None:
        if not seen.is_over:
            if seen.key not in self.running:
                _log.warning(
                    "an attempt runs that this database does not know; it is left alone",
                    **_named(seen),
                )
            self.running[seen.key] = seen
            return
        self.running.pop(seen.key, None)
        _log.warning(
            "an attempt that this database does not know is over; its record stays on disk",
            **_named(seen),
            phase=str(seen.phase),
            exit_code=seen.exit_code,
        )

    def problems(self) -> list[str]:
        if not self.running:
            return []
        names = ", ".join(
            f"{key.job_id} attempt {key.attempt}{seen.known_as}"
            for key, seen in sorted(self.running.items())[:5]
        )
        more = f" and {len(self.running) - 5} more" if len(self.running) > 5 else ""
        return [
            f"jobs run that this database does not know: {names}{more}; they are left alone until"
            " they end. To end them: tgpu stop, tgpu db pair --end-unknown, tgpu start"
        ]


def _is_ours(key: AttemptKey, known: tuple[str, int] | None) -> bool:
    """An attempt that the job has not come to yet was decided by nobody who is on record here:
    the database was put back from a backup. When it comes to it, it finds that it runs."""
    return known is not None and known[0] == key.identity and key.attempt <= known[1]


def _named(seen: Observation) -> dict[str, object]:
    key = seen.key
    return {"job_id": key.job_id, "attempt": key.attempt, "uuid": key.identity, "pid": seen.pid}
