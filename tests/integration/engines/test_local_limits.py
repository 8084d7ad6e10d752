"""Limits on the processes of real jobs."""

from dataclasses import replace

from gpu_scheduler.engines.api import Limits, Phase
from tests.integration.engines.box import Box

SHOW = """
import resource as r
print(*(r.getrlimit(k)[1] for k in (r.RLIMIT_DATA, r.RLIMIT_CPU, r.RLIMIT_NOFILE)))
"""


async def test_a_job_gets_its_limits(box: Box) -> None:
    engine = await box.engine()
    limits = Limits(memory_bytes=2**30, cpu_seconds=600, open_files=99)
    await engine.launch([replace(box.python("j", SHOW), limits=limits)])
    await box.end(engine, "j")
    assert box.text("j") == "1073741824 600 99\n"


async def test_a_job_over_its_memory_is_told_so(box: Box) -> None:
    engine = await box.engine()
    limits = Limits(memory_bytes=300 * 2**20)
    await engine.launch([replace(box.python("j", "x = bytearray(400 << 20)"), limits=limits)])
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code) == (Phase.EXITED, 1)
    assert "MemoryError" in box.text("j", "stderr.log")


async def test_addresses_that_are_only_reserved_do_not_count(box: Box) -> None:
    # As CUDA does when it starts: far more than there is, and nothing of it can be written.
    reserve = (
        "import mmap\nflags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000\n"
        "mmap.mmap(-1, 1 << 40, flags=flags, prot=0)"
    )
    engine = await box.engine()
    limits = Limits(memory_bytes=300 * 2**20)
    await engine.launch([replace(box.python("j", reserve), limits=limits)])
    assert (await box.end(engine, "j")).exit_code == 0


async def test_every_worker_of_a_gang_has_the_limits(box: Box) -> None:
    engine = await box.engine()
    launch = replace(box.python("j", SHOW), workers=({}, {}), limits=Limits(cpu_seconds=7))
    await engine.launch([launch])
    await box.end(engine, "j")
    assert [line.split()[1] for line in box.text("j").splitlines()] == ["7", "7"]


async def test_a_job_with_limits_is_ended_like_any_other(box: Box) -> None:
    engine = await box.engine()
    launch = replace(box.shell("j", "sleep 100 & wait"), limits=Limits(open_files=99))
    await engine.launch([launch])
    await box.running(engine, "j")
    await engine.stop([launch.key])
    assert (await box.end(engine, "j")).cause == "stopped"
