"""Kills processes of ended attempts that are still on GPUs: TERM, then KILL."""

import time
from collections.abc import Callable, Sequence
from signal import SIGKILL, SIGTERM

import structlog

from tgpu.engines.node_processes import NodeProcesses, Who

_log = structlog.get_logger("gpu_scheduler.sweep")


class Sweeper:
    """Of one node. Signals only what `Ownership` calls a survivor: below a job of ours, or marked
    by it."""

    def __init__(
        self,
        processes: NodeProcesses,
        grace_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._processes = processes
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._told: dict[tuple[int, int | None], float] = {}  # when each got TERM

    async def sweep(self, survivors: Sequence[Who]) -> None:
        """One step; to be repeated as long as there are any."""
        now = self._clock()
        there = {(who.pid, who.started_at) for who in survivors}
        self._told = {name: at for name, at in self._told.items() if name in there}
        for who in survivors:
            name = (who.pid, who.started_at)
            told_at = self._told.get(name)
            if told_at is None:
                self._told[name] = now
                await self._processes.send(who, SIGTERM)
                _log.warning("ending a process that outlived its job", **_fields(who))
            elif now - told_at >= self._grace_seconds:
                await self._processes.send(who, SIGKILL)
                _log.warning("killing a process that outlived its job", **_fields(who))


def _fields(who: Who) -> dict[str, object]:
    return {"pid": who.pid, "user": who.user, "command": who.command}
