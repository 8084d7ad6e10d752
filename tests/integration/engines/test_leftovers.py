"""What is left of starting over is found and mended, and nothing else: real supervisors."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_service import eventually
from tgpu.cli.doctor.leftover_checks import leftovers
from tgpu.cli.findings import FindingLevel
from tgpu.engines.local.leftovers import Leftover, LeftoverKind, find_leftovers, mend
from tgpu.engines.local.processes import Process, read_process


class Place:
    """A data directory in which supervisors are started."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.engine = data / "engine"
        self.started: list[Process] = []

    def start(self) -> Process:
        module = ["-I", "-m", "tgpu.engines.local.supervisor", "--detach"]
        options = [f"--dir={self.engine}", "--idle-seconds=600"]
        subprocess.run([sys.executable, *module, *options], check=True)
        (found,) = [
            process
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if (process := read_process(pid)) is not None
            and process.name == "tgpu-supervisor"
            and f"--dir={self.engine}" in Path(f"/proc/{pid}/cmdline").read_text()
            and pid not in [one.pid for one in self.started]
        ]
        self.started.append(found)
        return found

    def found(self) -> list[Leftover]:
        """Of here: others' supervisors may be left over on this machine too."""
        return [
            one for one in find_leftovers(str(self.engine)) if one.directory == str(self.engine)
        ]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "data")
    yield made
    for process in made.started:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def is_gone(process: Process) -> bool:
    now = read_process(process.pid)
    return now is None or now.start != process.start or now.is_over


def test_a_supervisor_whose_directory_was_removed_is_ended_where_it_has_nothing_to_do(
    place: Place,
) -> None:
    old = place.start()
    assert place.found() == []
    place.data.rename(place.data.parent / "removed")
    new = place.start()
    (one,) = place.found()
    assert (one.kind, one.supervisor and one.supervisor.pid, one.jobs) == (
        LeftoverKind.ORPHAN,
        old.pid,
        (),
    )
    assert mend(one)
    assert is_gone(old)
    assert not is_gone(new)
    assert place.found() == []
    assert (place.engine / "supervisor.sock").exists()


def test_a_supervisor_without_its_socket_makes_room_for_the_next(place: Place) -> None:
    old = place.start()
    (place.engine / "supervisor.sock").unlink()
    (one,) = place.found()
    assert one.kind is LeftoverKind.DEAF
    checks = leftovers(place.data, fix=False)
    assert [(check.level, check.remedy) for check in checks if str(old.pid) in check.finding] == [
        (FindingLevel.FAIL, "tgpu doctor --fix")
    ]
    (mended,) = [c for c in leftovers(place.data, fix=True) if str(old.pid) in c.finding]
    assert mended.level is FindingLevel.OK
    assert mended.finding.startswith("mended: ")
    assert is_gone(old) or place.found() == []


def test_a_socket_that_nobody_listens_on_is_removed_and_one_in_use_is_not(place: Place) -> None:
    old = place.start()
    socket = place.engine / "supervisor.sock"
    in_use = Leftover(LeftoverKind.STALE, str(place.engine))
    assert not mend(in_use)
    assert socket.exists()
    os.kill(old.pid, signal.SIGKILL)
    eventually(lambda: is_gone(old), "killed")
    eventually(lambda: [one.kind for one in place.found()] == [LeftoverKind.STALE], "stale")
    assert mend(in_use)
    assert not socket.exists()
    assert place.found() == []


def test_jobs_of_a_removed_directory_are_told_of_and_left_alone(place: Place) -> None:
    old = place.start()
    busy = Leftover(LeftoverKind.ORPHAN, str(place.engine), old, (4711, 4712))
    assert not busy.is_mendable
