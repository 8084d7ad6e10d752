"""Stops an attempt: TERM to each of its processes, a grace period, KILL until none is left.

One that is preempted may get another signal first, and time to write down how far it has come.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from functools import partial

from tgpu.engines.local.attempts import (
    TIME_LIMIT,
    Attempt,
    Keeper,
    RecordedAttempts,
    Stage,
    now_ms,
)
from tgpu.engines.local.loop import Loop
from tgpu.engines.local.pool import RunnerPool
from tgpu.engines.local.processes import (
    CannotTell,
    Process,
    descendants,
    is_alive,
    output_directories,
    read_process,
    send_signal,
)
from tgpu.engines.local.survivors import Survivors

_REPEAT_SECONDS = 0.1
# How long one round may chase processes that fork faster than they die; then others get a turn.
_CHASE_SECONDS = 0.05
# A start takes a millisecond. One that takes longer waits for a slow disk, or for ever.
_START_SECONDS = 2.0
# After this long under KILL a process is not slow but held by the kernel (a hung disk or driver).
_STUCK_SECONDS = 5.0


class Ending:
    def __init__(
        self, loop: Loop, attempts: RecordedAttempts, pool: RunnerPool, survivors: Survivors
    ) -> None:
        self._survivors = survivors
        self._loop = loop
        self._attempts = attempts
        self._pool = pool

    def arm(self, attempt: Attempt) -> None:
        """Begin the end it was told before it ran, or set its time limit."""
        if attempt.cause is not None:
            self.begin(attempt)
        elif attempt.time_limit_ms is not None and attempt.limit is None:
            left_ms = (attempt.started_at or now_ms()) + attempt.time_limit_ms - now_ms()
            attempt.limit = self._loop.call_later(
                max(0, left_ms) / 1000, lambda: self._limit_reached(attempt)
            )

    def begin(self, attempt: Attempt) -> None:
        """Once per attempt; later calls change nothing, unless a notice was taken back."""
        if attempt.is_ending:
            return
        if attempt.notice is not None and _may_live(attempt):
            self._give_notice(attempt, *attempt.notice)
            return
        attempt.is_ending = True
        told: set[tuple[int, int]] = set()
        self._loop.when_known(lambda: self._terminate(attempt, told))
        if attempt.is_paused:  # what stands still would not see it
            self._loop.when_known(lambda: self.wake(attempt))
        killer = _Killer(self._loop, attempt, self)
        self._loop.call_later(attempt.grace_ms / 1000, killer.kill)

    def end_start(self, attempt: Attempt) -> None:
        """It is being started and shall end. If that takes long, something hangs: end that."""
        self._loop.call_later(_START_SECONDS, lambda: self._end_slow_start(attempt))

    def _end_slow_start(self, attempt: Attempt) -> None:
        if attempt.stage in (Stage.RUNNING, Stage.ENDED) or attempt.is_ending:
            return
        attempt.notice = None  # there is no command yet that could save anything
        self.begin(attempt)
        wait = attempt.grace_ms / 1000 + _START_SECONDS
        self._loop.call_later(wait, lambda: self._end_runner(attempt))

    def _end_runner(self, attempt: Attempt) -> None:
        """It has no child that could hang: it hangs itself, going to the job's directory."""
        if attempt.stage not in (Stage.RUNNING, Stage.ENDED):
            self._loop.when_known(lambda: self._kill_runner(attempt))

    def _kill_runner(self, attempt: Attempt) -> None:
        runner = read_process(attempt.runner) if attempt.runner else None
        if runner is not None and not descendants(attempt.runner):
            send_signal(runner, signal.SIGKILL)

    def _give_notice(self, attempt: Attempt, number: int, wait_ms: int) -> None:
        # To the command alone: its helpers would die of a signal that they do not expect.
        if attempt.is_noticed:
            return
        attempt.is_noticed = True
        self._loop.when_known(lambda: _notify(attempt, number))
        if attempt.is_paused:
            self._loop.when_known(lambda: self.wake(attempt))
        self._loop.call_later(wait_ms / 1000, lambda: self._notice_over(attempt))

    def _notice_over(self, attempt: Attempt) -> None:
        if attempt.stage is not Stage.ENDED:
            attempt.notice = None
            self.begin(attempt)

    def wake(self, attempt: Attempt) -> None:
        """Have all of it go on. Raises CannotTell."""
        for process in self.members(attempt):
            send_signal(process, signal.SIGCONT)

    def when_gone(self, attempt: Attempt, callback: Callable[[], None]) -> None:
        """For attempts no runner watches: end what is left, and call back when nothing is."""
        try:
            members = self.members(attempt) or self.members(attempt, fresh=True)
            hidden = None if members else self._hidden(attempt)
        except CannotTell:
            pass  # what we cannot see may be there
        else:
            if members:
                self.begin(attempt)
            elif hidden is not None:
                self._say_hidden(attempt, hidden)
            else:
                callback()
                return
        self._loop.call_later(_REPEAT_SECONDS, lambda: self.when_gone(attempt, callback))

    def members(self, attempt: Attempt, *, fresh: bool = False) -> list[Process]:
        """The attempt's living processes, by nothing remembered if `fresh`. Raises CannotTell."""
        match attempt.keeper:
            case Keeper.RUNNER | Keeper.OLD_RUNNER:
                return descendants(attempt.runner) if attempt.runner else []
            case Keeper.SUPERVISOR:
                return self._orphans(attempt)
            case Keeper.NOBODY:
                return self._survivors.of(attempt, skip=self._pool, fresh=fresh)

    def say_stuck(self, attempt: Attempt, process: Process) -> None:
        cause = (
            f"it is being stopped, but the kernel does not let go of process {process.pid} "
            f"({process.name}, state {process.state}) yet"
        )
        self._attempts.news.append(self._attempts.running(attempt, cause))

    def _hidden(self, attempt: Attempt) -> Process | None:
        if attempt.keeper is not Keeper.NOBODY:
            return None  # whoever is its parent knows all
        return self._survivors.hidden(attempt, skip=self._pool)

    def _say_hidden(self, attempt: Attempt, process: Process) -> None:
        cause = (
            f"its command is over, but process {process.pid} ({process.name}), started since then "
            "by the same user, cannot be inspected and may belong to it: kill that process, or wait"
        )
        if cause != attempt.told_hidden:
            attempt.told_hidden = cause
            self._attempts.news.append(self._attempts.running(attempt, cause))

    def _limit_reached(self, attempt: Attempt) -> None:
        if attempt.stage is Stage.RUNNING and attempt.ended is None:
            self._attempts.told_to_end(attempt, TIME_LIMIT)
            self.begin(attempt)

    def _terminate(self, attempt: Attempt, told: set[tuple[int, int]]) -> None:
        # Each process gets TERM once: to some, a second one means "at once". A program that starts
        # another to clean up is left alone until the grace is over.
        if attempt.stage is Stage.ENDED:
            return
        for _ in range(3):
            new = [p for p in self.members(attempt) if (p.pid, p.start) not in told]
            for process in new:
                send_signal(process, signal.SIGTERM)
                told.add((process.pid, process.start))
                send_signal(process, signal.SIGCONT)  # a stopped process cannot obey
        if not told:
            # Over by now, or its runner was killed this moment and its processes are found below
            # us only after we have noticed.
            again = partial(self._terminate, attempt, told)
            self._loop.call_later(_REPEAT_SECONDS, lambda: self._loop.when_known(again))

    def owner(self, root: Process) -> Attempt | None:
        """Whose a child of ours is, if it is not a runner: its runner was killed.

        Raises CannotTell.
        """
        outputs = output_directories(root.pid)
        live = self._attempts.live.values()
        for attempt in live:
            if attempt.main in (root.pid, root.session) or attempt.path in outputs:
                return attempt
        for attempt in live:
            if attempt.keeper is Keeper.SUPERVISOR and self._survivors.is_marked(root, attempt):
                return attempt
        # It cut all ties. If only one attempt has lost its runner it is that one's. With several
        # it stays unassigned until one is left: better late than killed with the wrong job.
        orphaned = [attempt for attempt in live if attempt.keeper is Keeper.SUPERVISOR]
        return orphaned[0] if len(orphaned) == 1 and self._all_runners_live() else None

    def _orphans(self, attempt: Attempt) -> list[Process]:
        """Those of our own children, runners apart, that came from this attempt's dead runner."""
        mine = descendants(os.getpid(), skip=self._pool)
        roots = [process for process in mine if process.ppid == os.getpid()]
        foreign = [root.pid for root in roots if self.owner(root) is not attempt]
        return descendants(os.getpid(), skip=[*self._pool, *foreign])

    def _all_runners_live(self) -> bool:
        """Else one has just died, and its job's processes are ours before we know it."""
        found = [read_process(pid) for pid in self._pool]
        return all(process is not None and not process.is_over for process in found)


