"""The commits that the crash test repeats, and the process that is killed while it makes them.

Run as a program under the preloaded `kill_at_write.c`: it imports everything once and then forks
a child for each number of a write to die at, which costs milliseconds where a new interpreter
costs a quarter of a second. So every single write can be tried.
"""

import asyncio
import ctypes
import json
import os
import sys
from pathlib import Path

from tests.contract.store.builders import a_job, cancelled, completed, running, started, submitted
from tgpu.core.model.events import NodeSet, TenantSet
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Detail
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.tenant import Tenant
from tgpu.store.api import Record
from tgpu.store.sqlite import SqliteStore

FILE = "crash.db"
REOPEN_AFTER = 3  # a clean stop in the middle: closing writes the log back into the database
UNFLUSHED = 70  # the exit status of a child that was told "durable" too early


def series() -> list[Record]:
    bulk = [a_job(f"bulk-{n}") for n in range(60)]
    details = {JobId("bulk-7"): Detail(name="seven", argv=("x" * 5000,), env_id="e0")}
    node = Node(NodeId("n0"), (Gpu(0, "GPU-0", "A100", 81920),), 64_000, 65_536)
    return [
        Record([TenantSet(1, Tenant(TenantId("t1"))), NodeSet(2, node)]),
        Record([submitted(*bulk, held=("bulk-3",))], details, {"e0": {"PATH": "/bin"}}),
        Record([started(f"bulk-{n}") for n in range(10)]),
        Record([submitted(a_job("single"))], environments={"e1": {"A": "1"}}),
        Record([running("bulk-1"), completed("bulk-0"), cancelled("bulk-50"), started("single")]),
        Record([TenantSet(60, Tenant(TenantId("t1"), max_gpu_millis=4000))]),
    ]


async def commit_all(path: Path, acknowledge: int) -> None:
    """Write one byte to the descriptor for each commit that returned."""
    unflushed = ctypes.CDLL(None).kill_at_write_unflushed
    store = SqliteStore(path)
    await store.open()
    for number, record in enumerate(series(), start=1):
        await store.commit(record)
        if unflushed():
            os._exit(UNFLUSHED)
        os.write(acknowledge, b".")
        if number == REOPEN_AFTER:
            await store.close()
            await store.open()
    await store.close()


def die_at(write: int, folder: Path) -> tuple[int, int]:
    """Fork a child that dies at this write; its wait status and how many commits returned."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        ctypes.CDLL(None).kill_at_write_arm(FILE.encode(), ctypes.c_long(write))
        asyncio.run(commit_all(folder / str(write) / FILE, writing))
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    acknowledged = len(os.read(reading, 1000))
    os.close(reading)
    return status, acknowledged


def main(folder: Path) -> None:
    """Print a line of JSON for each child, until one has ended by itself."""
    write = 0
    killed = True
    while killed:
        write += 1
        status, acknowledged = die_at(write, folder)
        killed = os.WIFSIGNALED(status)
        sys.stdout.write(json.dumps([write, status, acknowledged]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
