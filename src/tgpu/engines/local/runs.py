"""Every start that the local engine has on record: for whoever checks a history."""

from collections.abc import Iterator
from pathlib import Path

from tgpu.engines.api import AttemptKey, RecordedStart
from tgpu.engines.local import record
from tgpu.engines.local.paths import JOBS, RECORD
from tgpu.engines.local.processes import is_alive


def read_runs(directory: Path) -> list[RecordedStart]:
    """Of the engine's directory; blocks for as long as the disk takes. Raises CannotTell."""
    found: list[RecordedStart] = []
    for path in sorted((directory / JOBS).glob(f"*/*/{RECORD}")):
        job_id, number = path.parts[-3], path.parts[-2].partition(".")[0]
        if number.isdecimal():
            found += _runs_of(job_id, int(number), str(path.parent))
    return found


def _runs_of(job_id: str, attempt: int, path: str) -> Iterator[RecordedStart]:
    """One for each time that a command was started: more than one is what must never be."""
    claim = record.read_any_claim(path)
    if claim is None or claim.void:
        return
    key = AttemptKey(job_id, attempt, claim.identity)
    end = record.read_exit(path, claim.identity)
    ended_at = None if end is None else end.gone_at or end.ended_at
    lives = end is None and bool(claim.main) and is_alive(claim.main, claim.main_start)
    for started_at in record.read_starts(path):
        yield RecordedStart(key, started_at, ended_at, is_alive=lives)
