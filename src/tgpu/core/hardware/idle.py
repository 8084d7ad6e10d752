"""Idle jobs: flagged, then warned, then handled as their queue says.

One window of idleness for each rung. The window slides: what counts is the average over it.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final


class Rung(IntEnum):
    BUSY = 0
    NOTICED = 1
    WARNED = 2
    DUE = 3  # for what its queue says


class IdleAction(StrEnum):
    WARN = "warn"
    HOLD = "hold"  # ended, and back in the queue on hold
    END = "end"


@dataclass(frozen=True, slots=True)
class IdleRules:
    percent: int = 5  # below this a GPU does nothing
    window_ms: int = 1_800_000  # 0: nobody looks


# A window is kept in this many pieces, so that a long one costs no more than a short one.
_PIECES: Final = 60


@dataclass(frozen=True, slots=True)
class _Piece:
    number: int
    readings: int
    percents: int  # their sum


@dataclass(frozen=True, slots=True)
class IdleWatch:
    """What is remembered of one job. A job begins busy, and so does one after a restart."""

    since: int  # the first reading
    pieces: tuple[_Piece, ...] = ()
    rung: Rung = Rung.BUSY
    rung_at: int = 0


def climb(watch: IdleWatch, percent: int | None, now: int, rules: IdleRules) -> IdleWatch:
    """The watch after a reading of the job's busiest GPU; None where the driver does not tell."""
    if rules.window_ms <= 0:
        return watch
    pieces = _with(watch.pieces, percent, now, rules.window_ms)
    rung, rung_at = watch.rung, watch.rung_at
    if now - watch.since >= rules.window_ms and _is_idle(pieces, rules.percent):
        if rung is Rung.BUSY or (rung is not Rung.DUE and now - rung_at >= rules.window_ms):
            rung, rung_at = Rung(rung + 1), now
    elif not _is_idle(pieces, rules.percent):
        rung, rung_at = Rung.BUSY, now
    return IdleWatch(watch.since, pieces, rung, rung_at)


def _with(
    pieces: tuple[_Piece, ...], percent: int | None, now: int, window_ms: int
) -> tuple[_Piece, ...]:
    length = max(1, window_ms // _PIECES)
    number = now // length
    kept = tuple(piece for piece in pieces if piece.number > number - _PIECES)
    if percent is None:
        return kept
    if kept and kept[-1].number == number:
        last = kept[-1]
        return (*kept[:-1], _Piece(number, last.readings + 1, last.percents + percent))
    return (*kept, _Piece(number, 1, percent))


def _is_idle(pieces: tuple[_Piece, ...], percent: int) -> bool:
    """Without a single reading nobody can say that it is."""
    readings = sum(piece.readings for piece in pieces)
    return readings > 0 and sum(piece.percents for piece in pieces) < percent * readings
