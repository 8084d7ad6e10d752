"""What one service process takes from many clients at once: submits, cancels, lists, event streams.

    python -m benchmarks.load [--clients 500] [--seconds 120] [--quick]

Every client asks again as soon as it has its answer, over a connection of its own. Of ten clients
five submit a lease and cancel it, three list jobs, two follow the events. The same load then goes
to a FastAPI application that answers with constants, on the same stack, in the same run.

Broken are: any answer that is no success, an acknowledged job that is not there afterwards, an
event that is missing or comes twice, memory that grows between the middle and the end.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import fastapi
import httpx
import uvloop
from tests.real_service import eventually, free_port

from benchmarks.real_service import running_service
from tgpu.client import Client

# In the first half the ring of newest events fills up; in the second it still grew by 13 of 138
# MiB, probably SQLite's caches. In a run of 230 s memory stood still from 150 s on.
_MAX_GROWTH = 1.15
_PROCESSES = 2
_SUBMIT = b'{"name": "load", "gpu_count": 1}'
_JOB_ID = re.compile(rb'"job_id":"([^"]+)"')
_EVENT_ID = re.compile(rb"\nid: (\d+)\nevent: ")
_KINDS = ("submit", "cancel", "list")


@dataclass(frozen=True)
class Load:
    host: str
    port: int
    clients: int
    seconds: float
    offset: int  # of the first client, so that processes share the mix


@dataclass
class Followed:
    """The numbers of the events that one stream brought: enough to find out what is missing."""

    first: int = 0
    last: int = 0
    count: int = 0
    repeated: int = 0

    def take(self, number: int) -> None:
        self.first = self.first or number
        self.repeated += number <= self.last
        self.last = number
        self.count += 1


@dataclass
class Seen:
    """What clients saw, of one process or of all."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    job_ids: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    streams: list["Followed"] = field(default_factory=list)
    dropped: int = 0  # streams that were too slow and came back

    def add(self, other: "Seen") -> None:
        for kind, times in other.seconds.items():
            self.seconds[kind] += times
        self.job_ids += other.job_ids
        self.errors += other.errors
        self.streams += other.streams
        self.dropped += other.dropped

    @property
    def requests(self) -> int:
        return sum(len(times) for times in self.seconds.values())


# -- the clients ---------------------------------------------------------------------------------


