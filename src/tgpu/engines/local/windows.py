"""The windows that people attach to: a terminal of ours, shown by GNU screen or by tmux.

Screen opens the terminal itself and stays our child. tmux shows programs only, so its window runs a
shell that copies both ways; its server is one of its own for each job, since a server that is
shared would end with the job that happened to start it.
"""

import contextlib
import fcntl
import os
import select
import selectors
import shlex
import signal
import time
import tty
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, Protocol

from tgpu.engines.local.commands import find_program

PROGRAMS: Final = {"screen": "GNU screen", "tmux": "tmux"}  # with their names for people

_CLOSE_SECONDS: Final = 2.0
_TIOCGEXCL: Final = 0x80045440  # asks whether a terminal is exclusive; Python has no name for it
_TMUX_SIZE: Final = ("-x", "80", "-y", "24")

Gone = Callable[[str], None]  # told what the program said last


class TerminalWindow(Protocol):
    terminal: int  # our end of it; what is typed is read there

    def is_ready(self) -> bool:
        """Whether what is written to the terminal is seen, and not thrown away."""

    def reap(self) -> None:
        """Some child has ended: look whether it is ours."""

    def close(self) -> None:
        """Nothing of it may outlive the attempt."""


def open_window(
    program: str, name: str, env: Mapping[str, str], selector: selectors.BaseSelector, gone: Gone
) -> TerminalWindow:
    """Raises OSError: FileNotFoundError where the program is not installed."""
    env = {**env, "TERM": env.get("TERM") or "xterm"}
    if program == "tmux":
        return TmuxWindow(name, env, selector, gone)
    return ScreenWindow(name, env, gone)


class ScreenWindow:
    def __init__(self, name: str, env: Mapping[str, str], gone: Gone) -> None:
        screen = find_program("screen", dict(env))
        self.terminal, self._shown = _terminal()
        # No settings of the user's: those may open windows, and then the session would stay.
        words = [screen, "-c", "/dev/null", "-D", "-m", "-S", name, os.ttyname(self._shown)]
        self._pid, self._words = _start(words, env)
        self._gone = gone

    def is_ready(self) -> bool:
        """Screen throws away what is in a terminal when it takes it, and makes it exclusive just
        before."""
        answer = bytearray(4)
        try:
            fcntl.ioctl(self._shown, _TIOCGEXCL, answer)
        except OSError:
            return False
        return any(answer)

    def reap(self) -> None:
        if self._pid and os.waitpid(self._pid, os.WNOHANG)[0]:
            self._pid = 0
            os.close(self._shown)
            self._gone(_last_words(self._words))

    def close(self) -> None:
        """TERM, and soon KILL."""
        if not self._pid:
            return
        until = time.monotonic() + _CLOSE_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
            while not os.waitpid(self._pid, os.WNOHANG)[0]:
                if time.monotonic() > until:
                    os.kill(self._pid, signal.SIGKILL)
                time.sleep(0.01)


class TmuxWindow:
    def __init__(
        self, name: str, env: Mapping[str, str], selector: selectors.BaseSelector, gone: Gone
    ) -> None:
        tmux = find_program("tmux", dict(env))
        self.terminal, self._shown = _terminal()
        inside = shlex.quote(os.ttyname(self._shown))
        copy = f"stty raw -echo; cat {inside} & exec cat >{inside}"
        # Its own socket is its own server; no settings of the user's, as for screen.
        words = [tmux, "-L", name, "-f", "/dev/null", "new-session", "-d", "-s", name, *_TMUX_SIZE]
        words += ["-P", "-F", "#{pid} #{socket_path}", "sh", "-c", copy]
        surrounding = ("TMUX", "TMUX_PANE")  # of somebody who submits from inside tmux
        env = {name: value for name, value in env.items() if name not in surrounding}
        self._client, self._words = _start(words, env)
        self._server = -1  # a descriptor of the process
        self._socket = ""
        self._selector = selector
        self._gone = gone

    def is_ready(self) -> bool:
        return self._server >= 0

    def reap(self) -> None:
        """The client ends once the server has the session; the server is nobody's child."""
        if not self._client or not os.waitpid(self._client, os.WNOHANG)[0]:
            return
        self._client = 0
        said = _last_words(self._words)
        try:
            pid, _, self._socket = said.partition(" ")
            self._server = os.pidfd_open(int(pid))
        except (ValueError, OSError):
            self._is_gone(said)
            return
        self._selector.register(self._server, selectors.EVENT_READ, self._server_ended)

    def close(self) -> None:
        until = time.monotonic() + _CLOSE_SECONDS
        while self._client and time.monotonic() < until:
            self.reap()
            time.sleep(0.01)
        if self._server < 0:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._server, number)
            if select.select([self._server], [], [], _CLOSE_SECONDS)[0]:
                break
        self._remove_socket()

    def _server_ended(self) -> bool:
        self._selector.unregister(self._server)
        os.close(self._server)
        self._server = -1
        self._remove_socket()
        self._is_gone("")
        return False

    def _is_gone(self, said: str) -> None:
        os.close(self._shown)
        self._gone(said)

    def _remove_socket(self) -> None:
        """tmux leaves it behind."""
        with contextlib.suppress(OSError):
            os.unlink(self._socket)


def _terminal() -> tuple[int, int]:
    outside, inside = os.openpty()
    tty.setraw(inside)  # or what we write would come back as if somebody had typed it
    os.set_blocking(outside, False)
    return outside, inside


def _start(words: list[str], env: Mapping[str, str]) -> tuple[int, int]:
    """The pid, and where to read what it says."""
    said, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(words, env, say)
    os.close(say)
    os.set_blocking(said, False)
    return pid, said


def _become(words: list[str], env: Mapping[str, str], say: int) -> NoReturn:
    try:
        os.dup2(say, 1)
        os.dup2(say, 2)
        default_signals()
        os.execve(words[0], words, dict(env))
    finally:
        os._exit(127)


def _last_words(pipe: int) -> str:
    with contextlib.suppress(OSError):
        return os.read(pipe, 500).decode(errors="replace").strip()
    return ""


def default_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
