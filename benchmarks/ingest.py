"""How many durable jobs a second one service process takes through POST /ingest?fmt=ndjson.

Prints the rate, and its ratio to raw `executemany` inserts of the same rows into a plain table of
the same synchronous mode, measured in the same run.
"""

import argparse
import contextlib
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks.real_service import running_service

_TARGET_PER_SECOND = 47_000


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds")
    options = parser.parse_args(argv)
    jobs, rounds = (20_000, 2) if options.quick else (options.jobs, options.rounds)
    ingested, raw = [], []
    with running_service("sim:4xA100,2xH100", tenants=("t1", "t2"), clock="manual") as service:
        for number in range(rounds):
            rows = _rows(jobs, number)
            ingested.append(_ingest(service.url, rows))
            raw.append(_raw_inserts(rows))
    rate, raw_rate = statistics.median(ingested), statistics.median(raw)
    spread = f"{min(ingested):,.0f} to {max(ingested):,.0f}"
    print(f"ingest: {rate:,.0f} durable jobs/s (median of {rounds} x {jobs:,}; {spread})")
    print(f"ingest: raw executemany of the rows {raw_rate:,.0f}/s; ratio {rate / raw_rate:.2f}")
    return 0 if rate >= _TARGET_PER_SECOND else 1


def _rows(count: int, part: int) -> list[dict[str, object]]:
    return [
        {
            "job_id": f"job-{part}-{number:07}",
            "tenant_id": "t1" if number % 2 else "t2",
            "gpu_type": "H100" if number % 7 == 0 else "A100",
            "gpus": 1 + number % 2,
            "priority": number % 10,
            "submitted_at": number // 100,
        }
        for number in range(count)
    ]


def _ingest(url: str, rows: list[dict[str, object]]) -> float:
    text = "\n".join(json.dumps(row) for row in rows).encode()
    began = time.perf_counter()
    answer = httpx.post(
        f"{url}/ingest?fmt=ndjson", files={"file": ("jobs.ndjson", text)}, timeout=300
    )
    elapsed = time.perf_counter() - began
    counts = answer.raise_for_status().json()["counts"]
    if counts != {"accepted": len(rows), "rejected": 0}:
        raise SystemExit(f"not all jobs were accepted: {counts}")
    return len(rows) / elapsed


def _raw_inserts(rows: list[dict[str, object]]) -> float:
    with tempfile.TemporaryDirectory() as directory, _database(Path(directory)) as database:
        tuples = [tuple(row.values()) for row in rows]
        began = time.perf_counter()
        for start in range(0, len(tuples), 5_000):
            with database:
                database.executemany(
                    "insert into jobs values (?, ?, ?, ?, ?, ?)", tuples[start : start + 5_000]
                )
        return len(rows) / (time.perf_counter() - began)


@contextlib.contextmanager
def _database(directory: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(directory / "raw.db")
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=full")
    database.execute(
        "create table jobs (job_id text primary key, tenant_id, gpu_type, gpus, priority, "
        "submitted_at)"
    )
    try:
        yield database
    finally:
        database.close()


if __name__ == "__main__":
    raise SystemExit(main())
