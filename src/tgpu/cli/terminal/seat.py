"""The client of a job's terminal: sends what is typed, shows its output."""

import contextlib
import os
import selectors
import signal
import socket
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from tgpu.cli.terminal import doors, frames
from tgpu.host import processes

_PIECE: Final = 1 << 16
_LEAVE: Final = 0x1D  # Ctrl-]
_LEAVE_WITH: Final = ord("d")
_LOOK_SECONDS: Final = 0.02
_COME_SECONDS: Final = 20.0  # for a job that runs to open its terminal


class SeatOutcome(Enum):
    """How sitting there came to an end."""

    OVER = "over"  # the command is
    LEFT = "left"  # by the keys for it
    TAKEN = "taken"  # by somebody else


class NoTerminal(Exception):
    """The sentence says why nobody can sit there."""


def reach(name: str, pid: int | None, is_over: Callable[[], bool]) -> socket.socket | None:
    """The line to a job's terminal; None where the job is over before. Raises NoTerminal.

    `pid` is the job's: whoever answers in its name must be its user, also to root.
    """
    until = time.monotonic() + _COME_SECONDS
    while True:
        try:
            line = doors.connect(name)
        except OSError:
            if is_over():
                return None
            if time.monotonic() > until:
                raise NoTerminal("its terminal is not on this machine, or is gone") from None
            time.sleep(_LOOK_SECONDS)
            continue
        uid = doors.uid_of(line)
        if pid is not None and processes.uid_of(pid) not in (None, uid):
            line.close()
            raise NoTerminal(f"a process of user {uid}, which is another user, answers instead")
        if os.geteuid() not in (0, uid):
            line.close()
            raise NoTerminal(
                f"it runs as user {uid}, and only they and root may connect to its terminal"
            )
        return line


def sit(line: socket.socket) -> SeatOutcome:
    """Until the command is over or the keys to leave are typed. The terminal is put back."""
    with _raw(), _resized(line):
        return _Seat(line).run()


def feed(line: socket.socket) -> None:
    """Send on standard input, to its end, beside whatever else is done."""

    def copy() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(0, _PIECE):
                line.sendall(frames.frame(frames.DATA, data))
            line.sendall(frames.frame(frames.END))

    threading.Thread(target=copy, daemon=True).start()


class _Seat:
    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._frames = frames.Frames()
        self._is_leaving = False  # the first of the two keys was typed

    def run(self) -> SeatOutcome:
        selector = selectors.DefaultSelector()
        selector.register(self._line, selectors.EVENT_READ, self._shown)
        selector.register(0, selectors.EVENT_READ, self._typed)
        while True:
            for key, _ in selector.select():
                outcome = key.data()
                if outcome is not None:
                    return outcome  # type: ignore[no-any-return]  # what the two below return

    def _shown(self) -> SeatOutcome | None:
        try:
            data = self._line.recv(_PIECE)
        except OSError:
            data = b""
        for kind, payload in self._frames.take(data):
            if kind == frames.DATA:
                _write(payload)
            elif kind == frames.TAKEN:
                return SeatOutcome.TAKEN
        return None if data else SeatOutcome.OVER

    def _typed(self) -> SeatOutcome | None:
        data = os.read(0, _PIECE)
        if not data:  # the window is gone
            return SeatOutcome.OVER
        kept, leaves = self._without_keys(data)
        try:
            if kept:
                self._line.sendall(frames.frame(frames.DATA, kept))
            if leaves:
                self._line.sendall(frames.frame(frames.DETACH))
        except OSError:
            return SeatOutcome.OVER
        return SeatOutcome.LEFT if leaves else None

    def _without_keys(self, data: bytes) -> tuple[bytes, bool]:
        """Ctrl-] d leaves; Ctrl-] twice is one for the command, and before others it stays."""
        kept = bytearray()
        for byte in data:
            if self._is_leaving:
                self._is_leaving = False
                if byte == _LEAVE_WITH:
                    return bytes(kept), True
                kept += bytes([_LEAVE] if byte == _LEAVE else [_LEAVE, byte])
            elif byte == _LEAVE:
                self._is_leaving = True
            else:
                kept.append(byte)
        return bytes(kept), False


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is for the command
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resized(line: socket.socket) -> Iterator[None]:
    def tell(*_: object) -> None:
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(0)
            line.sendall(frames.size_frame(size.lines, size.columns))

    before = signal.signal(signal.SIGWINCH, tell)
    tell()
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _write(data: bytes) -> None:
    sys.stdout.flush()
    while data:
        data = data[os.write(1, data) :]
