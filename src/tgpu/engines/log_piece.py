"""A piece of an attempt's log, as every engine gives it."""

from typing import Final, NamedTuple


class Piece(NamedTuple):
    data: bytes
    offset: int  # of its first byte
    size: int  # of the whole log
    left_out: int  # bytes of it that are not there: taken out of the middle


NOTHING: Final = Piece(b"", 0, 0, 0)
