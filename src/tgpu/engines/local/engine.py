"""The local engine as the service sees it: a client of the supervisor that keeps it running."""

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from tgpu.core.model.cause import Evidence
from tgpu.engines.api import (
    NO_LIMITS,
    AttemptKey,
    Capabilities,
    EngineUnavailable,
    Launch,
    Observation,
    Overtaken,
    Pairing,
    Phase,
    PreemptionNotice,
    ProcessUsage,
    Traced,
)
from tgpu.engines.file_reads import FileReads
from tgpu.engines.local import pairing_file, paths, record
from tgpu.engines.local.descriptors import inherited_limit
from tgpu.engines.local.door import connect
from tgpu.engines.local.evidence import gather
from tgpu.engines.local.lineage import lineage_of, traced_by
from tgpu.engines.local.processes import CannotTell
from tgpu.engines.local.protocol import (
    VERSION,
    LineSplitter,
    Seen,
    decode,
    encode,
    encode_launch,
)
from tgpu.engines.local.startup import BOOT_ID_FILE, IDLE_SECONDS
from tgpu.engines.local.steady import boottime_ms, offset_of, wall_ms
from tgpu.engines.local.trace import trace
from tgpu.engines.log_files import LogFiles
from tgpu.engines.log_piece import Piece
from tgpu.engines.placing import LOOPBACK, placed
from tgpu.text.masking import mask_argv, mask_values, secret_values

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 2.0
# How long a call waits for a supervisor that is being restarted before it says so. A restart takes
# about a tenth of a second, plus a few milliseconds for each thousand attempts in the journal.
_CALL_SECONDS = 10.0
_EVIDENCE_SECONDS = 3.0  # for the log of a job that failed; without it, less is said about why


