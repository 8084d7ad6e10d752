"""The protocol between a job's terminal and its client. Pure.

A letter for the kind, four bytes of length, and as many bytes.
"""

import struct
from collections.abc import Iterator
from typing import Final

DATA: Final = b"d"  # typed, or shown
SIZE: Final = b"w"  # rows and columns of the window
END: Final = b"e"  # nothing more will be typed
DETACH: Final = b"q"  # whoever sits there leaves, and the job goes on
TAKEN: Final = b"t"  # somebody else sits there now
_HEAD: Final = struct.Struct(">cI")
_SIZES: Final = struct.Struct(">HH")
_MOST_BYTES: Final = 1 << 20  # of one frame: more is no frame of ours


class NoFrame(Exception):
    """What came is not of this protocol."""


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    return _HEAD.pack(kind, len(payload)) + payload


def size_frame(rows: int, columns: int) -> bytes:
    return frame(SIZE, _SIZES.pack(rows & 0xFFFF, columns & 0xFFFF))


def read_size(payload: bytes) -> tuple[int, int]:
    if len(payload) != _SIZES.size:
        raise NoFrame
    rows, columns = _SIZES.unpack(payload)
    return rows, columns


class Frames:
    """Takes bytes as they come and gives whole frames."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def take(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        self._waiting += data
        while len(self._waiting) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._waiting)
            if length > _MOST_BYTES:
                raise NoFrame
            if len(self._waiting) < _HEAD.size + length:
                return
            payload = bytes(self._waiting[_HEAD.size : _HEAD.size + length])
            del self._waiting[: _HEAD.size + length]
            yield kind, payload
