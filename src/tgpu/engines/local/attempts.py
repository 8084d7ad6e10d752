"""The attempts the supervisor knows, what stage each is in, and the journal that remembers them."""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tgpu.engines.ballast import FULL, give_up
from tgpu.engines.local import steady
from tgpu.engines.local.journal import AttemptJournal
from tgpu.engines.local.loop import Loop, Timer
from tgpu.engines.local.paths import attempt_path
from tgpu.engines.local.protocol import Key, Notice, Seen
from tgpu.engines.local.record import Claim, Exit

# How many attempts that were ended before they started are remembered after they were forgotten:
# a launch may be on its way for as long as a call is repeated, which is seconds.
_MOST_TOMBSTONES = 10_000
_NO_KEY: Key = ("", 0, "")  # of a record that is of no attempt: older versions pass it over

STOPPED = "stopped"
TIME_LIMIT = "time_limit"


class Stage(Enum):
    QUEUED = 1  # taken, no runner has it yet
    HANDED = 2  # a runner has it and has not said anything yet
    RUNNING = 3
    ENDED = 4


class Keeper(Enum):
    """Who is the parent of the attempt's processes and waits for them."""

    RUNNER = 1  # one of ours
    OLD_RUNNER = 2  # one that a former supervisor forked; it writes its files and then exits
    SUPERVISOR = 3  # we ourselves: its runner was killed
    NOBODY = 4  # init: runner and supervisor were both killed


@dataclass(slots=True, eq=False)
class Attempt:
    key: Key
    path: str
    grace_ms: int
    time_limit_ms: int | None
    boot: str
    line: bytes = b""  # the launch as it came, kept until a runner has made something of it
    stage: Stage = Stage.QUEUED
    keeper: Keeper = Keeper.RUNNER
    handed_at: float = 0.0  # by the monotonic clock
    runner: int = 0
    main: int = 0
    main_start: int = 0
    started_at: int | None = None
    cause: str | None = None  # why it was told to end, if it was
    notice: Notice | None = None  # what it gets before TERM, because it is preempted
    is_noticed: bool = False  # … and has got
    is_paused: bool = False  # its processes are to stand still
    must_wake: bool = False  # … and were to, but not all of them may have been told that it is over
    is_ending: bool = False  # TERM was sent: because it was told to end, or to what it left over
    ended: Exit | None = None  # how the command ended, though some of its processes may be left
    seen: Seen | None = None  # the end, as reported
    limit: Timer | None = None
    # What its claim says, by which its processes are known when nobody is their parent any more.
    group: str = ""
    memory_group: str = ""
    uid: int = -1
    told_hidden: str = ""  # what was said of a process that cannot be looked at
    since: int = 0  # nothing of it started before this, in clock ticks since boot

    def learn(self, claim: Claim) -> None:
        self.group, self.memory_group, self.uid = claim.group, claim.memory_group, claim.uid
        self.since = claim.main_start or claim.runner_start

    @property
    def identity(self) -> str:
        return self.key[2]


