"""Free space on the disk of the data directory, and what is rejected without it.

A ballast (`engines/ballast.py`) is given up when something cannot be written for lack of space.
Until it can be made again, ends, cancels and holds are recorded, and nothing new is taken or
started.
"""

import contextlib
from typing import Final

import structlog

from tgpu.core.errors import Unavailable
from tgpu.engines import ballast
from tgpu.engines.ballast import Room
from tgpu.text.sizes import bytes_text

_log = structlog.get_logger("gpu_scheduler.disk")

LOOK_SECONDS: Final = 2.0


class Disk:
    """`ballast_bytes` of 0: no ballast, and nothing is refused before a write fails."""

    def __init__(self, directory: str, ballast_bytes: int) -> None:
        self.directory = directory
        self.room: Room | None = None  # None: it cannot be known
        self._wanted = ballast_bytes
        self._is_kept = True
        self._trouble: str | None = None

    @property
    def is_low(self) -> bool:
        return not self._is_kept

    def look(self) -> None:
        """Blocks: for a thread. Makes the ballast where it is missing and there is room."""
        was_low = self.is_low
        try:
            if self._wanted:
                self._is_kept = ballast.keep(self.directory, self._wanted)
            self.room = ballast.room_at(self.directory)
            self._trouble = None
        except OSError as error:
            self._trouble = error.strerror
        if self.is_low and not was_low:
            _log.error(
                "the disk is full: new jobs are rejected, running jobs continue", **self._facts()
            )
        elif was_low and not self.is_low:
            _log.info("there is free space on the disk again", **self._facts())

    def make_room(self) -> bool:
        """Give the ballast up: something could not be written. Whether that gained anything."""
        if not self._wanted or not ballast.give_up(self.directory):
            return False
        self._is_kept = False
        with contextlib.suppress(OSError):
            self.room = ballast.room_at(self.directory)
        _log.error(
            "the disk is full: the ballast is deleted, so that ends and cancels can be recorded; "
            "new jobs are rejected",
            **self._facts(),
        )
        return True

    def refuse_when_low(self) -> None:
        """Before something new is taken. Raises Unavailable."""
        if self.is_low:
            facts: dict[str, object] = {"path": self.directory}
            if self.room is not None:
                facts["free_bytes"] = self.room.free
            raise Unavailable(f"{self._sentence()}. Nothing was recorded", [facts])

    def problems(self) -> list[str]:
        if self._trouble is not None:
            return [f"disk: {self.directory} cannot be checked: {self._trouble}"]
        return [f"disk: {self._sentence()}"] if self.is_low else []

    def _sentence(self) -> str:
        left = "" if self.room is None else f" ({free_of(self.room)})"
        return (
            f"the disk is full: free some space for {self.directory}{left}. Until then jobs can end"
            " and be cancelled, and no new jobs are accepted or started"
        )

    def _facts(self) -> dict[str, object]:
        left = None if self.room is None else free_of(self.room)
        return {"path": self.directory, "room": left}


class NoDisk(Disk):
    """Of a service that keeps nothing."""

    def __init__(self) -> None:
        super().__init__("", 0)

    def look(self) -> None:
        """There is nothing to look at."""


def free_of(room: Room) -> str:
    text = f"{bytes_text(room.free)} of {bytes_text(room.total)} free"
    return text if room.free_inodes != 0 else f"{text}, no inodes left"
