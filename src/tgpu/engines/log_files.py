"""Logs of attempts that are files of this machine, one folder for each attempt."""

from collections.abc import Callable

from tgpu.engines.api import AttemptKey, LogUnreadable
from tgpu.engines.attempt_files import read_piece
from tgpu.engines.file_reads import FileReads, ReadTimedOut
from tgpu.engines.log_piece import Piece
from tgpu.text.system_words import system_words


class LogFiles:
    def __init__(self, find: Callable[[AttemptKey], str]) -> None:
        """`find` tells the folder of an attempt; it may take as long as the disk does."""
        self._find = find
        self._reads = FileReads()

    @property
    def stuck(self) -> int:
        """How many reads do not come back."""
        return self._reads.stuck

    async def read(self, key: AttemptKey, stream: str, offset: int, limit: int) -> Piece:
        name = f"{stream}.log"

        def read() -> Piece:
            # Looked for each time: while it starts, what is there may be an earlier job's.
            return read_piece(self._find(key), name, offset, limit)

        try:
            return await self._reads.read(key.job_id, read)
        except ReadTimedOut as error:
            raise LogUnreadable(name, str(error), is_for_now=True) from None
        except OSError as error:
            raise LogUnreadable(name, system_words(error)) from None
