"""The command of an interactive job: holds its terminal and serves the client that connects.

`python -m tgpu.cli.terminal.holder NAME [--keep] [--pipe] -- COMMAND…`, as the job's own process
and user. What the command writes also goes to standard output, which is the job's log. With --pipe
it has no terminal, and what is sent is its standard input. It ends as the command ends. Nothing of
ours stands between the two ends: neither a restart of the service nor its end disturbs them.
"""

import contextlib
import fcntl
import os
import selectors
import signal
import socket
import struct
import sys
import termios
import time
from typing import Final, NoReturn

from tgpu.cli.terminal import doors, frames
from tgpu.stand_in import end_as, say_in_log, signal_pipe

_PIECE: Final = 1 << 16
_SHOWN_BYTES: Final = 1 << 16  # of what was shown last, for those who come later
_COME_SECONDS: Final = 60.0  # until somebody has to sit there
_END_SECONDS: Final = 3.0  # between a hang-up, TERM and KILL


class Holder:
    def __init__(self, name: str, words: list[str], *, keep: bool, pipe: bool) -> None:
        self._words = words
        self._keep = keep
        self._pipe = pipe
        self._selector = selectors.DefaultSelector()
        self._door = doors.listen(name)
        self._door.setblocking(False)
        self._line: socket.socket | None = None
        self._frames = frames.Frames()
        self._shown = bytearray()
        self._terminal = -1  # our end: of the terminal, or of the command's standard input
        self._command = 0
        self._status: int | None = None
        self._end_at: float | None = None if keep else time.monotonic() + _COME_SECONDS
        self._ends = [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL]

    def run(self) -> int:
        """How the command ended, as waitpid says it. Raises OSError where it cannot be run."""
        self._catch_signals()
        self._start()
        self._selector.register(self._door, selectors.EVENT_READ, self._come)
        if not self._pipe:
            os.set_blocking(self._terminal, False)
            self._selector.register(self._terminal, selectors.EVENT_READ, self._said)
        while self._status is None:
            self._turn()
        while not self._pipe and self._said():
            pass
        if self._line is not None:
            self._line.close()
        return self._status

    # -- the command ---------------------------------------------------------------------------

    def _start(self) -> None:
        told, tell = os.pipe()
        if self._pipe:
            inside, self._terminal = os.pipe()
        else:
            self._terminal, inside = os.openpty()
        self._command = os.fork()
        if self._command == 0:
            self._become(inside, tell)
        os.close(inside)
        os.close(tell)
        with os.fdopen(told, "rb") as pipe:
            failure = pipe.read()
        if failure:
            raise OSError(int(failure), os.strerror(int(failure)))

    def _become(self, inside: int, tell: int) -> NoReturn:
        """In the child. Never returns."""
        try:
            os.setsid()
            if self._pipe:
                os.dup2(inside, 0)
            else:
                fcntl.ioctl(inside, termios.TIOCSCTTY, 0)
                for number in (0, 1, 2):
                    os.dup2(inside, number)
            for known in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(known, signal.SIG_DFL)
            os.execvp(self._words[0], self._words)
        except OSError as error:
            os.write(tell, str(error.errno).encode())
        finally:
            os._exit(127)

    def _hang_up(self) -> None:
        """What somebody who closes the window does; what does not mind is ended soon."""
        number = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        self._end_at = time.monotonic() + _END_SECONDS
        groups = {self._command}
        if not self._pipe:
            with contextlib.suppress(OSError):
                groups.add(os.tcgetpgrp(self._terminal))
        for group in groups:
            with contextlib.suppress(OSError):
                os.killpg(group, number)
                os.killpg(group, signal.SIGCONT)

    def _catch_signals(self) -> None:
        woken = signal_pipe((signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT))
        for number in (signal.SIGUSR1, signal.SIGUSR2):  # a checkpoint's, and the like
            signal.signal(number, lambda got, _: os.kill(self._command, got))

        def wake() -> None:
            got = set(os.read(woken, 4096))
            if got & {signal.SIGTERM, signal.SIGHUP} and self._status is None:
                # A shell minds no TERM, which everybody of the job was sent.
                self._hang_up()
            done, status = os.waitpid(self._command, os.WNOHANG)
            if done:
                self._status = status

        self._selector.register(woken, selectors.EVENT_READ, wake)

    # -- whoever sits there ----------------------------------------------------------------------

    def _turn(self) -> None:
        left = None if self._end_at is None else max(0.0, self._end_at - time.monotonic())
        for key, _ in self._selector.select(left):
            key.data()
        if self._end_at is not None and time.monotonic() >= self._end_at:
            if len(self._ends) == 3:
                say_in_log(
                    "nobody is connected to its terminal, so the job ends; --keep prevents that"
                )
            self._hang_up()

    def _come(self) -> None:
        line, _ = self._door.accept()
        if not doors.is_allowed(doors.uid_of(line)):
            line.close()
            return
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.sendall(frames.frame(frames.TAKEN))
            self._leave()
        line.setblocking(True)
        line.settimeout(5)  # one that takes nothing any more must not hold the command up
        self._line, self._frames = line, frames.Frames()
        if len(self._ends) == 3:
            self._end_at = None
        self._selector.register(line, selectors.EVENT_READ, self._typed)
        self._tell(bytes(self._shown))

    def _typed(self) -> None:
        assert self._line is not None
        try:
            data = self._line.recv(_PIECE)
            for kind, payload in self._frames.take(data):
                self._do(kind, payload)
        except (OSError, frames.NoFrame):
            data = b""
        if not data and self._line is not None:
            self._lose()

    def _do(self, kind: bytes, payload: bytes) -> None:
        if kind == frames.DATA:
            _write(self._terminal, payload)
        elif kind == frames.SIZE and not self._pipe:
            size = struct.pack("HHHH", *frames.read_size(payload), 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        elif kind == frames.END and self._pipe and self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1
        elif kind == frames.DETACH:
            self._leave()

    def _lose(self) -> None:
        """Whoever sat there is gone, without having said that the job goes on."""
        self._leave()
        if not self._keep and self._status is None:
            say_in_log("its terminal was closed, so the job ends; --keep prevents that")
            self._hang_up()

    def _leave(self) -> None:
        if self._line is not None:
            self._selector.unregister(self._line)
            self._line.close()
            self._line = None

    def _said(self) -> bool:
        try:
            piece = os.read(self._terminal, _PIECE)
        except BlockingIOError:
            return False
        except OSError:  # nobody has it open any more
            piece = b""
        if not piece:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._terminal)
            return False
        _write(1, piece)
        self._shown += piece
        del self._shown[:-_SHOWN_BYTES]
        self._tell(piece)
        return True

    def _tell(self, piece: bytes) -> None:
        if self._line is None or not piece:
            return
        try:
            self._line.sendall(frames.frame(frames.DATA, piece))
        except OSError:
            self._lose()


def _write(target: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        while data:
            try:
                data = data[os.write(target, data) :]
            except BlockingIOError:
                time.sleep(0.01)  # the command does not read what is typed


def main(arguments: list[str]) -> NoReturn:
    behind = arguments.index("--")
    flags, words = arguments[1:behind], arguments[behind + 1 :]
    holder = Holder(arguments[0], words, keep="--keep" in flags, pipe="--pipe" in flags)
    try:
        status = holder.run()
    except FileNotFoundError:
        say_in_log(f"{words[0]}: command not found")
        os._exit(127)
    except OSError as error:
        say_in_log(f"{words[0]}: {error.strerror}")
        os._exit(126)
    end_as(status)


if __name__ == "__main__":
    main(sys.argv[1:])