class RecordedAttempts:
    """Changes go through here, so that each is in the journal and in the news.

    News must be told, and launches handed out, only after the journal was flushed.
    """

    def __init__(self, loop: Loop, root: str, journal: AttemptJournal, boot: str) -> None:
        self._loop = loop
        self._root = root
        self._journal = journal
        self.boot = boot
        self.by_key: dict[Key, Attempt] = {}
        self.live: dict[Key, Attempt] = {}  # those not ended
        self.queue: deque[Attempt] = deque()
        self.news: list[Seen] = []
        # Forgotten, and never to be started: a set that keeps its order.
        self._tombstones: dict[Key, None] = {}
        self.epoch = 0  # the highest of any service that was here

    def take_over(self, epoch: int) -> None:
        """Durable before anything of that service is carried out or answered."""
        if epoch > self.epoch:
            self.epoch = epoch
            self._journal.append("epoch", *_NO_KEY, epoch)

    def take(self, key: Key, grace_ms: int, time_limit_ms: int | None, line: bytes) -> None:
        """Queue an attempt, unless it is known. Raises ValueError for an unsafe name."""
        if key in self.by_key:
            return
        path = f"{self._root}/{attempt_path(*key)}"
        attempt = Attempt(key, path, grace_ms, time_limit_ms, self.boot, line)
        self.by_key[key] = self.live[key] = attempt
        self._journal.append("launch", *key, self.boot, grace_ms, time_limit_ms)
        if key in self._tombstones:
            self.not_started(attempt, STOPPED, retry=False)
        else:
            self.queue.append(attempt)

    def bar(self, key: Key, cause: str) -> None:
        """See to it that an attempt not known yet never starts: its launch may be on the way."""
        if key not in self.by_key:
            self.take(key, 0, None, b"")
            if self.queue and self.queue[-1].key == key:
                self.not_started(self.queue.pop(), cause, retry=False)

    def started(self, attempt: Attempt, main: int, main_start: int, at: int) -> None:
        attempt.stage = Stage.RUNNING
        attempt.line = b""
        attempt.main, attempt.main_start, attempt.started_at = main, main_start, at
        self.news.append(self.running(attempt))

    def told_to_end(self, attempt: Attempt, cause: str, notice: Notice | None = None) -> None:
        """Remember why, also for a supervisor that comes after us. The first cause counts.

        Told again without a notice, it is to end without one.
        """
        if attempt.ended is not None:
            return
        if attempt.cause is None:
            attempt.cause, attempt.notice = cause, notice
        elif attempt.notice is not None and notice is None:
            attempt.notice = None
        else:
            return
        self._journal.append("end", *attempt.key, attempt.cause, attempt.notice)

    def told_to_pause(self, attempt: Attempt, paused: bool) -> None:
        """Remember it, also for a supervisor that comes after us."""
        attempt.is_paused, attempt.must_wake = paused, not paused
        self._journal.append("pause", *attempt.key, paused)

    def exited(self, attempt: Attempt, end: Exit, gone_at: int) -> None:
        self._finish(
            attempt,
            Seen(
                *attempt.key,
                "exited",
                gone_at,
                attempt.started_at,
                attempt.main or None,
                end.exit_code,
                end.signal,
                attempt.cause,
                end.user_cpu_ms,
                end.system_cpu_ms,
                end.max_rss_kib,
            ),
        )

    def not_started(self, attempt: Attempt, cause: str, retry: bool) -> None:
        seen = Seen(*attempt.key, "not_started", now_ms(), cause=cause, retry=retry)
        self._finish(attempt, seen)

    def lost(self, attempt: Attempt, cause: str) -> None:
        pid = attempt.main or None
        seen = Seen(*attempt.key, "lost", now_ms(), attempt.started_at, pid, cause=cause)
        self._finish(attempt, seen)

    def forget(self, key: Key) -> None:
        """Only what is over can be forgotten; anything else is not on record elsewhere."""
        attempt = self.by_key.get(key)
        if attempt is not None and attempt.stage is Stage.ENDED:
            del self.by_key[key]
            # If this record is lost the attempt is known again, and forgotten again.
            self._journal.append("forget", *key, sync=False)
            self._leave_tombstone(attempt)

    def _leave_tombstone(self, attempt: Attempt) -> None:
        """One that never started has no record on disk by which a second launch would know it."""
        seen = attempt.seen
        if seen is not None and seen.phase == "not_started" and seen.cause == STOPPED:
            self._tombstones[attempt.key] = None
            if len(self._tombstones) > _MOST_TOMBSTONES:
                del self._tombstones[next(iter(self._tombstones))]

    def running(self, attempt: Attempt, cause: str | None = None) -> Seen:
        at = attempt.started_at or 0
        return Seen(*attempt.key, "running", at, at, attempt.main or None, cause=cause)

    def everything(self) -> list[Seen]:
        """All that is running or over. What is not started yet is neither."""
        return [
            attempt.seen or self.running(attempt)
            for attempt in self.by_key.values()
            if attempt.seen or attempt.stage is Stage.RUNNING
        ]

    def replay(self) -> None:
        """Take up what the journal says, then write it anew without what was forgotten."""
        for kind, *fields in self._journal.replay():
            self._replay_one(kind, fields)
        self.live = {key: a for key, a in self.by_key.items() if a.stage is not Stage.ENDED}
        try:
            self._with_room(lambda: self._journal.rewrite(self._records()))
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._journal.resume()  # the long one serves as well

    def flush(self) -> None:
        """Raises OSError while the journal cannot be written; nothing is lost by trying again."""
        self._with_room(self._journal.flush)
        if self._journal.is_long:
            with contextlib.suppress(OSError):  # the long one serves as well
                self._journal.rewrite(self._records())

    def _with_room(self, write: Callable[[], None]) -> None:
        """On a full disk the ballast of the data directory, which is above ours, makes room."""
        try:
            write()
        except OSError as error:
            if error.errno not in FULL or not give_up(os.path.dirname(self._root)):
                raise
            write()

    def _finish(self, attempt: Attempt, seen: Seen) -> None:
        attempt.stage = Stage.ENDED
        attempt.line = b""
        attempt.seen = seen
        if attempt.limit is not None:
            self._loop.cancel(attempt.limit)
            attempt.limit = None
        self.live.pop(attempt.key, None)
        self._journal.append("over", *seen)
        self.news.append(seen)

    def _records(self) -> Iterator[tuple[object, ...]]:
        if self.epoch:
            yield ("epoch", *_NO_KEY, self.epoch)
        for key in self._tombstones:
            yield ("tombstone", *key)
        for attempt in self.by_key.values():
            yield (
                "launch",
                *attempt.key,
                attempt.boot,
                attempt.grace_ms,
                attempt.time_limit_ms,
            )
            if attempt.seen is not None:
                yield ("over", *attempt.seen)
                continue
            if attempt.is_paused or attempt.must_wake:
                yield ("pause", *attempt.key, attempt.is_paused)
            if attempt.cause is not None:
                yield ("end", *attempt.key, attempt.cause, attempt.notice)

    def _replay_one(self, kind: str, fields: list[Any]) -> None:
        key = (fields[0], fields[1], fields[2])
        if kind == "launch":
            boot, grace_ms, time_limit_ms = fields[3:]
            path = f"{self._root}/{attempt_path(*key)}"
            self.by_key[key] = Attempt(key, path, grace_ms, time_limit_ms, boot)
            return
        if kind == "epoch":
            self.epoch = max(self.epoch, fields[3])
            return
        if kind == "tombstone":
            self._tombstones[key] = None
            return
        attempt = self.by_key.get(key)
        if attempt is None:
            return
        if kind == "over":
            attempt.seen = Seen(*fields)
            attempt.stage = Stage.ENDED
        elif kind == "end":
            attempt.cause = fields[3]
            notice = fields[4] if len(fields) > 4 else None  # older ones have none
            attempt.notice = None if notice is None else (notice[0], notice[1])
        elif kind == "pause":
            attempt.is_paused, attempt.must_wake = fields[3], not fields[3]
        elif kind == "forget":
            del self.by_key[key]
            self._leave_tombstone(attempt)


def now_ms() -> int:
    return steady.now_ms()
