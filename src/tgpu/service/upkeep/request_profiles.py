"""Learns the request profile from the newest jobs, and records it.

The mix is part of what was decided by, so it changes by an event: after a restart, on another
machine and in a replay it is the one that was in force.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec
import structlog

from tgpu.core.model.events import MixSet
from tgpu.core.model.request_profile import RequestProfile, RequestShape, differs, learn, shape_of
from tgpu.core.state.cluster_state import State
from tgpu.service.recording.audit import by_itself
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import JobQuery, Store, StoreUnavailable

KIND: Final = "mix"  # documents: the mix in force
MOST_JOBS: Final = 5_000  # the newest ones: weeks of a small cluster, a day of a large one
_NAME: Final = "learnt"
_PAGE: Final = 500
_SECONDS: Final = 3600.0  # between two looks

_log = structlog.get_logger("gpu_scheduler.mix")


def read_mix(documents: Mapping[str, bytes]) -> RequestProfile | None:
    """As it was put on record last; None where none was."""
    body = documents.get(_NAME)
    return None if body is None else msgspec.json.decode(body, type=RequestProfile)


class MixLearner:
    def __init__(self, state: State, store: Store, writer: Writer, clock: Clock) -> None:
        self._state = state
        self._store = store
        self._writer = writer
        self._clock = clock

    async def run(self) -> None:
        """Look now, and then every hour."""
        while True:
            try:
                await self.look()
            except StoreUnavailable as error:
                _log.warning(
                    "past jobs could not be read for the request profile", problem=str(error)
                )
            await asyncio.sleep(_SECONDS)

    async def look(self) -> bool:
        """Learn anew; whether the mix is another now."""
        found = learn(await self._counted())
        known = self._state.ledger.request_profile
        if found is None or (known is not None and not differs(known, found)):
            return False
        body = msgspec.json.encode(found)

        def decide(_: State) -> Decision[None]:
            event = MixSet(self._clock.now(), found)
            return Decision(None, [event], documents={(KIND, _NAME): body})

        with by_itself():
            await self._writer.do(decide, touches=None)
        _log.info("learnt the request profile", wishes=len(found.wishes))
        return True

    async def _counted(self) -> Counter[RequestShape]:
        counts: Counter[RequestShape] = Counter()
        before: int | None = None
        while sum(counts.values()) < MOST_JOBS:
            page = await self._store.jobs(JobQuery(before=before, limit=_PAGE))
            counts.update(shape_of(stored.job.request) for stored in page)
            if len(page) < _PAGE:
                break
            before = page[-1].number
        return counts
