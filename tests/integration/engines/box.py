"""A data directory with a real supervisor in it, and everything a test starts there."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from tgpu.engines.api import AttemptKey, Launch, Observation, Phase
from tgpu.engines.local.engine import LocalEngine
from tgpu.engines.local.processes import all_processes, is_alive, start_time
from tgpu.engines.local.record import read_any_claim

_MARK = "TGPU_TEST_BOX"
_DEADLINE_SECONDS = 20.0


_MAIN = (
    "from tgpu.engines.local.startup import main; main()"
    "  # tgpu.engines.local.supervisor, by which the box knows it"
)


class Box:
    def __init__(self, directory: Path) -> None:
        self.directory = directory / "engine"
        self.work = directory / "work"
        self.work.mkdir()
        self.boot_id_file = directory / "boot_id"
        self.boot_id_file.write_text("boot-1\n")
        self._engines: list[LocalEngine] = []

    async def engine(self, idle_seconds: float = 60.0) -> LocalEngine:
        engine = self.new_engine(idle_seconds)
        await engine.open()
        return engine

    def new_engine(self, idle_seconds: float = 60.0) -> LocalEngine:
        engine = LocalEngine(
            self.directory, boot_id_file=self.boot_id_file, idle_seconds=idle_seconds
        )
        self._engines.append(engine)
        return engine

    def start_supervisor(self, prelude: str = "", limit: int | None = None) -> None:
        """As the engine does it, but after this program, or with so many open files at most."""

        def limited() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        self.directory.mkdir(exist_ok=True)
        options = [f"--dir={self.directory}", f"--boot-id-file={self.boot_id_file}", "--detach"]
        subprocess.run(
            [sys.executable, "-I", "-c", f"{prelude}{_MAIN}", *options],
            preexec_fn=limited,
            check=True,
            timeout=60,
        )

    def launch(
        self,
        name: str,
        *argv: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        grace_ms: int = 300,
        time_limit_ms: int | None = None,
    ) -> Launch:
        full = {"PATH": os.environ["PATH"], _MARK: str(self.directory), "WORK": str(self.work)}
        return Launch(
            AttemptKey(name, 1),
            argv,
            cwd or str(self.work),
            full | (env or {}),
            time_limit_ms,
            grace_ms,
        )

    def shell(self, name: str, script: str, **options: int) -> Launch:
        return self.launch(name, "sh", "-c", script, **options)  # type: ignore[arg-type]  # ms only

    def python(self, name: str, script: str, **options: int) -> Launch:
        return self.launch(name, sys.executable, "-I", "-c", script, **options)  # type: ignore[arg-type]  # ms only

    def text(self, name: str, file: str = "stdout.log") -> str:
        return (self.directory / "jobs" / name / "1" / file).read_text()

    def lines(self, file: str) -> list[str]:
        path = self.work / file
        return path.read_text().split() if path.exists() else []

    def runner_of(self, name: str) -> int:
        claim = read_any_claim(str(self.directory / "jobs" / name / "1"))
        assert claim is not None
        return claim.runner

    async def seen(self, engine: LocalEngine, name: str) -> Observation | None:
        return next((o for o in await engine.observe() if o.key.job_id == name), None)

    async def running(self, engine: LocalEngine, name: str) -> Observation:
        return await self._phase(engine, name, lambda seen: seen.phase is Phase.RUNNING)

    async def end(self, engine: LocalEngine, name: str) -> Observation:
        return await self._phase(engine, name, lambda seen: seen.phase is not Phase.RUNNING)

    async def _phase(
        self, engine: LocalEngine, name: str, wanted: Callable[[Observation], bool]
    ) -> Observation:
        found: list[Observation] = []

        async def check() -> bool:
            seen = await self.seen(engine, name)
            if seen is not None and wanted(seen):
                found.append(seen)
            return bool(found)

        await until(check, f"{name} in the phase waited for")
        return found[0]

    def processes(self) -> dict[int, int]:
        """Every living process of this box: supervisors, runners and jobs; pid to start time."""
        mark = str(self.directory).encode()
        return {p.pid: p.start for p in all_processes() if mark in _words(p.pid)}

    def job_processes(self) -> dict[int, int]:
        return {
            pid: start
            for pid, start in self.processes().items()
            if not any(name in _read(pid, "cmdline") for name in _OURS)
        }

    async def tear_down(self) -> None:
        for engine in self._engines:
            await engine.close()
        while left := self.processes():
            for pid in left:
                kill(pid)
            await asyncio.sleep(0.01)


# The supervisor's module, and what a runner calls itself.
_OURS = (b"tgpu.engines.local.supervisor", b"tgpu-runner")


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


async def kill_and_wait(*pids: int) -> None:
    named = [(pid, start_time(pid)) for pid in pids]
    for pid in pids:
        kill(pid)

    async def gone() -> bool:
        return not any(is_alive(pid, start) for pid, start in named)

    await until(gone, "the killed processes to be gone")


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    async with asyncio.timeout(_DEADLINE_SECONDS):
        try:
            while not await condition():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            raise AssertionError(f"waited in vain for {what}") from None


async def until_true(condition: Callable[[], object], what: str) -> None:
    async def check() -> bool:
        return bool(condition())

    await until(check, what)


def _words(pid: int) -> bytes:
    return _read(pid, "cmdline") + _read(pid, "environ")


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
