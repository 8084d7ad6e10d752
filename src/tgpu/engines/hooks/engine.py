"""An engine around another that runs the operator's prolog and epilog around each attempt.

An attempt is launched when its prolog went well, and its end is told when its epilog is over: until
then nobody else gets its GPUs. Both may run again after a restart, and say so in their documents.
"""

import asyncio
import contextlib
import json
import os
import pwd
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from tgpu.core.model.cause import Evidence
from tgpu.engines.api import (
    AttemptKey,
    Capabilities,
    Engine,
    EngineCapacity,
    EngineUnavailable,
    Launch,
    Observation,
    Pairing,
    Phase,
    PreemptionNotice,
    Traced,
)
from tgpu.engines.attempt_files import make_attempt, new_file, read_whole
from tgpu.engines.hooks.program import HookOutcome, run_hook
from tgpu.engines.log_piece import Piece
from tgpu.engines.placing import placed

_log = structlog.get_logger("gpu_scheduler.hooks")

_AT_ONCE: Final = 16  # hooks that run side by side: each is a process of root's
_FACTS: Final = "hooks.json"
_MOST_FACTS: Final = 1 << 20
_RETRY_SECONDS: Final = 1.0
# Of a launch, under the name that a hook has it by: what the scheduler alone sets. USER and the
# like are the submitter's words, and a hook of root's would act on them.
_GIVEN: Final = {
    "TGPU_HOOK_TENANT": "TGPU_TENANT",
    "TGPU_HOOK_JOB_NAME": "TGPU_JOB_NAME",
    "TGPU_HOOK_GPUS": "TGPU_GPUS",
    "TGPU_HOOK_GPU_TYPE": "TGPU_GPU_TYPE",
}


@dataclass(frozen=True, slots=True)
class HookSettings:
    prolog: tuple[str, ...] = ()
    epilog: tuple[str, ...] = ()
    timeout_seconds: float = 60.0
    hold_after: int = 3  # failures of the prolog in a row; 0: never
    hold_on_epilog: bool = False


async def _hold_nothing(_: str) -> None:
    """Until somebody says how a node is held."""


class FolderEngine(Engine, Protocol):
    """One whose attempts have folders on this machine: there hooks leave what they say."""

    def find_logs(self, key: AttemptKey) -> str:
        """The folder of this very attempt; reads the disk."""


