"""A command in a session of GNU screen or tmux: a process that stands between it and them.

The command has a terminal of its own, held here; what it writes goes to the log and to a second
terminal that is shown as a window. So the log and the exit code are kept whatever becomes of the
session, and a session that is stuck, closed or never came to be does not disturb the job.
It is forked from its runner, to which it is a command like any other. Signals go on to the command,
except TERM, which the supervisor sends to every process itself.
"""

import contextlib
import fcntl
import os
import selectors
import signal
import struct
import termios
import time
import traceback
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from tgpu.engines.local.commands import find_program
from tgpu.engines.local.descriptors import close_all_but
from tgpu.engines.local.gang import NOT_PASSED_ON
from tgpu.engines.local.processes import set_command_line, set_name
from tgpu.engines.local.windows import PROGRAMS, TerminalWindow, default_signals, open_window
from tgpu.stand_in import end_as, say_in_log, signal_pipe, write_or_lose

_PIECE: Final = 1 << 16
_LAST_TURNS: Final = 256  # of up to a piece: more than a terminal holds
_SIZE: Final = (24, 80)  # screen tells nobody how large the window of somebody else's terminal is
_OUTPUT_FLAGS: Final = 1  # where termios keeps them
# The first words are kept back until the window is ready. Where that is not seen, they wait no
# longer than this.
_SETTLE_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 3.0
_KEPT_BYTES: Final = 2048  # a terminal that nobody reads holds 4095; some become two for the window


def lead(command: dict[str, Any], tell: int) -> NoReturn:
    """Become the session's process; `tell` is closed as soon as the command was started."""
    set_name("tgpu-session")
    set_command_line("tgpu-session", *command.get("shown", command["argv"]))
    close_all_but({0, 1, 2, tell})
    session = Session(
        command["argv"], dict(command["env"]), command["session"], command["multiplexer"]
    )
    session.start()  # what can be said against the command is told by whoever called us
    os.close(tell)
    status = 1 << 8
    try:
        status = session.run()
    except BaseException:
        say_in_log(f"the session failed: {traceback.format_exc()}")
    finally:
        end_as(status)


