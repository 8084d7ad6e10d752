"""The runners: forked ahead, used again, let go when too many are idle."""

import errno
import gc
import os
import signal
import socket
import time
import traceback
from collections.abc import Iterator

from tgpu.engines.local import runner as runner_process
from tgpu.engines.local.attempts import Attempt
from tgpu.engines.local.descriptors import close_all_but, is_scarce

_KEPT_IDLE = 16
# More idle ones than that are kept for a while, so that waves of short jobs do not fork each time.
_SURPLUS_SECONDS = 10.0
# The last descriptors are for files and for clients: without them no job could be ended.
_RESERVE = 32
# A runner that does not even read its next job for this long is stuck or stopped.
_HAND_SECONDS = 5.0


class Runner:
    __slots__ = ("attempt", "commands", "idle_since", "pid")

    def __init__(self, pid: int, commands: socket.socket) -> None:
        self.pid = pid
        self.commands = commands
        self.attempt: Attempt | None = None
        self.idle_since = time.monotonic()


class RunnerPool:
    def __init__(self, root: str, boot: str, reports: int) -> None:
        self._root = root
        self._boot = boot
        self._reports = reports
        self._by_pid: dict[int, Runner] = {}
        self._idle: list[Runner] = []  # the last used is used first: its memory is warm

    def __contains__(self, pid: int) -> bool:
        return pid in self._by_pid

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_pid)

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    def get(self, pid: int) -> Runner | None:
        return self._by_pid.get(pid)

    def fork(self) -> None:
        """Add one idle runner. Raises OSError where the system has no room for it."""
        ours, theirs = socket.socketpair()
        if is_scarce(theirs.fileno(), _RESERVE):
            ours.close()
            theirs.close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        gc.freeze()  # what lives now is shared with the child; counting it would copy the pages
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            self._become_runner(theirs.detach())
        theirs.close()
        ours.settimeout(_HAND_SECONDS)
        runner = Runner(pid, ours)
        self._by_pid[pid] = runner
        self._idle.insert(0, runner)

    def hand(self, attempt: Attempt) -> bool:
        """Give an attempt to an idle runner. False if that one turned out to be dead."""
        runner = self._idle.pop()
        try:
            runner.commands.sendall(attempt.line)
        except OSError:
            # Dead, or stuck: then it must not wake up later and run what another one runs.
            os.kill(runner.pid, signal.SIGKILL)
            return False
        runner.attempt = attempt
        attempt.runner = runner.pid
        return True

    def release(self, runner: Runner) -> None:
        runner.attempt = None
        runner.idle_since = time.monotonic()
        self._idle.append(runner)

    def retire(self) -> None:
        """Let surplus idle runners go: they end when their socket closes."""
        now = time.monotonic()
        while len(self._idle) > _KEPT_IDLE and now - self._idle[0].idle_since > _SURPLUS_SECONDS:
            self._idle.pop(0).commands.close()

    def died(self, pid: int) -> Attempt | None:
        """Take a dead runner out; the attempt it had, if any."""
        runner = self._by_pid.pop(pid)
        runner.commands.close()
        if runner in self._idle:
            self._idle.remove(runner)
        return runner.attempt

    def _become_runner(self, commands: int) -> None:
        """Never returns, whatever happens: two supervisors must not come of one."""
        try:
            gc.disable()  # a runner makes no cycles worth the page copies of a collection
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            # The lock, the clients and the other runners' sockets would outlive the supervisor.
            close_all_but({0, 1, 2, commands, self._reports})
            runner_process.serve(self._root, commands, self._reports, self._boot)
        except BaseException:
            # Nobody is above to catch it; the supervisor sees a runner die and does the rest.
            os.write(2, f"runner {os.getpid()}: {traceback.format_exc()}".encode())
            os._exit(1)
        finally:
            os._exit(0)
