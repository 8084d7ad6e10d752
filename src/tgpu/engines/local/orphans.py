"""Attempts whose runner was killed: their processes are children of the supervisor from then on."""

import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tgpu.engines.local import record
from tgpu.engines.local.adoption import KILLED_AT_START, RUNNER_KILLED, Adoption
from tgpu.engines.local.attempts import Attempt, Keeper, RecordedAttempts, Stage, now_ms
from tgpu.engines.local.ending import Ending
from tgpu.engines.local.loop import Loop
from tgpu.engines.local.pool import RunnerPool
from tgpu.engines.local.processes import children, output_directories, start_time
from tgpu.engines.local.protocol import Key

# A command whose runner was killed while starting it shows itself once it is executed, after about
# a millisecond. Only a program on a hung disk takes longer than all these looks together.
_LOOK_AGAIN_SECONDS = 0.02
_LOOKS = 250


class EndedChild(NamedTuple):
    pid: int
    is_leader: bool  # of its session, as every command is
    end: record.Exit


class Orphans:
    def __init__(
        self,
        loop: Loop,
        attempts: RecordedAttempts,
        ending: Ending,
        adoption: Adoption,
        pool: RunnerPool,
    ) -> None:
        self._loop = loop
        self._attempts = attempts
        self._ending = ending
        self._adoption = adoption
        self._pool = pool
        self._ambiguous: set[Key] = set()  # an end was seen that may have been this one's

    def take_over(
        self,
        orphaned: list[Attempt],
        ended: list[EndedChild],
        requeue: Callable[[Attempt], None],
    ) -> None:
        """Runners died, and children of ours ended, noticed in the same moment."""
        # First all that is known of each, then the ends: one may belong to any of them.
        for attempt in orphaned:
            attempt.keeper = Keeper.SUPERVISOR
        left, started = list(orphaned), list[Attempt]()

        def sort_out() -> None:
            while left:
                if self._may_run(left[0], requeue):
                    started.append(left[0])
                left.pop(0)  # now, and not before: it may not be known yet, and asked again
            for child in ended:
                self._child_ended(child)
            for attempt in started:
                self._follow(attempt)

        self._loop.when_known(sort_out)

    def _may_run(self, attempt: Attempt, requeue: Callable[[Attempt], None]) -> bool:
        if attempt.stage is Stage.ENDED or self._adoption.over(attempt):
            return False
        claim = record.read_claim(attempt.path, attempt.identity)
        if claim is None:
            attempt.keeper = Keeper.RUNNER
            requeue(attempt)  # nothing was started, and the dead runner never will
            return False
        if claim.runner == 0:
            self._attempts.not_started(attempt, RUNNER_KILLED, retry=True)
            return False
        attempt.learn(claim)
        if claim.main:
            self._name_main(attempt, claim.main, claim.main_start, claim.started_at)
        return True

    def _child_ended(self, child: EndedChild) -> None:
        orphaned = [a for a in self._attempts.live.values() if a.keeper is Keeper.SUPERVISOR]
        unnamed = [attempt for attempt in orphaned if not attempt.main]
        for attempt in orphaned:
            if attempt.main == child.pid:
                attempt.ended = child.end
                self._adoption.main_over(attempt)
                return
        if child.is_leader and len(unnamed) == 1:
            self._name_main(unnamed[0], child.pid, 0, now_ms())
            unnamed[0].ended = child.end
            self._adoption.main_over(unnamed[0])
        elif child.is_leader:
            self._ambiguous.update(attempt.key for attempt in unnamed)

    def _follow(self, attempt: Attempt) -> None:
        self._loop.when_known(lambda: self._follow_main(attempt))

    def _follow_main(self, attempt: Attempt) -> None:
        if attempt.stage is Stage.ENDED:
            return
        if not attempt.main:
            self._look_for_main(attempt, _LOOKS)
        elif attempt.ended is not None or start_time(attempt.main) != attempt.main_start:
            self._adoption.main_over(attempt)
        # Else it is our child, alive or a zombie, and its end will be told.

    def _look_for_main(self, attempt: Attempt, looks: int) -> None:
        """The runner did not come to say which process it started, or whether it did."""
        if attempt.stage is Stage.ENDED or attempt.main:
            return
        roots = [process for process in children(os.getpid()) if process.pid not in self._pool]
        for root in roots:
            if attempt.path in output_directories(root.pid):
                self._name_main(attempt, root.pid, root.start, now_ms())
                return
        # Among those not known as anybody's may be one that is not executed yet, or a zombie that
        # will be told to us next.
        unknown = [root for root in roots if self._ending.owner(root) in (None, attempt)]
        if unknown and looks:
            again = partial(self._look_for_main, attempt, looks - 1)
            self._loop.call_later(_LOOK_AGAIN_SECONDS, lambda: self._loop.when_known(again))
            return
        if unknown or attempt.key in self._ambiguous:
            self._attempts.lost(attempt, KILLED_AT_START)
        else:
            # Whatever it had started would be a child of ours now, or have been one.
            cause, retry = attempt.cause or RUNNER_KILLED, attempt.cause is None
            self._attempts.not_started(attempt, cause, retry=retry)
        self._ambiguous.discard(attempt.key)

    def _name_main(self, attempt: Attempt, main: int, main_start: int, started_at: int) -> None:
        if attempt.stage is Stage.HANDED:
            self._attempts.started(attempt, main, main_start, started_at)
            self._ending.arm(attempt)
