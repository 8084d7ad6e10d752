"""Pauses attempts: every process gets STOP, and CONT to resume.

By signals and not by the freezer of a control group: that holds runners too, which are in the same
group, and in version 1 not even KILL reaches what is frozen.
"""

import signal
from typing import Final

from tgpu.engines.local.attempts import Attempt, RecordedAttempts, Stage
from tgpu.engines.local.ending import Ending
from tgpu.engines.local.loop import Loop
from tgpu.engines.local.processes import send_signal

_REPEAT_SECONDS: Final = 0.05
_SLOW_REPEAT_SECONDS: Final = 1.0  # for what waits in the kernel, and stops when it comes back
_QUICK_LOOKS: Final = 20


class Pausing:
    def __init__(self, loop: Loop, attempts: RecordedAttempts, ending: Ending) -> None:
        self._loop = loop
        self._attempts = attempts
        self._ending = ending

    def set(self, attempt: Attempt, paused: bool) -> None:
        """Told again what it is, it is left as it is."""
        if attempt.is_paused is not paused:
            self._attempts.told_to_pause(attempt, paused)
            self.carry_out(attempt)

    def carry_out(self, attempt: Attempt) -> None:
        """Also for a supervisor that finds it in the journal: nobody may have been told yet."""
        if attempt.is_paused:
            self._stop(attempt, 0)
        elif attempt.must_wake:
            self._loop.when_known(lambda: self._wake(attempt))

    def _stop(self, attempt: Attempt, looks: int) -> None:
        self._loop.when_known(lambda: self._stop_all(attempt, looks))

    def _stop_all(self, attempt: Attempt, looks: int) -> None:
        """Until all of it stands still: while one goes on, it may start others."""
        if not attempt.is_paused or attempt.cause is not None or attempt.stage is Stage.ENDED:
            return
        is_begun = attempt.stage is Stage.RUNNING
        moving = [p for p in self._ending.members(attempt) if not p.is_stopped] if is_begun else []
        for process in moving:
            send_signal(process, signal.SIGSTOP)
        if moving or not is_begun:
            wait = _REPEAT_SECONDS if looks < _QUICK_LOOKS else _SLOW_REPEAT_SECONDS
            self._loop.call_later(wait, lambda: self._stop(attempt, looks + 1))

    def _wake(self, attempt: Attempt) -> None:
        if not attempt.must_wake or attempt.stage is Stage.ENDED:
            return
        if attempt.stage is not Stage.RUNNING:  # it is being adopted
            self._loop.call_later(_REPEAT_SECONDS, lambda: self.carry_out(attempt))
            return
        self._ending.wake(attempt)
        attempt.must_wake = False
