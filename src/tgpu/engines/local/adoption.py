"""Attempts left by a former supervisor: what their records and processes show.

Every attempt that was live when a supervisor died comes through here once. Each is told apart by
facts that cannot be mistaken: the claim, the lock on the directory, the exit record, and pid with
start time.
"""

from tgpu.engines.attempt_files import NotPlain
from tgpu.engines.local import record
from tgpu.engines.local.attempts import Attempt, Keeper, RecordedAttempts, Stage, now_ms
from tgpu.engines.local.ending import Ending
from tgpu.engines.local.loop import Loop
from tgpu.engines.local.processes import (
    all_processes,
    is_alive,
    output_directories,
)

REBOOTED = "the machine was rebooted"
NEVER_STARTED = "the supervisor was restarted before the command was started"
RUNNER_KILLED = "its runner was killed before the command was started"
BOTH_KILLED = "its exit code was lost: supervisor and runner were both killed"
KILLED_AT_END = "its exit code was lost: its runner was killed as the command ended"
IN_THE_WAY = "its directory cannot be used, {}: another process put that there"
KILLED_AT_START = "its exit code was lost: its runner was killed as it started the command"

# How often to look again at a runner that has claimed an attempt but not yet named its process:
# starting a command takes about a millisecond, unless its directory is on a slow disk.
_LOOK_AGAIN_SECONDS = 0.05
_TRY_AGAIN_SECONDS = 1.0


