"""Watches the jobs file and queues each new line of it once.

Which lines were taken is written in the commit that queues their job, so neither a crash nor a
second reading makes two jobs of one line. Lines are told apart by their content alone.
"""

import asyncio
import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import structlog
import watchfiles

from tgpu.accounts.api import Account
from tgpu.core.errors import InvalidRequest, SchedulerError
from tgpu.core.model.ids import DEFAULT_TENANT, JobId, NodeId, TenantId
from tgpu.core.model.job import ANYWHERE, Detail, Request, Where
from tgpu.core.model.lifecycle import JobState, Progress
from tgpu.core.model.node import GpuName
from tgpu.core.model.units import GPU, SECOND
from tgpu.core.state.cluster_state import State
from tgpu.jobs_file.format import (
    CLASS_PRIORITY,
    MOST_BYTES,
    JobLine,
    JobsFile,
    parse_jobs_file,
)
from tgpu.jobs_file.script_command import script_command
from tgpu.service.commands.jobs import JobCommands
from tgpu.service.commands.submission import RunIn, SizeBy, Submission
from tgpu.service.identity.run_as import NOT_SHARED, JobUsers, as_account
from tgpu.service.recording.clock import Clock
from tgpu.store.api import Store
from tgpu.text.system_words import system_words

_log = structlog.get_logger("gpu_scheduler.jobs_file")

_KIND: Final = "jobs_file_line"  # documents: the job of each line, by digest
_SOURCE_BYTES: Final = 1024 * 1024  # of a script, to see whether it takes --cuda
_PROBLEMS_SHOWN: Final = 10
_NO_LINES: Final = JobsFile()


@dataclass(frozen=True, slots=True)
class JobsFileSettings:
    path: Path
    interval_seconds: float = 30.0
    tenant_id: TenantId = DEFAULT_TENANT
    most_tries: int = 5  # of one line
    wait_ms: int = 5 * SECOND  # before a line that failed is tried again


@dataclass(frozen=True, slots=True)
class Taken:
    """A line that became a job."""

    job_id: JobId
    tries: int = 1  # jobs made of it


@dataclass(frozen=True, slots=True)
class LineStatus:
    """One line as it stands: a job, or a problem, or both after a failure."""

    number: int
    text: str
    job_id: JobId | None = None
    tries: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Read:
    """The file at one moment."""

    content: JobsFile = _NO_LINES
    modified_ms: int = 0
    owner: int = 0
    exists: bool = True
    problem: str | None = None  # why it may not be used, or cannot be