class Session:
    def __init__(self, argv: list[str], env: Mapping[str, str], name: str, program: str) -> None:
        """`program` shows the window: "screen" or "tmux"."""
        self._argv = argv
        self._env = env
        self._name = name
        self._program = program
        self._selector = selectors.DefaultSelector()
        self._terminal = -1  # our end of the command's terminal
        self._window: TerminalWindow | None = None  # None where there is none, or none any more
        self._command = 0
        self._kept: bytearray | None = bytearray()  # None once the window is there
        self._show_at = time.monotonic() + _LONGEST_WAIT_SECONDS
        self._is_taken = False
        self._status: int | None = None

    def start(self) -> None:
        """Raises OSError where the command cannot be run."""
        program = find_program(self._argv[0], dict(self._env))
        self._terminal, inside = os.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", *_SIZE, 0, 0))
        _keep_line_ends(inside)
        told, tell = os.pipe()
        self._catch_signals()
        self._command = os.fork()
        if self._command == 0:
            self._become(program, inside, tell)
        os.close(inside)
        os.close(tell)
        with os.fdopen(told, "rb") as pipe:
            failure = pipe.read()
        if failure:
            os.waitpid(self._command, 0)
            number = int(failure)
            raise OSError(number, os.strerror(number))

    def run(self) -> int:
        """How the command ended, as waitpid says it."""
        try:
            self._open_window()
        except OSError as error:
            say_in_log(f"the session could not be opened, the job continues: {error.strerror}")
        os.set_blocking(self._terminal, False)
        self._selector.register(self._terminal, selectors.EVENT_READ, self._said)
        while self._status is None:
            self._turn(None if self._kept is None else _SETTLE_SECONDS / 4)
            self._show_kept()
        for _ in range(_LAST_TURNS):
            if not self._turn(0):
                break
        if self._window is not None:
            self._window.close()
        return self._status

    # -- the two processes -----------------------------------------------------------------------

    def _become(self, program: str, inside: int, tell: int) -> NoReturn:
        """In the child. Never returns."""
        try:
            os.setsid()
            fcntl.ioctl(inside, termios.TIOCSCTTY, 0)
            for number in (0, 1, 2):
                os.dup2(inside, number)
            default_signals()
            os.execve(program, self._argv, {**self._env, "TERM": "screen"})
        except OSError as error:
            os.write(tell, str(error.errno).encode())
        finally:
            os._exit(127)

    def _open_window(self) -> None:
        try:
            window = open_window(
                self._program, self._name, self._env, self._selector, self._window_is_gone
            )
        except FileNotFoundError:
            say_in_log(
                f"{PROGRAMS[self._program]} is not installed: the job runs without a session"
            )
            return
        self._window = window
        self._selector.register(window.terminal, selectors.EVENT_READ, self._typed)

    def _window_is_gone(self, said: str) -> None:
        if self._window is None:
            return
        self._selector.unregister(self._window.terminal)
        os.close(self._window.terminal)
        self._window = None
        if self._status is None:
            why = f": {said}" if said else ""
            say_in_log(f"the session {self._name} is closed, the job continues{why}")

    # -- what happens ----------------------------------------------------------------------------

    def _turn(self, seconds: float | None) -> bool:
        """Handle what there is; whether the command said anything."""
        found = False
        for key, _ in self._selector.select(seconds):
            if key.data():
                found = True
        return found

    def _said(self) -> bool:
        try:
            piece = os.read(self._terminal, _PIECE)
        except BlockingIOError:
            return False
        except OSError:  # nobody has the terminal open any more
            piece = b""
        if not piece:
            self._selector.unregister(self._terminal)
            return False
        write_or_lose(1, piece)
        if self._kept is not None:
            self._kept += piece
            del self._kept[:-_KEPT_BYTES]
        else:
            self._show(piece)
        return True

    def _show(self, piece: bytes) -> None:
        """Not waited for: a window that is not read must not hold the job up."""
        if self._window is not None:
            with contextlib.suppress(OSError):
                os.write(self._window.terminal, piece.replace(b"\n", b"\r\n"))

    def _show_kept(self) -> None:
        if self._kept is None:
            return
        now = time.monotonic()
        if not self._is_taken and self._window is not None and self._window.is_ready():
            self._is_taken = True
            self._show_at = now + _SETTLE_SECONDS
        if now >= self._show_at or self._window is None:
            kept, self._kept = bytes(self._kept), None
            self._show(kept)

    def _typed(self) -> bool:
        if self._window is not None:
            with contextlib.suppress(OSError):
                os.write(self._terminal, os.read(self._window.terminal, _PIECE))
        return False

    def _catch_signals(self) -> None:
        passed_on = signal.valid_signals() - NOT_PASSED_ON
        woken = signal_pipe({*passed_on, signal.SIGCHLD, signal.SIGTERM})

        def wake() -> bool:
            for number in set(os.read(woken, 4096)) - {signal.SIGCHLD, signal.SIGTERM}:
                if self._status is None:
                    os.kill(self._command, number)
            self._reap()
            return False

        self._selector.register(woken, selectors.EVENT_READ, wake)

    def _reap(self) -> None:
        if self._status is None:
            done, status = os.waitpid(self._command, os.WNOHANG)
            if done:
                self._status = status
        if self._window is not None:
            self._window.reap()


def _keep_line_ends(terminal: int) -> None:
    """The log gets lines as the command writes them; for the window we add what it needs."""
    flags = termios.tcgetattr(terminal)
    flags[_OUTPUT_FLAGS] &= ~termios.ONLCR
    termios.tcsetattr(terminal, termios.TCSANOW, flags)
