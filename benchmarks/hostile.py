"""How long others wait while somebody sends what was made to hold the service up.

    python -m benchmarks.hostile [--seconds 8] [--rows 50000] [--quick]

A caller submits a lease and looks at it, again and again, and notes how long each took: first with
nobody else there, then beside each of the attacks, one after the other, against one service in one
run. What counts is the ratio of the two, at the middle and at the slowest of a hundred.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import urlsplit

import uvloop

from benchmarks.load import Connection, Load
from benchmarks.real_service import running_service

_SUBMIT = b'{"name": "honest", "gpu_count": 1}'
# How much slower others may be beside an attack, at the middle. On two cores that are shared with
# the attackers themselves and with whatever else runs; a run alone had 2 to 6.
_MOST_AT_THE_MIDDLE = 25.0
_LONGEST_SECONDS = 2.0  # for any request of an honest caller
_READERS = 40
_HELD = 400
_SENDERS = 4
_FILLERS = 64

Attack = Callable[[Load], Awaitable[None]]


_refused: list[str] = []


async def honest(load: Load, seconds: float) -> list[float]:
    """The seconds that each request took."""
    took: list[float] = []
    until = time.monotonic() + seconds
    connection = await Connection.open(load)
    while time.monotonic() < until:
        for method, path, body in (
            ("POST", "/api/v1/jobs", _SUBMIT),
            ("GET", "/api/v1/jobs?limit=10", b""),
        ):
            began = time.perf_counter()
            status, content = await connection.ask(method, path, body)
            took.append(time.perf_counter() - began)
            if status not in (200, 201):
                _refused.append(content.decode(errors="replace"))
        await asyncio.sleep(0.01)
    connection.close()
    return took


# -- the attacks -----------------------------------------------------------------------------------


def body(content: object) -> bytes:
    return json.dumps(content).encode()


_MIB = 1 << 20
BODIES = {
    "wrong elements": body({"command": [0] * 400_000}),
    "wrong names": body({f"x{n}": n for n in range(100_000)}),
    "wrong variables": body({"environment": {f"x{n}": n for n in range(100_000)}}),
    "empty lists": b'{"command": [' + b"[]," * (2 * _MIB // 3 - 20) + b"1]}",
    "deep lists": b'{"command": ' + b"[" * (2 * _MIB - 20),
    "many digits": b'{"priority": ' + b"1" * (2 * _MIB - 20) + b"}",
    "a sweep of texts": body({"command": ["x"], "params": {"x": ["a"] * 9_900}}),
    "too large": b'{"name": "' + b"x" * (60 * _MIB),
}


def sending(content: bytes) -> Attack:
    async def attack(load: Load) -> None:
        while True:
            connection = await Connection.open(load)
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await connection.ask("POST", "/api/v1/jobs/estimate", content)
            connection.close()

    async def all_of_them(load: Load) -> None:
        await asyncio.gather(*(attack(load) for _ in range(_SENDERS)))

    return all_of_them


async def reading(load: Load) -> None:
    async def attack() -> None:
        while True:
            connection = await Connection.open(load)
            connection.send("GET", "/api/v1/events?after=0")
            with contextlib.suppress(OSError):
                while await connection.reader.read(1 << 16):
                    pass
            connection.close()

    await asyncio.gather(*(attack() for _ in range(_READERS)))


async def holding(load: Load) -> None:
    held = [await Connection.open(load) for _ in range(_HELD)]
    for connection in held:
        connection._writer.write(b"POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
    await asyncio.Event().wait()


ATTACKS: dict[str, Attack] = {
    **{name: sending(content) for name, content in BODIES.items()},
    f"{_READERS} readers from 0": reading,
    f"{_HELD} half requests": holding,
}


# -- measuring -------------------------------------------------------------------------------------


@contextlib.contextmanager
def beside(name: str | None, load: Load) -> Iterator[None]:
    """In a process of its own: what an attack costs the attacker is not to be measured."""
    if name is None:
        yield
        return
    attacking = multiprocessing.get_context("spawn").Process(target=run_attack, args=(name, load))
    attacking.start()
    time.sleep(2.0)  # it has to be started, and to have begun
    try:
        yield
    finally:
        attacking.kill()
        attacking.join()


def run_attack(name: str, load: Load) -> None:
    uvloop.run(ATTACKS[name](load))  # type: ignore[arg-type]  # all are coroutines


def fill_journal(load: Load, rows: int) -> None:
    """Rows of their own: a submission and its end."""

    async def fill(count: int) -> None:
        connection = await Connection.open(load)
        for _ in range(count):
            _, content = await connection.ask("POST", "/api/v1/jobs", _SUBMIT)
            job = json.loads(content)["job_id"]
            await connection.ask("DELETE", f"/api/v1/jobs/{job}")
        connection.close()

    async def run() -> None:
        await asyncio.gather(*(fill(rows // 2 // _FILLERS) for _ in range(_FILLERS)))

    uvloop.run(run())


def measured(load: Load, attack: str | None, seconds: float) -> list[float]:
    with beside(attack, load):
        return uvloop.run(honest(load, seconds))


def shown(name: str, took: list[float], quiet: list[float]) -> bool:
    middle, slow = statistics.median(took), statistics.quantiles(took, n=100)[98]
    calm, calm_slow = statistics.median(quiet), statistics.quantiles(quiet, n=100)[98]
    print(
        f"hostile: {name:20} p50 {middle * 1e3:7.1f} ms ({middle / calm:5.1f} x)   "
        f"p99 {slow * 1e3:7.1f} ms ({slow / calm_slow:5.1f} x)   longest {max(took) * 1e3:7.1f} ms",
        flush=True,
    )
    return middle / calm <= _MOST_AT_THE_MIDDLE and max(took) <= _LONGEST_SECONDS


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--quick", action="store_true", help="2 seconds each, 4000 rows")
    options = parser.parse_args(argv)
    seconds, rows = (2.0, 4_000) if options.quick else (options.seconds, options.rows)
    with running_service("sim:8xA100") as service:
        parts = urlsplit(service.url)
        assert parts.hostname is not None
        assert parts.port is not None
        load = Load(parts.hostname, parts.port, 1, seconds, 0)
        fill_journal(load, rows)
        quiet = measured(load, None, seconds)
        shown("nobody else", quiet, quiet)
        outcomes = [shown(name, measured(load, name, seconds), quiet) for name in ATTACKS]
    for message in _refused[:5]:
        print(f"hostile: REFUSED {message}")
    return 0 if all(outcomes) and not _refused else 1


if __name__ == "__main__":
    raise SystemExit(main())
