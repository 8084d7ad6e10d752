"""A gang: one process that runs a command once for each worker.

It is forked from its runner, to which it is a command like any other. Workers are in its session,
each in a process group of its own. What they write is passed on line by line, so that no two lines
are mixed. When one fails the others are ended, and the first failure is the gang's; TERM is left to
the supervisor, which sends it to every process itself.
"""

import contextlib
import errno
import os
import selectors
import signal
import socket
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from tgpu.engines.local.commands import (
    CommandFailed,
    NotStarted,
    find_program,
    spawn_failure,
)
from tgpu.engines.local.descriptors import SCARCE, close_all_but, patiently
from tgpu.engines.local.processes import set_command_line, set_name
from tgpu.stand_in import say_in_log, signal_pipe, write_or_lose

_PIECE: Final = 1 << 16
# A line longer than this is passed on in pieces, or a worker that writes none would fill us up.
_LONGEST_LINE: Final = 1 << 16
_LAST_TURNS: Final = 256  # of up to a piece from each worker: more than a pipe holds
_LINE_ENDS: Final = (b"\n", b"\r")  # progress bars end their lines with the second
# Everything else that can be caught goes on to the workers: a checkpoint signal may be any.
NOT_PASSED_ON: Final = frozenset(
    {
        *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGCHLD, signal.SIGTERM),
        *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE, signal.SIGXFSZ),
        *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT),
    }
)


def lead(command: dict[str, Any], tell: int) -> NoReturn:
    """Become the gang's process; `tell` is closed as soon as nothing can be said against it."""
    set_name("tgpu-gang")
    set_command_line("tgpu-gang", *command.get("shown", command["argv"]))
    # What the runner has open: its lock above all, which must not outlive it here.
    close_all_but({0, 1, 2, tell})
    env = dict(command["env"])
    # One for all, for as long as this attempt lives; a port that the owner chose is kept.
    env.setdefault("MASTER_PORT", str(_free_port()))
    gang = Gang(command["argv"], env, command["grace_ms"] / 1000)
    os.close(tell)
    code = 1
    try:
        code = gang.run(command["workers"])
    except BaseException:
        say_in_log(f"the workers failed: {traceback.format_exc()}")
    finally:
        os._exit(code)