class Connection:
    """As little HTTP as will do: the clients must not be what is measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, load: Load) -> "Connection":
        return cls(*await asyncio.open_connection(load.host, load.port))

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n".encode() + body
        )

    async def head(self) -> tuple[int, int]:
        """Status and length of an answer."""
        text = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        _, _, rest = text.partition(b"content-length:")
        return int(text[9:12]), int(rest.partition(b"\r\n")[0] or 0)

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        self.send(method, path, body)
        status, length = await self.head()
        return status, await self.reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


class Clients:
    """The clients of one process."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._until = time.monotonic() + load.seconds
        self.seen = Seen()

    async def run(self) -> Seen:
        whats = [self._what(self._load.offset + number) for number in range(self._load.clients)]
        async with asyncio.TaskGroup() as tasks:
            for what in whats:
                tasks.create_task(self._guarded(what))
        return self.seen

    def _what(self, number: int) -> Callable[[], Awaitable[None]]:
        if number % 10 < 5:
            return self._submit
        return self._list if number % 10 < 8 else self._watch

    async def _guarded(self, what: Callable[[], Awaitable[None]]) -> None:
        try:
            await what()
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            self.seen.errors[f"{what.__name__}: {type(error).__name__}"] += 1

    async def _timed(
        self, kind: str, connection: Connection, method: str, path: str, body: bytes = b""
    ) -> bytes:
        began = time.perf_counter()
        status, content = await connection.ask(method, path, body)
        self.seen.seconds[kind].append(time.perf_counter() - began)
        if not 200 <= status < 300:
            self.seen.errors[f"{kind}: {status} {content[:80]!r}"] += 1
        return content

    async def _submit(self) -> None:
        async with self._connected() as connection:
            while time.monotonic() < self._until:
                content = await self._timed("submit", connection, "POST", "/api/v1/jobs", _SUBMIT)
                found = _JOB_ID.search(content)
                if found is None:
                    continue
                job_id = found[1].decode()
                self.seen.job_ids.append(job_id)
                await self._timed("cancel", connection, "DELETE", f"/api/v1/jobs/{job_id}")

    async def _list(self) -> None:
        async with self._connected() as connection:
            while time.monotonic() < self._until:
                await self._timed("list", connection, "GET", "/api/v1/jobs?limit=20")

    async def _watch(self) -> None:
        followed = Followed()
        self.seen.streams.append(followed)
        while time.monotonic() < self._until:
            async with self._connected() as connection:
                after = f"&after={followed.last}" if followed.last else ""
                connection.send("GET", f"/api/v1/events?readings=false{after}")
                status, _ = await connection.head()
                if status != 200:
                    self.seen.errors[f"events: {status}"] += 1
                    return
                await self._follow(connection.reader, followed)

    async def _follow(self, reader: asyncio.StreamReader, followed: Followed) -> None:
        """Until time is up or the service ends the stream."""
        rest = b""
        while (left := self._until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    data = await reader.read(1 << 18)
            except TimeoutError:
                break
            if not data:
                self.seen.dropped += 1
                break
            text, end = rest + data, 0
            for found in _EVENT_ID.finditer(text):
                followed.take(int(found[1]))
                end = found.end()
            rest = text[end:][-40:]  # the first lines of an event may be cut in two

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        connection = await Connection.open(self._load)
        try:
            yield connection
        finally:
            connection.close()


def run_clients(load: Load) -> Seen:
    """In a process of its own."""
    return uvloop.run(Clients(load).run())


# -- the two servers -----------------------------------------------------------------------------


def constant() -> fastapi.FastAPI:
    """The least that FastAPI can do for such clients."""
    app = fastapi.FastAPI()

    @app.post("/api/v1/jobs", status_code=201)
    async def submit(body: dict[str, str | int]) -> dict[str, str]:
        return {"job_id": "1"}

    @app.delete("/api/v1/jobs/{job}")
    async def cancel(job: str) -> dict[str, str]:
        return {"job_id": "1"}

    @app.get("/api/v1/jobs")
    async def jobs(limit: int = 100) -> dict[str, list[str]]:
        return {"jobs": []}

    @app.get("/api/v1/events")
    async def events() -> fastapi.responses.StreamingResponse:
        async def lines() -> AsyncIterator[bytes]:
            number = 0
            while True:
                number += 1
                yield f"\nid: {number}\nevent: constant\ndata: {{}}\n".encode()
                await asyncio.sleep(1)

        return fastapi.responses.StreamingResponse(lines(), media_type="text/event-stream")

    return app


@contextlib.contextmanager
def constant_server() -> Iterator[tuple[str, int]]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "benchmarks.load:constant"]
    command += ["--port", str(port), "--loop", "uvloop", "--http", "httptools"]
    process = subprocess.Popen([*command, "--no-access-log", "--log-level", "warning"])
    try:
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: _answers(f"{url}/api/v1/jobs"), "the constant application")
        yield url, process.pid
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:  # it waits for streams that never end
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, trust_env=False).status_code == 200
    return False


# -- measuring -----------------------------------------------------------------------------------


@dataclass
class Run:
    seen: Seen
    memory_mib: list[float]  # at the start, in the middle, at the end
    cpu_share: float  # of one core, by the server


def put_under_load(url: str, pid: int, clients: int, seconds: float) -> Run:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    share = clients // _PROCESSES
    loads = [
        Load(parts.hostname, parts.port, share, seconds, share * number)
        for number in range(_PROCESSES)
    ]
    memory, cpu, began = [_memory_mib(pid)], _cpu_seconds(pid), time.monotonic()
    seen = Seen()
    with ProcessPoolExecutor(_PROCESSES, multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(run_clients, load) for load in loads]
        time.sleep(seconds / 2)
        memory.append(_memory_mib(pid))
        for future in running:
            seen.add(future.result())
    memory.append(_memory_mib(pid))
    return Run(seen, memory, (_cpu_seconds(pid) - cpu) / (time.monotonic() - began))


