"""Runs independent pieces of work in parallel processes.

The processes are forks: what they work on is there without being sent, also what cannot be. What
comes back is sent, so a piece of work should return little.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

Tell = Callable[[int], None]
Piece = Callable[[Tell], T]  # is given whom to tell how far it is


class _Told(NamedTuple):
    more: int


class _Done(NamedTuple, Generic[T]):
    value: T


class _Failed(NamedTuple):
    trace: str


def processors() -> int:
    """How many processes make sense at once; 1 where more cannot be forked, or not safely."""
    if sys.platform != "linux" or current_process().daemon:
        return 1
    return len(os.sched_getaffinity(0))


def side_by_side(pieces: Sequence[Piece[T]], processes: int, tell: Tell) -> list[T]:
    """What each of the pieces returns, in their order; they are begun in it as well."""
    found: dict[int, T] = {}
    running: dict[Connection, tuple[int, ForkProcess]] = {}
    begun = 0
    try:
        while len(found) < len(pieces):
            while begun < len(pieces) and len(running) < processes:
                pipe, process = _begin(pieces[begun])
                running[pipe] = (begun, process)
                begun += 1
            for pipe in [pipe for pipe in wait(running) if isinstance(pipe, Connection)]:
                message: _Told | _Done[T] | _Failed = _receive(pipe)
                if isinstance(message, _Told):
                    tell(message.more)
                    continue
                number, process = running.pop(pipe)
                process.join()
                pipe.close()
                if isinstance(message, _Failed):
                    raise RuntimeError(f"a process of the simulation failed:\n{message.trace}")
                found[number] = message.value
    finally:
        for pipe, (_, process) in running.items():
            process.kill()
            process.join()
            pipe.close()
    return [found[number] for number in range(len(pieces))]


def _begin(piece: Piece[T]) -> tuple[Connection, ForkProcess]:
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(piece, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _receive(pipe: Connection) -> _Told | _Done[T] | _Failed:
    try:
        message: _Told | _Done[T] | _Failed = pipe.recv()
    except EOFError:
        return _Failed("it ended without a result")
    return message


def _work(piece: Piece[T], pipe: Connection) -> None:
    try:
        pipe.send(_Done(piece(lambda more: pipe.send(_Told(more)))))
    except Exception:
        pipe.send(_Failed(traceback.format_exc()))