class Adoption:
    def __init__(self, loop: Loop, attempts: RecordedAttempts, ending: Ending) -> None:
        self._loop = loop
        self._attempts = attempts
        self._ending = ending

    def resolve(self, attempt: Attempt) -> None:
        """Find out what became of an attempt that another supervisor handed to a runner."""
        self._loop.when_known(lambda: self._resolve_or_wait(attempt))

    def _resolve_or_wait(self, attempt: Attempt) -> None:
        try:
            self._resolve(attempt)
        except NotPlain as error:
            attempt.keeper, cause = Keeper.NOBODY, IN_THE_WAY.format(error.strerror)
            self._ending.when_gone(attempt, lambda: self._not_started(attempt, cause))
        except OSError:
            # A full disk, no descriptors left: nothing is known yet, and nothing may be guessed.
            self._loop.call_later(_TRY_AGAIN_SECONDS, lambda: self.resolve(attempt))

    def _resolve(self, attempt: Attempt) -> None:
        if attempt.stage is Stage.ENDED:
            return
        if self.over(attempt):
            return
        if attempt.boot != self._attempts.boot:
            self._attempts.lost(attempt, REBOOTED)
        elif (claim := self._claim(attempt)) is None:
            self._attempts.not_started(attempt, NEVER_STARTED, retry=True)
        elif claim.boot and claim.boot != self._attempts.boot:
            self._attempts.lost(attempt, REBOOTED)
        elif record.is_locked(attempt.path):
            self._watch_runner(attempt, claim)
        # The lock is given up after the last write, so only now the files are final.
        elif not self.over(attempt):
            self._without_runner(
                attempt, record.read_claim(attempt.path, attempt.identity) or claim
            )

    def main_over(self, attempt: Attempt) -> None:
        """The command has ended and no runner cleans up after it."""
        self._loop.when_known(lambda: self._main_over(attempt))

    def _main_over(self, attempt: Attempt) -> None:
        if attempt.stage is Stage.ENDED:
            return
        if attempt.ended is None:
            attempt.ended = record.read_exit(attempt.path, attempt.identity)
        self._ending.when_gone(attempt, lambda: self._close(attempt))

    def over(self, attempt: Attempt) -> bool:
        """Whether the record says how it ended, and nothing of it is left. Raises CannotTell."""
        end = record.read_exit(attempt.path, attempt.identity)
        if end is None:
            return False
        if end.not_started is not None:
            self._attempts.not_started(attempt, end.not_started, end.retry)
            return True
        self._learn_start(attempt)
        if end.gone_at is None and attempt.boot == self._attempts.boot:
            attempt.ended = end
            return False
        self._attempts.exited(attempt, end, end.gone_at or end.ended_at)
        return True

    def _claim(self, attempt: Attempt) -> record.Claim | None:
        """The claim; None if there is none and never will be, because we made a void one."""
        claim = record.read_claim(attempt.path, attempt.identity)
        if claim is None and not record.claim_void(attempt.path, attempt.identity):
            claim = record.read_claim(attempt.path, attempt.identity)
        return None if claim is None or claim.void else claim

    def _learn_start(self, attempt: Attempt) -> None:
        claim = record.read_claim(attempt.path, attempt.identity)
        if claim is not None and claim.main:
            attempt.main, attempt.main_start = claim.main, claim.main_start
            attempt.started_at = claim.started_at

    def _watch_runner(self, attempt: Attempt, claim: record.Claim) -> None:
        is_watched = attempt.stage is Stage.RUNNING and attempt.runner == claim.runner
        attempt.keeper, attempt.runner = Keeper.OLD_RUNNER, claim.runner
        if claim.runner == 0 or claim.main == 0 or is_watched:
            # It is about to say so; or it is over, and another process of its has the lock.
            if attempt.stage is Stage.QUEUED:
                attempt.stage = Stage.HANDED
                if attempt.cause is not None:
                    self._ending.end_start(attempt)
            self._loop.call_later(_LOOK_AGAIN_SECONDS, lambda: self.resolve(attempt))
            return
        self._attempts.started(attempt, claim.main, claim.main_start, claim.started_at)
        self._ending.arm(attempt)
        self._loop.watch_process(claim.runner, claim.runner_start, lambda: self.resolve(attempt))
        self._loop.watch_process(claim.main, claim.main_start, lambda: self._leftovers_of(attempt))

    def _leftovers_of(self, attempt: Attempt) -> None:
        """The command is over; if its runner is not, it waits for processes left behind."""
        self._loop.when_known(lambda: self._end_leftovers_of(attempt))

    def _end_leftovers_of(self, attempt: Attempt) -> None:
        if attempt.stage is not Stage.ENDED and self._ending.members(attempt):
            self._ending.begin(attempt)

    def _without_runner(self, attempt: Attempt, claim: record.Claim) -> None:
        attempt.keeper = Keeper.NOBODY
        attempt.learn(claim)
        if claim.runner == 0:
            self._attempts.not_started(attempt, RUNNER_KILLED, retry=True)
            return
        self._name_main(attempt, claim)
        if attempt.main == 0:
            self._ending.when_gone(attempt, lambda: self._lost(attempt, KILLED_AT_START))
        elif is_alive(attempt.main, attempt.main_start):
            if attempt.stage is not Stage.RUNNING:
                started_at = attempt.started_at or now_ms()
                self._attempts.started(attempt, attempt.main, attempt.main_start, started_at)
            self._ending.arm(attempt)
            self._loop.watch_process(
                attempt.main, attempt.main_start, lambda: self.main_over(attempt)
            )
        else:
            attempt.stage = Stage.RUNNING
            self.main_over(attempt)

    def _name_main(self, attempt: Attempt, claim: record.Claim) -> None:
        """Which process is the command. A runner killed right after starting it did not say."""
        if claim.main:
            attempt.main, attempt.main_start = claim.main, claim.main_start
            attempt.started_at = claim.started_at
            return
        writing = [p for p in all_processes() if attempt.path in output_directories(p.pid)]
        if writing:
            first = min(writing, key=lambda process: (process.start, process.pid))
            attempt.main, attempt.main_start = first.pid, first.start

    def _not_started(self, attempt: Attempt, cause: str) -> None:
        if attempt.stage is not Stage.ENDED:
            self._attempts.not_started(attempt, cause, retry=True)

    def _lost(self, attempt: Attempt, cause: str) -> None:
        if attempt.stage is not Stage.ENDED:
            self._attempts.lost(attempt, cause)

    def _close(self, attempt: Attempt) -> None:
        if attempt.stage is Stage.ENDED:
            return
        if attempt.ended is not None:
            self._attempts.exited(attempt, attempt.ended, now_ms())
        else:
            self._attempts.lost(
                attempt, BOTH_KILLED if attempt.keeper is Keeper.NOBODY else KILLED_AT_END
            )