class _Killer:
    """KILL in rounds."""

    def __init__(self, loop: Loop, attempt: Attempt, ending: Ending) -> None:
        self._loop = loop
        self._attempt = attempt
        self._ending = ending
        self._began_at: float | None = None
        self._said = False

    def kill(self) -> None:
        if self._attempt.stage is Stage.ENDED:
            return
        now = time.monotonic()
        self._began_at = self._began_at or now
        try:
            left = self._round(now + _CHASE_SECONDS)
        except CannotTell:
            left = []  # the next round knows more
        if left and not self._said and now - self._began_at > _STUCK_SECONDS:
            self._said = True
            self._ending.say_stuck(self._attempt, left[0])
        self._loop.call_later(_REPEAT_SECONDS, self.kill)

    def _round(self, until: float) -> list[Process]:
        """Kill until nothing new turns up three times running; what was there at last."""
        killed: set[tuple[int, int]] = set()
        quiet = 0
        members: list[Process] = []
        while quiet < 3 and time.monotonic() < until:
            members = self._ending.members(self._attempt)
            new = [p for p in members if (p.pid, p.start) not in killed]
            quiet = 0 if new else quiet + 1
            # A group dies at once, while a list of processes may grow as it is walked. Groups of
            # the command's own session only: those are the attempt's for certain.
            for group in {p.group for p in new if p.session == self._attempt.main}:
                with contextlib.suppress(OSError):
                    os.killpg(group, signal.SIGKILL)
            for process in new:
                killed.add((process.pid, process.start))
                send_signal(process, signal.SIGKILL)
        return members


def _may_live(attempt: Attempt) -> bool:
    try:
        return is_alive(attempt.main, attempt.main_start)
    except CannotTell:
        return True


def _notify(attempt: Attempt, number: int) -> None:
    main = read_process(attempt.main)
    if main is not None and main.start == attempt.main_start:
        send_signal(main, number)
