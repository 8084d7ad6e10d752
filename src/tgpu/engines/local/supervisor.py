"""The supervisor: the process that starts, watches and ends jobs, whoever else comes and goes.

One per data directory, single-threaded, standard library only. Killing it harms no job: runners
see theirs through, and the next supervisor finds out what happened (adoption.py).
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from tgpu.engines.local import paths, runner_group
from tgpu.engines.local.adoption import Adoption
from tgpu.engines.local.attempts import STOPPED, Attempt, RecordedAttempts, Stage, now_ms
from tgpu.engines.local.clients import Clients
from tgpu.engines.local.descriptors import patiently
from tgpu.engines.local.door import Door
from tgpu.engines.local.ending import Ending
from tgpu.engines.local.journal import AttemptJournal
from tgpu.engines.local.loop import ASK_AGAIN_SECONDS, Loop
from tgpu.engines.local.orphan_logs import OrphanLogs
from tgpu.engines.local.orphans import EndedChild, Orphans
from tgpu.engines.local.pausing import Pausing
from tgpu.engines.local.pool import Runner, RunnerPool
from tgpu.engines.local.processes import CannotTell, is_alive, read_process
from tgpu.engines.local.protocol import Key, LineSplitter, Notice, Seen, decode
from tgpu.engines.local.record import Exit
from tgpu.engines.local.survivors import Survivors
from tgpu.stand_in import signal_pipe

# A fork takes about a millisecond: a few at a time, so that ends are handled in between and
# runners that become free take what is queued.
_FORKS_PER_TURN = 4
# Starting many more commands at once than there are processors only makes them slower: with 64 at
# once on 2 processors, 64 runners did little more than half of what 16 did, and 4 starve while the
# disk is flushed. A start that takes longer than the time below waits for something else, a slow
# disk for instance, and holds nobody up.
_STARTS_AT_ONCE = 8 * (os.cpu_count() or 1)
_SLOW_START_SECONDS = 0.05
_FIRST_RUNNERS = 2
_RETRY_SECONDS = 0.5
# On a busy machine, whoever started us may take a while to connect.
_FIRST_CLIENT_SECONDS = 10.0


class Supervisor:
    def __init__(
        self, root: str, boot: str, door: Door, idle_seconds: float, given: str = ""
    ) -> None:
        """`given` is the name of `root` that jobs know, which may have links in it."""
        self._loop = Loop()
        self._reports, reports = os.pipe()
        os.set_blocking(self._reports, False)
        journal = AttemptJournal(f"{root}/{paths.JOURNAL}")
        self._attempts = RecordedAttempts(self._loop, root, journal, boot)
        self._pool = RunnerPool(root, boot, reports)
        survivors = Survivors({root, given or root})
        self._ending = Ending(self._loop, self._attempts, self._pool, survivors)
        self._pausing = Pausing(self._loop, self._attempts, self._ending)
        self._adoption = Adoption(self._loop, self._attempts, self._ending)
        self._orphans = Orphans(
            self._loop, self._attempts, self._ending, self._adoption, self._pool
        )
        self._door = door
        self._clients = Clients(self._loop, door.listen(), self)
        self._logs = OrphanLogs(self._loop, self._attempts)
        self._report_lines = LineSplitter()
        self._idle_seconds = idle_seconds
        self._busy_at = time.monotonic() + _FIRST_CLIENT_SECONDS
        self._starting: list[Attempt] = []
        self._looks_again = False
        self._blocked_by = ""  # why nothing can be started now: no disk space, no processes
        self._must_go_on = False  # more can be started right away
        self._must_quit = False

    def run(self, ready: Callable[[], None]) -> None:
        self._catch_signals()
        self._loop.watch(self._reports, self._read_reports)
        patiently(self._attempts.replay)
        with contextlib.suppress(OSError):  # tried again when there is something to run
            for _ in range(_FIRST_RUNNERS):  # early: the smaller we are, the cheaper the fork
                self._pool.fork()
        for attempt in list(self._attempts.live.values()):
            self._adoption.resolve(attempt)
            self._pausing.carry_out(attempt)
        self._settle()
        self._keep_house()
        ready()
        while not self._must_quit:
            self._loop.turn(wait=not self._must_go_on)
            self._settle()

    def launch(self, key: Key, grace_ms: int, time_limit_ms: int | None, line: bytes) -> None:
        self._attempts.take(key, grace_ms, time_limit_ms, line)

    def stop(self, keys: list[Key], notice: Notice | None) -> None:
        """Attempts that are over are passed over; observing tells."""
        self._reap()  # a runner that has just died no longer leads to its job's processes
        for key in keys:
            attempt = self._attempts.live.get(key)
            if attempt is None:
                self._attempts.bar(key, STOPPED)
                continue
            if attempt in self._attempts.queue:
                self._attempts.queue.remove(attempt)
                self._attempts.not_started(attempt, STOPPED, retry=False)
                continue
            if _has_ended(attempt):
                continue  # by itself, before it was asked: that counts, and is told in a moment
            self._attempts.told_to_end(attempt, STOPPED, notice)
            if attempt.stage is Stage.RUNNING:  # else as soon as its runner reports it started
                self._ending.begin(attempt)
            else:
                self._ending.end_start(attempt)

    def pause(self, keys: list[Key], paused: bool) -> None:
        """Attempts that are over, not known, or told to end are passed over."""
        self._reap()
        for key in keys:
            attempt = self._attempts.live.get(key)
            if attempt is not None and attempt.cause is None:
                self._pausing.set(attempt, paused)

    def forget(self, keys: list[Key]) -> None:
        for key in keys:
            self._attempts.forget(key)

    def everything(self) -> list[Seen]:
        return self._attempts.everything()

    def quit(self) -> None:
        self._must_quit = True

    def _settle(self) -> None:
        """Make the turn's records durable; only then act on them and tell of them."""
        try:
            self._attempts.flush()
        except OSError as error:
            self._wait_for_room(f"the journal cannot be written: {error}")
            self._tell_ends()
            return
        self._hand_out()
        news, self._attempts.news = self._attempts.news, []
        self._clients.tell(news)

    def _tell_ends(self) -> None:
        """Those need not wait: who hears of an end has it on record elsewhere, or asks again."""
        news = self._attempts.news
        self._attempts.news = [seen for seen in news if seen.phase == "running"]
        self._clients.tell([seen for seen in news if seen.phase != "running"], answer=False)

    def _hand_out(self) -> None:
        self._must_go_on = False
        if not self._attempts.queue:
            return
        now = time.monotonic()
        self._starting = [
            attempt
            for attempt in self._starting
            if attempt.stage is Stage.HANDED and now - attempt.handed_at < _SLOW_START_SECONDS
        ]
        forks = 0
        while self._attempts.queue:
            if len(self._starting) >= _STARTS_AT_ONCE:
                if not self._looks_again:
                    self._looks_again = True
                    self._loop.call_later(_SLOW_START_SECONDS, self._look_again)
                return
            if not self._pool.has_idle:
                if forks == _FORKS_PER_TURN:
                    self._must_go_on = True
                    return
                forks += 1
                try:
                    self._pool.fork()
                except OSError as error:
                    self._wait_for_room(f"no runner could be forked: {error}")
                    return
            self._hand(self._attempts.queue.popleft(), now)

    def _hand(self, attempt: Attempt, now: float) -> None:
        if self._pool.hand(attempt):
            attempt.stage = Stage.HANDED
            attempt.handed_at = now
            self._starting.append(attempt)
            self._blocked_by = ""
        else:
            self._attempts.queue.appendleft(attempt)

    def _look_again(self) -> None:
        self._looks_again = False  # being woken is enough: every turn hands out what it can

    def _wait_for_room(self, why: str) -> None:
        if why != self._blocked_by:
            log(why)
        self._blocked_by = why
        self._loop.call_later(_RETRY_SECONDS, lambda: None)

    def _read_reports(self) -> None:
        try:
            data = os.read(self._reports, 1 << 16)
        except BlockingIOError:
            return
        for line in self._report_lines.feed(data):
            pid, kind, *fields = decode(line)
            runner = self._pool.get(pid)
            if runner is not None and runner.attempt is not None:
                self._handle_report(runner, runner.attempt, kind, fields)

    def _handle_report(
        self, runner: Runner, attempt: Attempt, kind: str, fields: list[object]
    ) -> None:
        match kind, fields:
            case "started", [int(main), int(main_start), int(at)]:
                self._attempts.started(attempt, main, main_start, at)
                self._ending.arm(attempt)
                return
            case "ended", _:
                end = attempt.ended = Exit._make(fields)
                if end.gone_at is None:
                    self._ending.begin(attempt)
                    return
                self._attempts.exited(attempt, end, end.gone_at)
            case "none", [str(cause), bool(retry)]:
                self._attempts.not_started(attempt, cause, retry)
            case _:  # "taken": somebody has claimed this attempt before
                self._adoption.resolve(attempt)
        self._pool.release(runner)

    def _reap(self) -> None:
        """Runners that died, and orphans we inherited from them."""
        self._read_reports()  # what a runner said before it died comes first
        orphaned: list[Attempt] = []
        ended: list[EndedChild] = []
        try:
            while child := _ended_child():
                if child.pid in self._pool:
                    attempt = self._pool.died(child.pid)
                    if attempt is not None:
                        log(f"runner {child.pid} of {attempt.key} was killed")
                        orphaned.append(attempt)
                else:
                    ended.append(child)
        except CannotTell:
            self._loop.call_later(ASK_AGAIN_SECONDS, self._reap)  # it stays a zombie until then
        if orphaned or ended:
            self._orphans.take_over(orphaned, ended, self._requeue)

    def _requeue(self, attempt: Attempt) -> None:
        if attempt.cause is not None:
            self._attempts.not_started(attempt, attempt.cause, retry=False)
        else:
            attempt.stage = Stage.QUEUED
            self._attempts.queue.appendleft(attempt)

    def _keep_house(self) -> None:
        """Now and then: let spare runners go, and end when nobody needs us."""
        self._pool.retire()
        runner_group.sweep()
        if self._door.is_shut:
            self._open_again()
        if self._attempts.live or len(self._clients):
            self._busy_at = time.monotonic()
        elif time.monotonic() - self._busy_at >= self._idle_seconds or not self._door.is_ours:
            self._must_quit = True
        self._loop.call_later(min(5.0, self._idle_seconds / 4), self._keep_house)

    def _open_again(self) -> None:
        try:
            self._clients.listen(self._door.listen())
        except OSError as error:
            log(f"its socket was removed and cannot be made again yet: {error.strerror}")
        else:
            log("its socket was removed by somebody; there is a new one")

    def _catch_signals(self) -> None:
        woken = signal_pipe([signal.SIGCHLD])
        signal.signal(signal.SIGTERM, lambda *_: self.quit())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

        def wake() -> None:
            os.read(woken, 4096)
            self._reap()

        self._loop.watch(woken, wake)


def _has_ended(attempt: Attempt) -> bool:
    """Whether the command is over, though we may not have been told yet."""
    try:
        return attempt.stage is Stage.RUNNING and not is_alive(attempt.main, attempt.main_start)
    except CannotTell:
        return False


def _ended_child() -> EndedChild | None:
    """Reap one child, if any has ended. Raises CannotTell."""
    try:
        zombie = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if zombie is None:
        return None
    process = read_process(zombie.si_pid)  # while it is a zombie it can still be asked
    pid, status, usage = os.wait4(zombie.si_pid, 0)
    code = os.waitstatus_to_exitcode(status)
    code, number = (code, None) if code >= 0 else (128 - code, -code)
    cpu_ms = round(usage.ru_utime * 1000), round(usage.ru_stime * 1000)
    end = Exit(code, number, now_ms(), None, *cpu_ms, usage.ru_maxrss)
    return EndedChild(pid, process is not None and process.session == pid, end)


def log(message: str) -> None:
    """To the supervisor's log, which is its standard error."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with contextlib.suppress(OSError):  # a full disk must not be the end of us
        os.write(2, f"{stamp} {message}\n".encode(errors="replace"))


if __name__ == "__main__":
    from tgpu.engines.local.startup import main

    main()
