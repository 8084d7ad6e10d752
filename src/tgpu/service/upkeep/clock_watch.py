"""Detects steps of the wall clock, records and reports them.

Until it is on record the service goes on by the time from before, so no decision ever sees half of
a step. What was seen is kept as a document: a step is also noticed where the service was away
meanwhile.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, Protocol

import msgspec
import structlog

from tgpu.core.model.events import ClockStepped
from tgpu.core.state.clock_step import moved_by
from tgpu.core.state.cluster_state import State
from tgpu.service.accounting.budget_enforcement import SPEND, user_documents
from tgpu.service.accounting.metering import METER
from tgpu.service.recording.audit import by_itself
from tgpu.service.recording.clock import Clock, SteadyClock, boottime_ms
from tgpu.service.recording.observer import Observer
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store, StoreUnavailable
from tgpu.text.instants import utc_text

KIND: Final = "clock"  # documents: how the clocks stood when that was looked at last
_NAME: Final = "seen"
# Less than this is followed without a word: it charges nobody for more than a second, and is how
# far two readings of the clocks may lie apart on a machine that is very busy.
LEAST_STEP_MS: Final = 1_000
_LOOK_SECONDS: Final = 1.0
_SAVE_MS: Final = 3_600_000
_TOLD_SECONDS: Final = 3_600.0  # that health speaks of a step

_log = structlog.get_logger("gpu_scheduler.clock")


class _Seen(msgspec.Struct):
    boot: str
    offset_ms: int  # from the boot time to the time of day
    at: int


class Follower(Protocol):
    """Keeps instants of its own that must go along with the clock."""

    def step_documents(self, by: int) -> dict[tuple[str, str], bytes | None]:
        """To be recorded with the step."""

    def step(self, by: int) -> None:
        """It is on record."""


class ClockWatch:
    """Nothing to do on a clock that is set by hand. `boot` is another word whenever the machine was
    started; where it tells none, each start counts as another."""

    def __init__(
        self,
        clock: Clock,
        writer: Writer,
        observer: Observer,
        *,
        followers: Sequence[Follower] = (),
        boot: Callable[[], str] = str,
        boottime: Callable[[], int] = boottime_ms,
    ) -> None:
        self._clock = clock if isinstance(clock, SteadyClock) else None
        self._writer = writer
        self._observer = observer
        self._find_boot = boot
        self._followers = followers
        self._boottime = boottime
        self._boot = ""
        self._saved: _Seen | None = None
        self._told: tuple[str, int] | None = None  # the sentence, and when, by the boot time

    async def open(self, store: Store) -> None:
        """Go on by the time of the last run of the service, if there is a step to be noticed."""
        if self._clock is None:
            return
        self._boot = self._find_boot()
        body = (await store.documents(KIND)).get(_NAME)
        seen = None if body is None else msgspec.json.decode(body, type=_Seen)
        if seen is None:
            return
        self._saved = seen
        if seen.boot == self._boot != "":
            self._clock.follow(seen.offset_ms - self._clock.offset_ms)
        elif self._clock.now() < seen.at:
            # A machine that came up with a clock that is behind: no time passed, as far as anybody
            # knows, rather than less than none.
            self._clock.follow(seen.at - self._clock.now())

    async def run(self) -> None:
        while self._clock is not None:
            try:
                await self.look()
            except StoreUnavailable as error:
                _log.error("a step of the clock cannot be recorded yet", problem=str(error))
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        clock = self._clock
        if clock is None:
            return
        by = clock.step_ms()
        if abs(by) >= LEAST_STEP_MS:
            await self._record(clock, by)
        elif abs(by) > 1:  # one may come of rounding
            clock.follow(by)
        await self._save(clock)

    def problems(self) -> list[str]:
        if self._told is None:
            return []
        sentence, at = self._told
        return [sentence] if self._boottime() - at < _TOLD_SECONDS * 1000 else []

    async def _record(self, clock: SteadyClock, by: int) -> None:
        def decide(state: State) -> Decision[int]:
            before = clock.now()
            seen = self._seen(clock, by)
            stepped = ClockStepped(before + by, by, moved_by(state, by))
            documents = _documents(state, before, by)
            documents[KIND, _NAME] = msgspec.json.encode(seen)
            for follower in self._followers:
                documents |= follower.step_documents(by)

            def applied() -> None:
                clock.follow(by)
                for follower in self._followers:
                    follower.step(by)
                self._saved = seen

            return Decision(before, [stepped], documents=documents, applied=applied)

        with by_itself():
            before = await self._writer.do(decide, touches=None, is_patient=True)
        sentence = (
            f"the clock of this machine was set {timedelta(milliseconds=abs(by))}"
            f" {'ahead' if by > 0 else 'back'}, at {utc_text(before)}, now {utc_text(before + by)}:"
            " run times, leases and time limits are not affected"
        )
        self._told = (sentence, self._boottime())
        self._observer.clock_stepped(by)
        _log.warning("the clock was set", seconds=by / 1000, problem=sentence)

    async def _save(self, clock: SteadyClock) -> None:
        """Seldom: a step while the service is away is measured from here."""
        saved, now = self._saved, clock.now()
        is_known = saved is not None and saved.boot == self._boot
        if is_known and saved is not None:
            drift = abs(saved.offset_ms - clock.offset_ms)
            if drift < LEAST_STEP_MS and 0 <= now - saved.at < _SAVE_MS:
                return
        await self.save()

    async def save(self) -> None:
        """What time it is, for the next run of the service."""
        if self._clock is None:
            return
        seen = self._seen(self._clock, 0)

        def applied() -> None:
            self._saved = seen

        def decide(_: State) -> Decision[None]:
            documents = {(KIND, _NAME): msgspec.json.encode(seen)}
            return Decision(None, documents=documents, applied=applied)

        with by_itself():
            await self._writer.do(decide, touches=())

    def _seen(self, clock: SteadyClock, by: int) -> _Seen:
        return _Seen(self._boot, clock.offset_ms + by, clock.now() + by)


def _documents(state: State, before: int, by: int) -> dict[tuple[str, str], bytes | None]:
    """The meters as they are after the step: a restart goes on from there."""
    found: dict[tuple[str, str], bytes | None] = {
        (METER, json.dumps(owner)): json.dumps([meter.average, meter.at + by]).encode()
        for owner, meter in state.meters.by_owner.items()
    }
    now = max(before, state.now)
    for tenant_id, spend in state.budgets.spends.items():
        found[SPEND, tenant_id] = msgspec.json.encode(spend.stepped(now, by))
    days = {key: spend.stepped(now, by) for key, spend in state.user_days.spends.items()}
    return {**found, **user_documents(days)}