class JobsFileWatch:
    def __init__(
        self,
        settings: JobsFileSettings,
        state: State,
        store: Store,
        clock: Clock,
        *,
        run_as: JobUsers | None = None,
    ) -> None:
        self.settings = settings
        self._state = state
        self._store = store
        self._clock = clock
        self._run_as = run_as or JobUsers(state, NOT_SHARED)
        self._taken: dict[str, Taken] = {}  # by digest
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()
        self._over: set[str] = set()  # digests of lines that are never tried again
        self._again_soon = False
        self._said: list[str] = []
        self.exists = False
        self.problem: str | None = None  # of the file as a whole
        self.lines: tuple[LineStatus, ...] = ()

    async def open(self) -> None:
        """Remember which lines were taken before the last stop."""
        found = await self._store.documents(_KIND)
        self._taken = {name: msgspec.json.decode(body, type=Taken) for name, body in found.items()}

    async def run(self, jobs: JobCommands) -> None:
        """Read the file when it changes and now and then, for ever."""
        while True:
            self._wake.clear()
            await self.look(jobs)
            pause = self.settings.interval_seconds
            if self._again_soon:
                pause = min(pause, max(0.05, self.settings.wait_ms / SECOND))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def follow(self) -> None:
        """Wake the reader as soon as the file changes. Where that cannot be, it reads anyway."""
        path = self.settings.path.absolute()
        while True:
            try:
                async for _ in watchfiles.awatch(
                    path.parent,  # not the file: editors put a new one in its place
                    recursive=False,
                    watch_filter=lambda _, changed: os.path.basename(changed) == path.name,
                    debounce=100,
                    step=20,
                ):
                    self._wake.set()
            except (OSError, RuntimeError) as error:
                _log.debug("file-system events are not available", problem=str(error))
            await asyncio.sleep(self.settings.interval_seconds)

    async def look(self, jobs: JobCommands) -> None:
        """Read the file once, and queue what is new in it."""
        async with self._looking:
            self._again_soon = False
            read = await asyncio.to_thread(self._read)
            statuses = [await self._line(jobs, read, line) for line in read.content.lines]
            statuses += [LineStatus(b.number, "", problem=b.problem) for b in read.content.bad]
            by_number = {status.number: status for status in statuses}
            statuses += [
                replace(by_number[first], number=number, text=f"the same as line {first}")
                for number, first in read.content.repeats
            ]
            self.lines = tuple(sorted(statuses, key=lambda status: status.number))
            self.exists, self.problem = read.exists, read.problem
            self._report()

    def problems(self) -> list[str]:
        """What an operator should know, the first few."""
        name = self.settings.path
        if self.problem is not None:
            return [f"jobs file {name}: {self.problem}"]
        found = [
            f"jobs file {name}, line {line.number}: {line.problem}"
            for line in self.lines
            if line.problem is not None
        ]
        more = len(found) - _PROBLEMS_SHOWN
        return [*found[:_PROBLEMS_SHOWN], *([f"jobs file {name}: {more} more"] if more > 0 else [])]

    # -- reading -----------------------------------------------------------------------------------

    def _read(self) -> _Read:
        """Blocks for as long as the disk takes."""
        try:
            # Not to wait for a writer, should a pipe stand in its place.
            with open(self.settings.path, "rb", opener=_without_waiting) as file:
                found = os.fstat(file.fileno())
                problem = _refusal(found)
                if problem is not None:
                    return _Read(problem=problem)
                content = file.read(MOST_BYTES)
        except FileNotFoundError:
            return _Read(exists=False)
        except OSError as error:
            return _Read(problem=system_words(error))
        return _Read(parse_jobs_file(content), found.st_mtime_ns // 1_000_000, found.st_uid)

    def _report(self) -> None:
        problems = self.problems()
        for problem in problems:
            if problem not in self._said:  # once, not at every reading
                _log.warning("a line of the jobs file is not used", problem=problem)
        self._said = problems

    # -- lines -------------------------------------------------------------------------------------

    async def _line(self, jobs: JobCommands, read: _Read, line: JobLine) -> LineStatus:
        taken = self._taken.get(line.digest)
        problem: str | None = None
        if taken is None or await self._is_due_again(line.digest, taken, read):
            try:
                taken = await self._queue(jobs, read, line, 1 if taken is None else taken.tries + 1)
            except SchedulerError as error:
                problem = error.message
                self._again_soon = True
        job_id, tries = (None, 0) if taken is None else (taken.job_id, taken.tries)
        return LineStatus(line.number, _text(line), job_id, tries, problem)

    async def _is_due_again(self, digest: str, taken: Taken, read: _Read) -> bool:
        """A line that failed is tried again once the file was saved after that."""
        if digest in self._over:
            return False
        progress = await self._progress(taken.job_id)
        if progress is None or progress.state in (JobState.COMPLETED, JobState.CANCELLED):
            self._over.add(digest)
            return False
        if progress.state is not JobState.FAILED or progress.ended_at is None:
            return False
        if taken.tries >= self.settings.most_tries or read.modified_ms <= progress.ended_at:
            return False
        # A clock that was set back makes nobody wait for longer.
        if 0 <= self._clock.now() - progress.ended_at < self.settings.wait_ms:
            self._again_soon = True
            return False
        return True

    async def _progress(self, job_id: JobId) -> Progress | None:
        entry = self._state.entry(job_id)
        if entry is not None:
            return entry.progress
        stored = await self._store.job(job_id)
        return None if stored is None else stored.progress

    async def _queue(self, jobs: JobCommands, read: _Read, line: JobLine, tries: int) -> Taken:
        tenant_id = self.settings.tenant_id
        account = await self._run_as.of_file(read.owner, tenant_id)
        submission = await asyncio.to_thread(self._submission, read, line, account)
        submission = replace(submission, detail=as_account(submission.detail, account))
        digest = line.digest

        def documents(job_id: JobId) -> Mapping[tuple[str, str], bytes | None]:
            return {(_KIND, digest): msgspec.json.encode(Taken(job_id, tries))}

        submitted = await jobs.submit(replace(submission, documents=documents))
        taken = self._taken[digest] = Taken(submitted.base_id, tries)
        notes = "; ".join(submitted.notes)
        _log.info("a line became a job", line=line.number, job_id=taken.job_id, size=notes)
        return taken

    def _submission(self, read: _Read, line: JobLine, runs_as: Account | None) -> Submission:
        """As `tgpu add` would send it, in the name of the file's owner."""
        account = self._run_as.accounts.by_uid(read.owner)
        home = account.home if account is not None else "/"
        folder = self.settings.path.absolute().parent
        script = line.script
        if script == "~" or script.startswith("~/"):
            script = home + script[1:]
        script = os.path.normpath(os.path.join(folder, script))
        # As who the job will run as: the service may read what that user may not.
        source = self._run_as.accounts.read_as(runs_as, script, _SOURCE_BYTES)
        if source is None:
            raise InvalidRequest("script", line.script, f"there is no file {script}")
        text = source.decode(errors="replace")
        command = script_command(script, line.args, text, in_environment=bool(line.conda))
        return Submission(
            request=Request(GPU, where=_where(line.gpus)),
            tenant_id=self.settings.tenant_id,
            priority=self._priority(line),
            detail=Detail(
                name=os.path.basename(script),
                user=account.name if account is not None else str(read.owner),
                argv=tuple(command),
                cwd=str(folder),
                owner=f"file:{account.name if account is not None else read.owner}",
            ),
            size_by=SizeBy.MODEL,
            run_in=RunIn(conda=line.conda) if line.conda else None,
        )

    def _priority(self, line: JobLine) -> int:
        """Its class's, as far as the tenant may."""
        wanted = CLASS_PRIORITY[line.priority_class]
        use = self._state.ledger.tenants.get(self.settings.tenant_id)
        most = None if use is None else use.tenant.max_priority
        return wanted if most is None else min(wanted, most)


def _where(gpus: Sequence[int | tuple[str, int]]) -> Where:
    names = (gpu if isinstance(gpu, int) else GpuName(NodeId(gpu[0]), gpu[1]) for gpu in gpus)
    return Where(gpus=tuple(names)) if gpus else ANYWHERE


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _refusal(found: os.stat_result) -> str | None:
    """Whoever may write the file may run commands: that must not be everybody."""
    if not stat.S_ISREG(found.st_mode):
        return "is not a plain file"
    if found.st_size > MOST_BYTES:
        return f"is larger than {MOST_BYTES // 1024**2} MiB"
    if found.st_mode & stat.S_IWOTH:
        return "can be written by everybody on this machine; fix it with: chmod o-w"
    if os.geteuid() == 0 and found.st_mode & stat.S_IWGRP:
        return "can be written by its group, and its jobs run as its owner: chmod g-w"
    return None


def _text(line: JobLine) -> str:
    words: Sequence[str] = (line.script, *line.args)
    return " ".join(words)