class LocalEngine:
    """Runs attempts on this machine. One task at a time may iterate over `changes`."""

    name = "local"
    capabilities = Capabilities(local_processes=True)

    def __init__(
        self,
        directory: Path,
        *,
        python: str = sys.executable,
        boot_id_file: Path = Path(BOOT_ID_FILE),
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._directory = directory.absolute()
        self._boot_id_file = boot_id_file
        self._offset_ms: int | None = None
        self._command = [
            python,
            "-I",  # no environment, no user site, no working directory on the path
            "-m",
            "tgpu.engines.local.supervisor",
            "--detach",
            f"--dir={self._directory}",
            f"--boot-id-file={boot_id_file}",
            f"--idle-seconds={idle_seconds}",
            f"--open-files={inherited_limit()}",
        ]
        self._connection: _Connection | None = None
        self._connected = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._trouble = "it was not opened"
        self._requests = itertools.count(1)
        self._news: list[Observation] = []
        self._has_news = asyncio.Event()
        self._is_closed = False
        self._logs = LogFiles(self.find_logs)
        # Apart from those of callers who read logs: nobody's reading may hold up an end.
        self._evidence_reads = FileReads(threads=4, for_one_job=1, seconds=_EVIDENCE_SECONDS)

    async def open(self) -> None:
        if self._keeper is not None:
            await self._wait_connected(_deadline())
            return
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                connection = await self._connect()
                break
            except (OSError, EngineUnavailable) as error:
                if pause > _LONGEST_PAUSE_SECONDS / 4:
                    raise EngineUnavailable(str(error)) from error
                await asyncio.sleep(pause)
                pause *= 2
        self._set_connection(connection)
        self._keeper = asyncio.create_task(self._keep_connected(connection), name="local-engine")

    async def launch(self, launches: Sequence[Launch], *, epoch: int = 0) -> None:
        await self._act(b"".join(map(self._encode_launch, launches)), epoch)

    def _encode_launch(self, launch: Launch) -> bytes:
        paths.check_job_id(launch.key.job_id)
        # All its workers run on this machine, on whatever nodes the books have them.
        here = placed(launch, master=LOOPBACK, log_dir=self.log_dir(launch.key))
        return _encode_launch(here)

    async def stop(
        self,
        keys: Sequence[AttemptKey],
        notice: PreemptionNotice | None = None,
        *,
        epoch: int = 0,
    ) -> None:
        await self._act(encode("stop", list(keys), notice) if keys else b"", epoch)

    async def pause(self, keys: Sequence[AttemptKey], *, paused: bool) -> None:
        if keys:
            await self._call(encode("pause", list(keys), paused), "sync")

    async def observe(self) -> list[Observation]:
        return [_observation(fields) for fields in await self._call(b"", "observe")]

    async def capacity(self) -> None:
        """This machine's GPUs are read through devices."""

    async def forget(self, keys: Sequence[AttemptKey]) -> None:
        if keys:
            await self._call(encode("forget", list(keys)), "sync")

    async def changes(self) -> AsyncIterator[list[Observation]]:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            if self._news:
                batch, self._news = self._news, []
                yield batch
            elif self._is_closed:
                return

    def traced(self, pid: int) -> Traced:
        lineage = lineage_of(pid)
        started = trace(self._directory, lineage.pids, self.supervisor_pid)
        return traced_by(lineage, started, self.log_dir)

    def now(self) -> int:
        # Without an offset the supervisor is one of an older version, which goes by the wall clock.
        return wall_ms() if self._offset_ms is None else boottime_ms() + self._offset_ms

    async def read_log(self, key: AttemptKey, stream: str, offset: int, limit: int) -> Piece:
        return await self._logs.read(key, stream, offset, limit)

    @property
    def stuck_reads(self) -> int:
        return self._logs.stuck

    async def evidence(self, ends: Sequence[Observation]) -> Mapping[AttemptKey, Evidence]:
        return await gather(self.find_logs, ends, self._evidence_reads)

    def log_dir(self, key: AttemptKey) -> str:
        return str(paths.attempt_dir(self._directory, key))

    def find_logs(self, key: AttemptKey) -> str:
        """The folder of this very attempt, whether it exists or not; reads the disk.

        Never that of an attempt of the same name and another identity.
        """
        path = self.log_dir(key)
        try:
            claim = record.read_any_claim(path)
        except CannotTell:  # better no log than another's
            return paths.aside(path, key.identity)
        return (
            path if claim is None or claim.is_of(key.identity) else paths.aside(path, key.identity)
        )

    async def pairing(self) -> Pairing:
        found = await self._with_files(lambda: pairing_file.read_pairing(self._directory))
        return replace(found, this_machine=pairing_file.machine_id())

    async def pair(self, pairing: Pairing) -> None:
        await self._with_files(lambda: pairing_file.write_pairing(self._directory, pairing))

    async def mark(self, seq: int, number: int) -> None:
        await self._with_files(lambda: pairing_file.write_mark(self._directory, seq, number))

    async def _with_files(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(call)
        except OSError as error:
            where = f"the engine's directory {self._directory}"
            message = f"{where} cannot be read or written: {error.strerror or error}"
            raise EngineUnavailable(message) from error

    async def close(self) -> None:
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
        if self._connection is not None:
            self._connection.abort()
            self._drop_connection(self._connection)
        self._trouble = "it was closed"
        self._has_news.set()

    @property
    def supervisor_pid(self) -> int | None:
        """The process that has the jobs in its care; None while there is no connection to it."""
        return self._connection.supervisor_pid if self._connection is not None else None

    async def _call(self, messages: bytes, what: str) -> list[list[Any]]:
        """Send and wait for the answer, again after each reconnect: every call may be repeated."""
        deadline = _deadline()
        while True:
            connection = await self._wait_connected(deadline)
            request = next(self._requests)
            try:
                async with asyncio.timeout_at(deadline):
                    return await connection.ask(request, messages + encode(what, request))
            except ConnectionError:
                self._drop_connection(connection)
            except TimeoutError as error:
                raise EngineUnavailable("the supervisor does not answer") from error

    async def _act(self, messages: bytes, epoch: int) -> None:
        """As a service of this epoch. Raises Overtaken."""
        if messages or epoch:
            answer = await self._call(encode("epoch", epoch) + messages, "sync")
            if answer:
                raise Overtaken(epoch, answer[0][0])

    async def _wait_connected(self, deadline: float) -> "_Connection":
        while self._connection is None:
            if self._keeper is None:
                raise EngineUnavailable(f"the local engine cannot be used: {self._trouble}")
            try:
                async with asyncio.timeout_at(deadline):
                    await self._connected.wait()
            except TimeoutError as error:
                message = f"the supervisor cannot be reached: {self._trouble}"
                raise EngineUnavailable(message) from error
        return self._connection

    async def _keep_connected(self, connection: "_Connection") -> None:
        while True:
            try:
                await connection.lost
            finally:
                connection.abort()
                self._drop_connection(connection)
            connection = await self._reconnect()
            self._set_connection(connection)

    async def _reconnect(self) -> "_Connection":
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._connect()
            except (OSError, EngineUnavailable) as error:
                self._trouble = str(error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _set_connection(self, connection: "_Connection") -> None:
        self._connection = connection
        self._connected.set()

    def _drop_connection(self, connection: "_Connection") -> None:
        if self._connection is connection:
            self._connection = None
            self._connected.clear()

    async def _connect(self) -> "_Connection":
        """Connect and exchange greetings, starting the supervisor where none answers."""
        try:
            sock = connect(str(self._directory))
        except OSError:
            await self._start_supervisor()
            sock = connect(str(self._directory))
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(
            lambda: _Connection(self._tell), sock=sock
        )
        connection.send(encode("hello", VERSION))
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                version = await connection.greeted
        except TimeoutError as error:
            connection.abort()
            raise EngineUnavailable("the supervisor does not answer") from error
        if version != VERSION:
            # Left over from another release. It may go at any time: runners see their jobs
            # through, and the one we start takes them over.
            connection.send(encode("quit"))
            raise EngineUnavailable(f"the supervisor speaks version {version}, not {VERSION}")
        self._offset_ms = await asyncio.to_thread(self._read_offset)
        return connection

    def _read_offset(self) -> int | None:
        try:
            boot = self._boot_id_file.read_text().strip()
        except OSError:
            return None
        return offset_of(os.path.realpath(self._directory), boot)

    async def _start_supervisor(self) -> None:
        def run() -> int:
            return subprocess.run(
                self._command,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            ).returncode

        if await asyncio.to_thread(run) != 0:
            log = self._directory / paths.LOG
            raise EngineUnavailable(f"the supervisor did not start; {log} says: {_last_line(log)}")

    def _tell(self, fields: list[list[Any]]) -> None:
        self._news += map(_observation, fields)
        self._has_news.set()


class _Connection(asyncio.Protocol):
    def __init__(self, tell: Callable[[list[list[Any]]], None]) -> None:
        loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[int] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.supervisor_pid: int | None = None
        self._tell = tell
        self._lines = LineSplitter()
        self._answers: dict[int, asyncio.Future[list[list[Any]]]] = {}
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked by isinstance: uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            what, *fields = decode(line)
            match what:
                case "changes" | "all":
                    self._tell(fields[0])
                case "done":
                    self._answer(fields[0], [])
                case "overtaken":
                    self._answer(fields[0], [[fields[1]]])
                case "observed":
                    self._answer(fields[0], fields[1])
                case "hello":
                    version, self.supervisor_pid = fields
                    if not self.greeted.done():
                        self.greeted.set_result(version)

    def connection_lost(self, error: Exception | None) -> None:
        waiting: list[asyncio.Future[Any]] = [self.greeted, *self._answers.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(ConnectionResetError("the supervisor went away"))
        # Nobody may be waiting for the greeting any more; then nobody need know.
        if not self.greeted.cancelled():
            self.greeted.exception()
        self._answers.clear()
        if not self.lost.done():
            self.lost.set_result(None)

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    async def ask(self, request: int, data: bytes) -> list[list[Any]]:
        if self.lost.done():
            raise ConnectionResetError("the supervisor went away")
        answer: asyncio.Future[list[list[Any]]] = asyncio.get_running_loop().create_future()
        self._answers[request] = answer
        self.send(data)
        try:
            return await answer
        finally:
            self._answers.pop(request, None)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, request: int, fields: list[list[Any]]) -> None:
        answer = self._answers.get(request)
        if answer is not None and not answer.done():
            answer.set_result(fields)


def _shown(launch: Launch) -> tuple[str, ...]:
    """The command for records and lists of processes, which others read: without its secrets."""
    secrets = (*launch.secrets, *secret_values(launch.env))
    return tuple(mask_values(word, secrets) for word in mask_argv(launch.argv))


def _encode_launch(launch: Launch) -> bytes:
    command: dict[str, object] = {
        "argv": launch.argv,
        "cwd": launch.cwd,
        "env": dict(launch.env),
    }
    shown = _shown(launch)
    if shown != tuple(launch.argv):
        command["shown"] = shown
    if launch.user is not None:
        command["user"] = launch.user
    if launch.workers:
        command["workers"] = [dict(worker) for worker in launch.workers]
    if launch.limits != NO_LIMITS:
        command["limits"] = launch.limits._asdict()
    if launch.session:
        command["session"] = launch.session
        command["multiplexer"] = launch.multiplexer
    if launch.environment is not None:
        command["environment"] = launch.environment
        command["home"] = launch.home
    if launch.script_folders:
        command["script_folders"] = launch.script_folders
    if launch.log_limit_bytes is not None:
        command["log_limit"] = launch.log_limit_bytes
    if launch.fence is not None:
        command["fence"] = launch.fence._asdict()
    return encode_launch(launch.key, launch.grace_ms, launch.time_limit_ms, command)


def _observation(fields: list[Any]) -> Observation:
    seen = Seen(*fields)
    return Observation(
        AttemptKey(seen.job_id, seen.attempt, seen.identity),
        Phase(seen.phase),
        seen.at,
        seen.pid,
        seen.exit_code,
        seen.signal,
        seen.cause,
        seen.retry,
        ProcessUsage(seen.user_cpu_ms, seen.system_cpu_ms, seen.max_rss_kib),
        seen.started_at,
    )


def _last_line(log: Path) -> str:
    try:
        return log.read_text(errors="replace").rstrip().rpartition("\n")[2]
    except OSError as error:
        return f"nothing ({error.strerror})"


def _deadline() -> float:
    return asyncio.get_running_loop().time() + _CALL_SECONDS