class HookedEngine:
    def __init__(self, inner: FolderEngine, settings: HookSettings) -> None:
        self._inner = inner
        self._settings = settings
        self.name = inner.name
        self.capabilities: Capabilities = inner.capabilities
        self.hold: Callable[[str], Awaitable[None]] = _hold_nothing
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._before: dict[AttemptKey, asyncio.Task[None]] = {}  # prologs that run
        self._behind: dict[AttemptKey, asyncio.Task[None]] = {}  # epilogs that run
        self._over: dict[AttemptKey, Observation] = {}  # ends whose epilog is over
        self._refused: dict[AttemptKey, Observation] = {}  # ends of our own: the prolog failed
        self._news: asyncio.Queue[list[Observation] | None] = asyncio.Queue()
        self._reader: asyncio.Task[None] | None = None
        self._failures = 0  # of the prolog, in a row
        self._trouble: dict[str, str] = {}  # the last failure of each hook, until it works again

    def problems(self) -> list[str]:
        return list(self._trouble.values())

    # -- before it -------------------------------------------------------------------------------

    async def launch(self, launches: Sequence[Launch], *, epoch: int = 0) -> None:
        if not self._settings.prolog:
            for launch in launches:
                await asyncio.to_thread(self._note, launch)
            await self._inner.launch(launches, epoch=epoch)
            return
        await self._inner.launch([], epoch=epoch)  # refused before anything is run for it
        known = {seen.key for seen in await self._inner.observe()}
        for launch in launches:
            key = launch.key
            if key not in known and key not in self._before and key not in self._refused:
                self._before[key] = asyncio.create_task(self._prepare(launch, epoch))

    async def _prepare(self, launch: Launch, epoch: int) -> None:
        key, path = launch.key, self._inner.log_dir(launch.key)
        try:
            facts = await asyncio.to_thread(self._note, launch)
            async with self._room:
                outcome = await self._run("prolog", self._settings.prolog, facts)
            await asyncio.to_thread(_keep, path, "prolog.log", outcome.output)
            if outcome.problem is None:
                self._failures = 0
                self._trouble.pop("prolog", None)
                await self._launch(launch, epoch)
            else:
                await self._refuse(key, outcome.problem)
        finally:
            self._before.pop(key, None)

    async def _launch(self, launch: Launch, epoch: int) -> None:
        while True:
            try:
                return await self._inner.launch([launch], epoch=epoch)
            except EngineUnavailable:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _refuse(self, key: AttemptKey, problem: str) -> None:
        self._failures += 1
        cause = f"the prolog of this machine {problem}; it will be retried"
        _log.error("a prolog failed", job_id=key.job_id, attempt=key.attempt, problem=problem)
        end = Observation(key, Phase.NOT_STARTED, self._inner.now(), cause=cause)
        most = self._settings.hold_after
        self._trouble["prolog"] = f"the prolog of job {key.job_id} {problem}"
        if most and self._failures >= most:
            often = f", {self._failures} times in a row" if self._failures > 1 else ""
            await self._hold(f"the prolog {problem}{often}")
        self._refused[key] = end
        self._end(end)

    # -- behind it -------------------------------------------------------------------------------

    def _end(self, end: Observation) -> None:
        """Tell of it when the epilog is over."""
        key = end.key
        if key in self._over or not self._settings.epilog:
            self._news.put_nowait([end])
        elif key not in self._behind:
            self._behind[key] = asyncio.create_task(self._clean_up(end))

    async def _clean_up(self, end: Observation) -> None:
        key, path = end.key, self._inner.find_logs(end.key)
        try:
            facts = await asyncio.to_thread(_read_facts, path, key)
            facts |= {
                "TGPU_HOOK_PHASE": end.phase.value,
                "TGPU_HOOK_EXIT_CODE": "" if end.exit_code is None else str(end.exit_code),
                "TGPU_HOOK_SIGNAL": "" if end.signal is None else str(end.signal),
            }
            async with self._room:
                outcome = await self._run("epilog", self._settings.epilog, facts)
            await asyncio.to_thread(_keep, path, "epilog.log", outcome.output)
            self._trouble.pop("epilog", None)
            if outcome.problem is not None:
                await self._say_epilog(key, outcome.problem)
        finally:
            self._behind.pop(key, None)
        self._over[key] = end
        self._news.put_nowait([end])

    async def _say_epilog(self, key: AttemptKey, problem: str) -> None:
        told = self._trouble["epilog"] = f"the epilog of job {key.job_id} {problem}"
        _log.error("an epilog failed", job_id=key.job_id, attempt=key.attempt, problem=problem)
        if self._settings.hold_on_epilog:
            await self._hold(told)

    async def _hold(self, why: str) -> None:
        self._failures = 0  # whoever lets jobs start again begins anew
        try:
            await self.hold(why)
        except Exception as error:
            # It is said in health all the same; an end must not be lost for it.
            _log.error("a machine could not be held", problem=str(error))

    async def _run(self, which: str, argv: Sequence[str], facts: dict[str, str]) -> HookOutcome:
        return await run_hook(argv, {**facts, "TGPU_HOOK": which}, self._settings.timeout_seconds)

    def _note(self, launch: Launch) -> dict[str, str]:
        """Write down what hooks are told, for an epilog after a restart."""
        facts = _of_key(launch.key)
        told = placed(launch)
        facts |= {name: told.env.get(given, "") for name, given in _GIVEN.items()}
        if told.workers:  # of a gang each has its own
            each = (worker.get("TGPU_GPUS", "") for worker in told.workers)
            facts["TGPU_HOOK_GPUS"] = ",".join(gpus for gpus in each if gpus)
        facts["TGPU_HOOK_LOG_DIR"] = self._inner.log_dir(launch.key) or ""
        if launch.user is not None:
            facts["TGPU_HOOK_UID"] = str(launch.user.uid)
            with contextlib.suppress(KeyError):  # a user without a name
                facts["TGPU_HOOK_USER"] = pwd.getpwuid(launch.user.uid).pw_name
        _keep(self._inner.log_dir(launch.key), _FACTS, json.dumps(facts).encode())
        return facts

    # -- as the engine inside --------------------------------------------------------------------

    async def open(self) -> None:
        await self._inner.open()
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_changes())

    async def _read_changes(self) -> None:
        async for batch in self._inner.changes():
            for end in [seen for seen in batch if seen.is_over]:
                self._end(end)
            if running := [seen for seen in batch if not seen.is_over]:
                self._news.put_nowait(running)
        self._news.put_nowait(None)

    async def changes(self) -> AsyncIterator[list[Observation]]:
        while (batch := await self._news.get()) is not None:
            yield batch

    async def observe(self) -> list[Observation]:
        """What is over counts as running until its epilog is: it has its GPUs until then. One that
        never started is as if it was about to: launching it again is harmless."""
        found = [*await self._inner.observe(), *self._refused.values()]
        return [told for seen in found if (told := self._as_told(seen)) is not None]

    def _as_told(self, seen: Observation) -> Observation | None:
        if not seen.is_over or not self._settings.epilog or seen.key in self._over:
            return seen
        if seen.key not in self._behind:
            self._end(seen)
        if seen.phase is Phase.NOT_STARTED:
            return None
        return replace(seen, phase=Phase.RUNNING, at=seen.started_at or seen.at)

    async def stop(
        self,
        keys: Sequence[AttemptKey],
        notice: PreemptionNotice | None = None,
        *,
        epoch: int = 0,
    ) -> None:
        for key in keys:
            task = self._before.get(key)
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await self._inner.stop(keys, notice, epoch=epoch)

    async def pause(self, keys: Sequence[AttemptKey], *, paused: bool) -> None:
        await self._inner.pause(keys, paused=paused)

    async def capacity(self) -> EngineCapacity | None:
        return await self._inner.capacity()

    async def forget(self, keys: Sequence[AttemptKey]) -> None:
        for key in keys:
            self._over.pop(key, None)
            self._refused.pop(key, None)
        await self._inner.forget(keys)

    def traced(self, pid: int) -> Traced:
        return self._inner.traced(pid)

    def now(self) -> int:
        return self._inner.now()

    def log_dir(self, key: AttemptKey) -> str | None:
        return self._inner.log_dir(key)

    async def read_log(self, key: AttemptKey, stream: str, offset: int, limit: int) -> Piece:
        return await self._inner.read_log(key, stream, offset, limit)

    @property
    def stuck_reads(self) -> int:
        return self._inner.stuck_reads

    async def evidence(self, ends: Sequence[Observation]) -> Mapping[AttemptKey, Evidence]:
        return await self._inner.evidence(ends)

    async def pairing(self) -> Pairing | None:
        return await self._inner.pairing()

    async def pair(self, pairing: Pairing) -> None:
        await self._inner.pair(pairing)

    async def mark(self, seq: int, number: int) -> None:
        await self._inner.mark(seq, number)

    async def close(self) -> None:
        tasks = [*self._before.values(), *self._behind.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._inner.close()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._news.put_nowait(None)


def _of_key(key: AttemptKey) -> dict[str, str]:
    return {
        "TGPU_HOOK_JOB_ID": key.job_id,
        "TGPU_HOOK_JOB_UUID": key.identity,
        "TGPU_HOOK_ATTEMPT": str(key.attempt),
    }


def _read_facts(path: str | None, key: AttemptKey) -> dict[str, str]:
    """What the launch was; only its name where that was not written down."""
    facts = _of_key(key)
    with contextlib.suppress(OSError, ValueError):
        if path is not None:
            found = json.loads(read_whole(path, _FACTS, _MOST_FACTS))
            if isinstance(found, dict) and found.get("TGPU_HOOK_JOB_UUID") == key.identity:
                facts |= {str(name): str(value) for name, value in found.items()}
    return facts


def _keep(path: str | None, name: str, content: bytes) -> None:
    """Beside the attempt's logs, in a file that is for us alone."""
    if path is None:
        return
    with contextlib.suppress(OSError):  # a full disk keeps no job from starting, nor from ending
        directory = make_attempt(path)
        try:
            with os.fdopen(new_file(name, os.O_WRONLY, directory), "wb") as file:
                file.write(content)
        finally:
            os.close(directory)