class Gang:
    def __init__(self, argv: list[str], env: Mapping[str, str], grace_seconds: float) -> None:
        self._argv = argv
        self._env = env
        self._grace_seconds = grace_seconds
        self._ranks: dict[int, int] = {}  # of the workers that run, by pid
        self._selector = selectors.DefaultSelector()
        self._code: int | None = None  # of the first that failed
        self._was_told = False  # everybody got TERM
        self._kill_at: float | None = None

    def run(self, places: Sequence[Mapping[str, str]]) -> int:
        """The exit code, once no worker is left."""
        self._catch_signals()
        for rank, place in enumerate(places):
            if self._was_told:
                self._code = self._code or 128 + signal.SIGTERM
            if self._code is not None:
                break
            self._start(rank, {**self._env, **place})
        while self._ranks:
            self._turn(self._seconds_left())
        # What they wrote last. What they left behind may write for ever and is not waited for.
        for _ in range(_LAST_TURNS):
            if not self._turn(0):
                break
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Stream):
                key.data.end()
        return self._code or 0

    def _start(self, rank: int, env: dict[str, str]) -> None:
        try:
            out, err = _pipes()
        except OSError as error:
            say_in_log(f"worker {rank} could not be started: {error.strerror}")
            self._fail(126)
            return
        try:
            pid = self._spawn(env, out[1], err[1])
        except (CommandFailed, NotStarted) as error:
            for end in (out[0], err[0]):
                os.close(end)
            say_in_log(f"worker {rank} could not be started: {error}")
            self._fail(error.exit_code if isinstance(error, CommandFailed) else 126)
            return
        finally:
            os.close(out[1])
            os.close(err[1])
        self._ranks[pid] = rank
        for source, target in ((out[0], 1), (err[0], 2)):
            os.set_blocking(source, False)
            stream = _Stream(source, target)
            self._selector.register(source, selectors.EVENT_READ, stream)

    def _spawn(self, env: dict[str, str], stdout: int, stderr: int) -> int:
        ignored = [n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN]
        try:
            return os.posix_spawn(
                find_program(self._argv[0], env),
                self._argv,
                env,
                file_actions=((os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)),
                setpgroup=0,
                setsigmask=(),
                setsigdef=ignored,
            )
        except OSError as error:
            raise spawn_failure(self._argv[0], 2, error) from error

    # -- what happens ----------------------------------------------------------------------------

    def _turn(self, seconds: float | None) -> bool:
        """Handle what there is; whether anything was read."""
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._signal_groups(signal.SIGKILL)
        found = False
        for key, _ in self._selector.select(seconds):
            if not isinstance(key.data, _Stream):
                key.data()
            elif key.data.pass_on():
                found = True
            else:
                self._selector.unregister(key.fileobj)
                os.close(key.data.source)
        return found

    def _seconds_left(self) -> float | None:
        if self._kill_at is None:
            return None
        return max(0.1, self._kill_at - time.monotonic())

    def _catch_signals(self) -> None:
        woken = signal_pipe({*(signal.valid_signals() - NOT_PASSED_ON), signal.SIGCHLD})
        signal.signal(signal.SIGTERM, self._told)

        def wake() -> None:
            numbers = set(os.read(woken, 4096))
            for number in numbers - {signal.SIGCHLD, signal.SIGTERM}:
                self._pass_on(number)
            self._reap()

        self._selector.register(woken, selectors.EVENT_READ, wake)

    def _told(self, *_: object) -> None:
        self._was_told = True

    def _pass_on(self, number: int) -> None:
        for pid in self._ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reap(self) -> None:
        for pid in list(self._ranks):
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            rank = self._ranks.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            if code == 0:
                continue
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            if self._code is None and not self._was_told and self._ranks:
                say_in_log(f"worker {rank} ended with {how}; the others are stopped")
            self._fail(code if code > 0 else 128 - code)

    def _fail(self, code: int) -> None:
        if self._code is not None:
            return
        self._code = code
        # Those that were told have it already: to some, a second TERM means "at once".
        if not self._was_told:
            self._signal_groups(signal.SIGTERM)
            self._signal_groups(signal.SIGCONT)
            self._kill_at = time.monotonic() + self._grace_seconds

    def _signal_groups(self, number: int) -> None:
        for pid in self._ranks:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)


class _Stream:
    """One worker's standard output or error, on its way to the log."""

    __slots__ = ("_rest", "_target", "source")

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self._target = target
        self._rest = b""

    def pass_on(self) -> bool:
        """What has come, up to the last whole line. False at the end."""
        try:
            piece = os.read(self.source, _PIECE)
        except BlockingIOError:
            return True
        if not piece:
            self.end()
            return False
        whole = max(piece.rfind(end) for end in _LINE_ENDS) + 1
        if whole or len(self._rest) + len(piece) > _LONGEST_LINE:
            whole = whole or len(piece)
            write_or_lose(self._target, self._rest + piece[:whole])
            self._rest = piece[whole:]
        else:
            self._rest += piece
        return True

    def end(self) -> None:
        if self._rest:  # ended for it, or the next worker's line would go on where it stopped
            write_or_lose(self._target, self._rest + b"\n")
        self._rest = b""


def _pipes() -> tuple[tuple[int, int], tuple[int, int]]:
    """For standard output and error of a worker. Raises OSError."""
    # Our own limit stays what it is; what the whole machine lacks comes back.
    of_the_machine = SCARCE - {errno.EMFILE}
    out = patiently(os.pipe, of_the_machine)
    try:
        return out, patiently(os.pipe, of_the_machine)
    except OSError:
        for end in out:
            os.close(end)
        raise


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
