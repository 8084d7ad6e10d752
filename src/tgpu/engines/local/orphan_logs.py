"""Log limits of attempts whose runner was killed, enforced by the supervisor."""

import contextlib
import os
from typing import Final

from tgpu.engines.attempt_files import open_attempt
from tgpu.engines.local import record
from tgpu.engines.local.attempts import Keeper, RecordedAttempts
from tgpu.engines.local.log_limit import LogLimit
from tgpu.engines.local.loop import Loop
from tgpu.engines.local.processes import CannotTell
from tgpu.engines.local.protocol import Key

_PAUSE_SECONDS: Final = 1.0
_ORPHANED: Final = (Keeper.SUPERVISOR, Keeper.NOBODY)


class OrphanLogs:
    def __init__(self, loop: Loop, attempts: RecordedAttempts) -> None:
        self._loop = loop
        self._attempts = attempts
        self._limits: dict[Key, LogLimit | None] = {}  # None: it has none, or it cannot be held to
        self._loop.call_later(_PAUSE_SECONDS, self._look)

    def _look(self) -> None:
        orphaned = {a.key: a for a in self._attempts.live.values() if a.keeper in _ORPHANED}
        for key in [key for key in self._limits if key not in orphaned]:
            limit = self._limits.pop(key)
            if limit is not None:
                with contextlib.suppress(OSError):  # what was written since the last look
                    limit.look()
                limit.close()
        for key, attempt in orphaned.items():
            try:
                if key not in self._limits:
                    self._limits[key] = _limit_of(attempt.path)
                limit = self._limits[key]
                if limit is not None:
                    limit.look()
            except (OSError, CannotTell):  # no descriptors: the next look may fare better
                continue
        self._loop.call_later(_PAUSE_SECONDS, self._look)


def _limit_of(path: str) -> LogLimit | None:
    limit = record.read_log_limit(path)
    if not limit:
        return None
    directory = open_attempt(path)
    try:
        return LogLimit(directory, limit)
    finally:
        os.close(directory)
