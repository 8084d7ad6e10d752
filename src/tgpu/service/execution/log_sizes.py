"""A short cache of log sizes, so that many followers of one log cost one lookup."""

from typing import Final

from tgpu.engines.log_piece import NOTHING, Piece

# Files cannot be waited for without more machinery; a tenth of a second is what people call live.
POLL_SECONDS: Final = 0.1
_MOST: Final = 4096  # logs; those of a moment ago are enough

Log = tuple[str, str]  # an attempt, and which of its streams


class LogSizes:
    def __init__(self) -> None:
        self._seen: dict[Log, tuple[float, Piece]] = {}

    def note(self, log: Log, piece: Piece, now: float) -> None:
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen[log] = now, piece

    def known_end(self, log: Log, offset: int, now: float) -> Piece | None:
        """That there is nothing at `offset` yet, where somebody has just looked; None: look."""
        at, piece = self._seen.get(log, (0.0, NOTHING))
        if now - at >= POLL_SECONDS or offset < piece.size:
            return None
        return Piece(b"", piece.size, piece.size, piece.left_out)
