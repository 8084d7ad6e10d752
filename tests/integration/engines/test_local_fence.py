"""Jobs that are kept from devices, by the kernel of this machine.

Harmless devices stand in for GPUs: 1:3 (null) for the job's own, 1:5 (zero) for another's.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.engines.box import Box, kill_and_wait, until_true
from tgpu.cli.sessions import shell
from tgpu.devices.control_groups import GroupTree, device_tree
from tgpu.devices.device_lists import shut_devices
from tgpu.devices.device_program import Device, DeviceRange
from tgpu.devices.fencing import FenceKind, FenceTree, fence_tree
from tgpu.engines.api import AttemptLimits, Fence, Launch, Phase, RunAs
from tgpu.engines.local import runner_group
from tgpu.host.job_process import ProcessSurroundings

FOUND = fence_tree()
LISTS = device_tree()
needs_fence = pytest.mark.skipif(isinstance(FOUND, str), reason=f"no fence: {FOUND}")
needs_lists = pytest.mark.skipif(isinstance(LISTS, str), reason=f"no lists: {LISTS}")

# The memory devices 3 and 5 to 7 are shut, and the first of them is opened.
FENCE = Fence(opened=((1, 3),), shut=((1, 3, 3), (1, 5, 7)))
TRY = 'for d in own other; do if true 2>/dev/null <"$WORK/$d"; then echo $d open; fi; done; true'


@pytest.fixture
def devices(box: Box) -> None:
    for name, minor in (("own", 3), ("other", 5)):
        os.mknod(box.work / name, stat.S_IFCHR, os.makedev(1, minor))
        (box.work / name).chmod(0o666)


def fenced(launch: Launch, *, required: bool = False) -> Launch:
    return replace(launch, fence=FENCE._replace(required=required))


def record(box: Box, name: str) -> str:
    return box.text(name, "attempt.jsonl")


@needs_fence
@pytest.mark.usefixtures("devices")
async def test_a_job_opens_its_own_device_and_no_other(box: Box) -> None:
    engine = await box.engine()
    limited = replace(fenced(box.shell("limited", TRY)), limits=AttemptLimits(memory_bytes=2**30))
    gang = replace(fenced(box.shell("gang", TRY)), workers=({}, {}))
    user = replace(fenced(box.shell("user", TRY)), user=RunAs(65534, 65534, ()), cwd="/")
    free = box.shell("free", TRY)
    open_to_all(box.work)
    await engine.launch([fenced(box.shell("j", TRY)), limited, gang, user, free])
    for name in ("j", "limited", "gang", "user", "free"):
        assert (await box.end(engine, name)).phase is Phase.EXITED
    assert box.text("j") == "own open\n"
    assert box.text("limited") == "own open\n"
    assert box.text("gang") == "own open\nown open\n"
    assert box.text("user") == "own open\n"
    assert box.text("free") == "own open\nother open\n"
    assert isinstance(FOUND, FenceTree)
    assert f'"fenced": "{FOUND.kind}"' in record(box, "j")


@needs_fence
@pytest.mark.usefixtures("devices")
async def test_a_shell_that_root_opens_in_a_job_is_inside_its_fence(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([fenced(box.shell("j", "while :; do sleep 0.05; done"))])
    running = await box.running(engine, "j")
    found = ProcessSurroundings({}, "/", 0, 0, (), running.pid or 0)
    opened = [
        in_a_child(lambda: shell._become(found), box.work / name) for name in ("own", "other")
    ]
    assert opened == [True, False]


@needs_fence
@pytest.mark.usefixtures("devices")
async def test_a_fence_outlives_runner_and_supervisor_and_ends_with_its_group(box: Box) -> None:
    engine = await box.engine()
    wait = "echo up; while [ ! -e $WORK/go ]; do sleep 0.02; done; " + TRY + "; touch $WORK/done"
    await engine.launch([fenced(box.shell("j", wait))])
    running = await box.running(engine, "j")
    (group,) = groups_of(running.pid or 0)
    assert engine.supervisor_pid is not None
    await kill_and_wait(engine.supervisor_pid, box.runner_of("j"))
    await box.running(engine, "j")  # by the next one
    (box.work / "go").touch()
    await until_true((box.work / "done").exists, "the job to have tried")
    assert box.text("j") == "up\nown open\n"
    await box.end(engine, "j")

    def is_swept() -> bool:
        runner_group.sweep()  # as every supervisor does now and then
        return not group.exists()

    await until_true(is_swept, "its group to be taken away")


def open_to_all(path: Path) -> None:
    for each in (path, *path.parents):
        if each == Path("/tmp"):
            break
        each.chmod(0o755)


def groups_of(pid: int) -> list[Path]:
    """The groups of fences that a process is in."""
    assert isinstance(FOUND, FenceTree)
    text = Path(f"/proc/{pid}/cgroup").read_text()
    root = str(FOUND.tree.path)
    names = [line.split(":", 2)[2] for line in text.splitlines() if "tgpu-fence-" in line]
    return [Path(root + name) for name in names]


async def test_where_there_is_no_fence_only_a_job_that_needs_none_starts(box: Box) -> None:
    box.start_supervisor(
        "from tgpu.engines.local import device_fence;"
        "device_fence.fence_tree = lambda: 'only root can isolate GPUs';"
    )
    engine = await box.engine()
    must = fenced(box.shell("must", "true"), required=True)
    await engine.launch([fenced(box.shell("may", "true")), must])
    end = await box.end(engine, "must")
    assert (end.phase, end.retry) == (Phase.NOT_STARTED, False)
    assert end.cause == (
        "it cannot be isolated from other GPUs: only root can isolate GPUs "
        "(engine.fence_gpus is on)"
    )
    assert (await box.end(engine, "may")).exit_code == 0
    assert '"fenced": "no: only root can isolate GPUs"' in record(box, "may")


@needs_lists
@pytest.mark.usefixtures("devices")
async def test_the_lists_of_version_1_do_the_same(box: Box) -> None:
    no_program = "from tgpu.devices import fencing; fencing._program_problem = lambda: 'not now';"
    box.start_supervisor(no_program)
    engine = await box.engine()
    await engine.launch([fenced(box.shell("j", TRY))])
    await box.end(engine, "j")
    assert box.text("j") == "own open\n"
    assert f'"fenced": "{FenceKind.LIST}"' in record(box, "j")
    assert isinstance(LISTS, GroupTree)
    assert not list(LISTS.path.glob(f"tgpu-fence-{box.runner_of('j')}-*"))


@needs_lists
@pytest.mark.usefixtures("devices")
def test_a_list_of_what_is_allowed_is_narrowed(box: Box) -> None:
    """As in a container: the group above allows whole drivers, and no others."""
    assert isinstance(LISTS, GroupTree)
    above = LISTS.path / f"tgpu-test-{os.getpid()}"
    inner = above / "inner"
    above.mkdir()
    try:
        (above / "devices.deny").write_text("a")
        for rule in ("c 1:* rwm", "c 5:2 rwm"):
            (above / "devices.allow").write_text(rule)
        inner.mkdir()
        shut_devices(inner, [Device(1, 3)], [DeviceRange(1, 3, 7), DeviceRange(5, 2, 2)])
        rules = (inner / "devices.list").read_text().split("\n")
        assert can_open(inner, box.work / "own")
        assert not can_open(inner, box.work / "other")
        assert "c 1:8 rwm" in rules  # /dev/random, which nobody shut
        assert not any(rule.startswith("c 5:") for rule in rules)
    finally:
        for path in (inner, above):
            path.rmdir()


def can_open(group: Path, device: Path) -> bool:
    """Asked of a process in the group."""
    return in_a_child(lambda: (group / "cgroup.procs").write_text("0"), device)


def in_a_child(enter: Callable[[], object], device: Path) -> bool:
    """Whether it can open a device when it has entered."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            enter()
            device.open("rb").close()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def test_without_rights_it_is_said_why_there_is_no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert fence_tree() == "only root can isolate GPUs"
