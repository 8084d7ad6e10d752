"""Limits on the processes of real jobs."""

from dataclasses import replace

import pytest

from tests.integration.engines.box import Box
from tgpu.devices.control_groups import GroupTree, memory_tree
from tgpu.engines.api import AttemptLimits, Phase
from tgpu.engines.attempt_files import OUT_OF_MEMORY

TREE = memory_tree()
BY_GROUP = isinstance(TREE, GroupTree)
needs_groups = pytest.mark.skipif(not BY_GROUP, reason=f"no groups that limit memory: {TREE}")
SHOW = """
import resource as r
print(*(r.getrlimit(k)[1] for k in (r.RLIMIT_DATA, r.RLIMIT_CPU, r.RLIMIT_NOFILE)))
"""


async def test_a_job_gets_its_limits(box: Box) -> None:
    engine = await box.engine()
    limits = AttemptLimits(memory_bytes=2**30, cpu_seconds=600, open_files=99)
    await engine.launch([replace(box.python("j", SHOW), limits=limits)])
    await box.end(engine, "j")
    assert box.text("j") == f"{-1 if BY_GROUP else 2**30} 600 99\n"


async def test_a_job_over_its_memory_is_ended(box: Box) -> None:
    engine = await box.engine()
    limits = AttemptLimits(memory_bytes=300 * 2**20)
    await engine.launch([replace(box.python("j", "x = bytearray(400 << 20)"), limits=limits)])
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code) == (Phase.EXITED, 137 if BY_GROUP else 1)
    assert BY_GROUP or "MemoryError" in box.text("j", "stderr.log")


# Together more than they may have, and each of them less.
TOGETHER = """
import os, sys
children = [os.fork() for _ in range(3)]
held = bytearray(b"x") * (40 << 20)
print("up", flush=True)
sys.stdin.read() if 0 in children else [os.waitpid(child, 0) for child in children]
import time; time.sleep(2 if 0 in children else 0)
"""


@needs_groups
async def test_the_processes_of_a_job_share_its_limit(box: Box) -> None:
    engine = await box.engine()
    limits = AttemptLimits(memory_bytes=100 * 2**20)
    await engine.launch([replace(box.python("j", TOGETHER), limits=limits)])
    await box.end(engine, "j")
    told = box.directory / "jobs" / "j" / "1" / OUT_OF_MEMORY
    assert told.read_text() == f"{100 * 2**20}\n"


@needs_groups
async def test_nothing_is_left_of_the_group_of_a_job(box: Box) -> None:
    assert isinstance(TREE, GroupTree)
    before = sorted(TREE.path.glob("tgpu-job-*"))
    engine = await box.engine()
    limits = AttemptLimits(memory_bytes=100 * 2**20)
    await engine.launch([replace(box.shell("j", "cat /proc/self/cgroup"), limits=limits)])
    assert (await box.end(engine, "j")).exit_code == 0
    assert "-j-1" in box.text("j")
    assert sorted(TREE.path.glob("tgpu-job-*")) == before
    assert not (box.directory / "jobs" / "j" / "1" / OUT_OF_MEMORY).exists()


async def test_addresses_that_are_only_reserved_do_not_count(box: Box) -> None:
    # As CUDA does when it starts: far more than there is, and nothing of it can be written.
    reserve = (
        "import mmap\nflags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000\n"
        "mmap.mmap(-1, 1 << 40, flags=flags, prot=0)"
    )
    engine = await box.engine()
    limits = AttemptLimits(memory_bytes=300 * 2**20)
    await engine.launch([replace(box.python("j", reserve), limits=limits)])
    assert (await box.end(engine, "j")).exit_code == 0


async def test_every_worker_of_a_gang_has_the_limits(box: Box) -> None:
    engine = await box.engine()
    launch = replace(box.python("j", SHOW), workers=({}, {}), limits=AttemptLimits(cpu_seconds=7))
    await engine.launch([launch])
    await box.end(engine, "j")
    assert [line.split()[1] for line in box.text("j").splitlines()] == ["7", "7"]


async def test_a_job_with_limits_is_ended_like_any_other(box: Box) -> None:
    engine = await box.engine()
    launch = replace(box.shell("j", "sleep 100 & wait"), limits=AttemptLimits(open_files=99))
    await engine.launch([launch])
    await box.running(engine, "j")
    await engine.stop([launch.key])
    assert (await box.end(engine, "j")).cause == "stopped"
