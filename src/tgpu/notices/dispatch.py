"""Runs all targets of the settings, each at its own pace."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from tgpu.core.errors import NotFound
from tgpu.notices.delivery import MARK, Delivery, decode_mark
from tgpu.notices.words import trial_notice
from tgpu.service.service import Service
from tgpu.store.api import StoreUnavailable

_log = structlog.get_logger("gpu_scheduler.notices")

TEST_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 2.0  # what is nearly sent when the service ends
_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Tried:
    name: str
    where: str
    problem: str | None  # None: it was taken
    seconds: float


class Dispatch:
    def __init__(self, service: Service, deliveries: Sequence[Delivery] = ()) -> None:
        self.deliveries = tuple(deliveries)
        self._service = service
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """After the service: go on where each target was."""
        marks = await self._service.store.documents(MARK)
        names = {delivery.rule.name for delivery in self.deliveries}
        gone: dict[tuple[str, str], bytes | None] = {
            (MARK, name): None for name in marks if name not in names
        }
        if gone:  # one that comes back later begins anew, not with what is long over
            await self._forget(gone)
        for delivery in self.deliveries:
            content = marks.get(delivery.rule.name)
            delivery.open(None if content is None else decode_mark(content))
            await delivery.save()
            self._tasks.append(asyncio.create_task(_guarded(delivery), name=delivery.rule.name))

    async def close(self) -> None:
        """Before the service, after its feed. What is not sent now is sent next time."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for delivery in self.deliveries:
            if self._tasks:
                await delivery.save()
            await delivery.target.close()
        self._tasks = []

    async def test(self, name: str) -> Tried:
        """Send a test notice. NotFound where there is no such target."""
        for delivery in self.deliveries:
            if delivery.rule.name == name:
                began = time.monotonic()
                notice = trial_notice(name, self._service.clock.now())
                try:
                    async with asyncio.timeout(TEST_SECONDS):
                        problem = await delivery.test(notice)
                except TimeoutError:
                    problem = f"no answer within {TEST_SECONDS:g} seconds"
                seconds = round(time.monotonic() - began, 3)
                return Tried(name, delivery.target.where, problem, seconds)
        known = ", ".join(delivery.rule.name for delivery in self.deliveries)
        raise NotFound("notice", name, f"there are: {known}" if known else "the settings have none")

    async def _forget(self, documents: dict[tuple[str, str], bytes | None]) -> None:
        try:
            await self._service.recorder.put_documents(documents)
        except StoreUnavailable as error:
            _log.warning("cannot remove notices that no longer exist", problem=str(error))


async def _guarded(delivery: Delivery) -> None:
    """A loop that dies of a bug is logged and started anew: silence looks healthy."""
    while True:
        try:
            await delivery.run()
            return
        except Exception:
            _log.exception("notices failed and are started again", notice=delivery.rule.name)
            await asyncio.sleep(_AGAIN_SECONDS)
