"""No job ends because one of our processes could not look, or has no descriptors left."""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.engines.box import Box, kill_and_wait, until, until_true
from tgpu.engines.api import AttemptKey, Phase
from tgpu.engines.local.engine import LocalEngine

_JOBS = 24
# What a filter for system calls does, as container runtimes set one.
_FILTERED = (
    "import os\n"
    "def pidfd_open(*_): raise OSError({number}, 'filtered')\n"
    "os.pidfd_open = pidfd_open\n"
)


async def _running(box: Box, engine: LocalEngine) -> dict[str, int | None]:
    """Which process each job has."""
    found: dict[str, int | None] = {}

    async def all_run() -> bool:
        found.update((o.key.job_id, o.pid) for o in await engine.observe())
        return len(found) == _JOBS

    await until(all_run, "all jobs to run")
    assert all(o.phase is Phase.RUNNING for o in await engine.observe())
    return found


@pytest.mark.parametrize(
    ("prelude", "limit"),
    [("", 24), (_FILTERED.format(number=1), None), (_FILTERED.format(number=38), None)],
    ids=["EMFILE", "EPERM", "ENOSYS"],
)
async def test_jobs_live_through_a_restart_in_which_we_cannot_watch_them(
    box: Box, prelude: str, limit: int | None
) -> None:
    engine = await box.engine()
    await engine.launch([box.launch(f"j{n}", "sleep", "600", grace_ms=50) for n in range(_JOBS)])
    before = await _running(box, engine)
    supervisor = engine.supervisor_pid
    assert supervisor is not None
    await engine.close()
    await kill_and_wait(supervisor)
    box.start_supervisor(prelude, limit)
    engine = await box.engine()
    assert await _running(box, engine) == before

    # Ends are noticed without being told, and those that are told to end do.
    pid = before["j0"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert (await box.end(engine, "j0")).exit_code == 137
    assert sum(o.phase is Phase.RUNNING for o in await engine.observe()) == _JOBS - 1
    assert len(box.job_processes()) == _JOBS - 1
    await engine.stop([AttemptKey(f"j{n}", 1) for n in range(1, _JOBS)])
    ends = [await box.end(engine, f"j{n}") for n in range(1, _JOBS)]
    assert {(end.phase, end.cause) for end in ends} == {(Phase.EXITED, "stopped")}
    assert box.job_processes() == {}


async def test_jobs_wait_for_descriptors_and_the_supervisor_does_not_fall_over(box: Box) -> None:
    box.start_supervisor(limit=24)
    engine = await box.engine()
    supervisor = engine.supervisor_pid
    script = "echo x >> $WORK/ran; while [ ! -e $WORK/go ]; do sleep 0.02; done"
    await engine.launch([box.shell(f"j{n}", script) for n in range(_JOBS)])
    await until_true(lambda: len(box.lines("ran")) >= 2, "some of them to run")
    (box.work / "go").touch()
    ends = [await box.end(engine, f"j{n}") for n in range(_JOBS)]
    assert {(end.phase, end.exit_code) for end in ends} == {(Phase.EXITED, 0)}
    assert (len(box.lines("ran")), engine.supervisor_pid) == (_JOBS, supervisor)


@pytest.fixture
def lower_limit() -> Iterator[int]:
    """A soft limit of ours that is below the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(900, hard - 1), hard))
    yield min(900, hard - 1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_the_supervisor_has_the_hard_limit_and_jobs_what_its_starter_had(
    box: Box, lower_limit: int
) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", "ulimit -Sn; ulimit -Hn")])
    await box.end(engine, "j")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert box.text("j").split() == [str(lower_limit), str(hard)]
    limits = Path(f"/proc/{engine.supervisor_pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == [str(hard), str(hard)]