def lost_jobs(url: str, job_ids: list[str]) -> int:
    """How many acknowledged jobs the service does not have."""
    missing = set(job_ids)
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        cursor: int | None = None
        while missing:
            query = {"limit": 1000} | ({} if cursor is None else {"cursor": cursor})
            page = http.get("/api/v1/jobs", params=query).raise_for_status().json()
            missing -= {job["job_id"] for job in page["jobs"]}
            cursor = page["next_cursor"]
            if cursor is None:
                break
    return len(missing) + len(job_ids) - len(set(job_ids))


def missing_events(url: str, streams: list[Followed]) -> int:
    """Events that a stream skipped or brought twice, by what the journal has."""
    newest = max(stream.last for stream in streams)
    recorded: list[int] = []
    with Client(url) as client, contextlib.closing(client.events(after=0)) as events:
        for event in events:
            recorded.append(event.seq)
            if event.seq >= newest:
                break
    return sum(
        stream.repeated
        + abs(
            bisect_right(recorded, stream.last) - bisect_left(recorded, stream.first) - stream.count
        )
        for stream in streams
        if stream.count
    )


def _memory_mib(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(name: str, run: Run, seconds: float) -> None:
    seen = run.seen
    for kind, times in seen.seconds.items():
        if len(times) < 2:
            continue
        cuts = statistics.quantiles(times, n=100)
        print(
            f"load: {name:8} {kind:6} {len(times) / seconds:8,.0f}/s   "
            f"p50 {cuts[49] * 1e3:7.1f} ms   p99 {cuts[98] * 1e3:7.1f} ms"
        )
    events = sum(stream.count for stream in seen.streams)
    behind = max(s.last for s in seen.streams) - min(s.last for s in seen.streams)
    print(
        f"load: {name:8} events {events / seconds:8,.0f}/s   to {len(seen.streams)} streams, "
        f"the slowest {behind:,} behind the fastest, {seen.dropped} dropped as too slow"
    )
    memory = ", ".join(f"{amount:.0f}" for amount in run.memory_mib)
    print(f"load: {name:8} memory {memory} MiB; {run.cpu_share:.2f} of a core")
    for error, count in seen.errors.most_common(10):
        print(f"load: {name:8} ERROR {count} x {error}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--quick", action="store_true", help="100 clients for 10 seconds")
    options = parser.parse_args(argv)
    clients, seconds = (100, 10.0) if options.quick else (options.clients, options.seconds)
    with running_service("sim:8xA100") as service:
        ours = put_under_load(service.url, service.pid, clients, seconds)
        lost = lost_jobs(service.url, ours.seen.job_ids)
        missing = missing_events(service.url, ours.seen.streams)
    with constant_server() as (url, pid):
        theirs = put_under_load(url, pid, clients, min(seconds, 30.0))
    show("service", ours, seconds)
    show("constant", theirs, min(seconds, 30.0))
    rate = ours.seen.requests / seconds
    constant_rate = theirs.seen.requests / min(seconds, 30.0)
    growth = ours.memory_mib[2] / ours.memory_mib[1]
    print(
        f"load: {clients} clients, {seconds:g} s: {rate:,.0f} requests/s, "
        f"{len(ours.seen.job_ids):,} jobs, {lost} lost, {missing} events missing or repeated, "
        f"{ours.seen.errors.total()} errors"
    )
    print(f"load: FastAPI with constants {constant_rate:,.0f}/s; ratio {rate / constant_rate:.2f}")
    print(f"load: memory at the end / in the middle {growth:.2f} (at most {_MAX_GROWTH})")
    # Ten seconds are not enough for memory to settle.
    is_flat = options.quick or growth <= _MAX_GROWTH
    is_whole = not lost and not missing and not ours.seen.errors
    return 0 if is_whole and is_flat else 1


if __name__ == "__main__":
    raise SystemExit(main())
