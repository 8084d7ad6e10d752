"""Names and groups of local users from the system, with a cache.

Those lists may be on another machine (LDAP, sssd), slow, or hang. So they are asked in threads that
can be left behind, one question a user at a time, and an answer is believed for a while. Where none
comes there is no answer: nobody keeps rights because a list cannot be read.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tgpu.core.errors import Unavailable
from tgpu.engines.file_reads import FileReads, ReadTimedOut
from tgpu.peers.users import Membership, name_of

CACHE_SECONDS: Final = 30.0
_PATIENCE_SECONDS: Final = 5.0
_THREADS: Final = 4
_MOST_KEPT: Final = 10_000  # answers; those that are no longer believed go first


LookUp = Callable[[int], Membership]


@dataclass(frozen=True, slots=True)
class _Answer:
    at: float
    found: Membership


class Memberships:
    """Used from one event loop."""

    def __init__(
        self,
        look_up: LookUp = name_of,
        seconds: float = CACHE_SECONDS,
        *,
        patience: float = _PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._seconds = seconds
        self._patience = patience
        self._clock = clock
        self._threads = FileReads(threads=_THREADS, for_one_job=1, seconds=patience)
        self._answers: dict[int, _Answer] = {}
        self._asking: dict[int, asyncio.Task[Membership]] = {}

    async def of(self, uid: int) -> Membership:
        """Raises Unavailable where the system does not say."""
        answer = self._answers.get(uid)
        if answer is not None and self._clock() - answer.at <= self._seconds:
            return answer.found
        # Shielded: whoever asked first may go away, the others still wait for it.
        return await asyncio.shield(self._ask(uid))

    def now(self, uid: int) -> Membership | None:
        """What is known without waiting, asked again behind it once it is old; None: nothing.

        For those who look again and again at callers who stay: it is never older than twice the
        time that answers are believed, and what it takes to ask.
        """
        answer = self._answers.get(uid)
        age = self._seconds if answer is None else self._clock() - answer.at
        if age >= self._seconds:
            self._ask(uid)
        is_old = age > 2 * self._seconds + 2 * self._patience
        return None if answer is None or is_old else answer.found

    def _ask(self, uid: int) -> "asyncio.Task[Membership]":
        task = self._asking.get(uid)
        if task is None:
            task = self._asking[uid] = asyncio.create_task(self._asked(uid))
            task.add_done_callback(_seen)
        return task

    async def _asked(self, uid: int) -> Membership:
        try:
            found = await self._threads.read(str(uid), lambda: self._look_up(uid))
        except (ReadTimedOut, OSError):
            raise Unavailable(
                f"the system does not tell who user {uid} is and which groups they are in: its "
                "user database does not answer; try again in a moment, or tell the administrator"
            ) from None
        finally:
            del self._asking[uid]
        self._keep(uid, found)
        return found

    def _keep(self, uid: int, found: Membership) -> None:
        now = self._clock()
        if len(self._answers) >= _MOST_KEPT:
            fresh = {
                each: answer
                for each, answer in self._answers.items()
                if now - answer.at <= self._seconds
            }
            self._answers = fresh if len(fresh) < _MOST_KEPT else {}
        self._answers[uid] = _Answer(now, found)


def _seen(task: "asyncio.Task[Membership]") -> None:
    """Where nobody waits for it, what went wrong is no surprise to log."""
    if not task.cancelled():
        task.exception()
