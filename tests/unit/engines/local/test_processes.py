import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tgpu.engines.local import processes
from tgpu.engines.local.processes import CannotTell, Process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_name_with_spaces_and_parentheses_does_not_confuse_the_fields() -> None:
    fields = b" ".join(str(number).encode() for number in range(1, 50))
    stat = b"42 (a) b (c) S " + fields
    assert processes._parse_stat(42, stat) == Process(42, 1, 2, 3, 19, "S", "a) b (c", 17)


def test_a_process_knows_its_parent(sleeper: subprocess.Popen[bytes]) -> None:
    process = processes.read_process(sleeper.pid)
    assert process is not None
    assert process.ppid == os.getpid()


def test_a_child_is_found_among_the_descendants(sleeper: subprocess.Popen[bytes]) -> None:
    assert sleeper.pid in [process.pid for process in processes.descendants(os.getpid())]
    others = processes.descendants(os.getpid(), skip=[sleeper.pid])  # servers of other tests
    assert sleeper.pid not in [process.pid for process in others]


def test_a_child_is_found_also_where_the_kernel_does_not_list_children(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_HAS_CHILDREN_FILES", False)
    assert sleeper.pid in [process.pid for process in processes.descendants(os.getpid())]


def test_another_process_with_the_same_pid_is_not_signalled(
    sleeper: subprocess.Popen[bytes],
) -> None:
    process = processes.read_process(sleeper.pid)
    assert process is not None
    assert not processes.send_signal(process._replace(start=1), signal.SIGKILL)
    assert sleeper.poll() is None
    assert processes.send_signal(process, signal.SIGKILL)
    assert sleeper.wait() == -9


def test_a_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    start = processes.start_time(sleeper.pid)
    assert processes.is_alive(sleeper.pid, start)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(sleeper.pid, start)


def test_a_process_lives_as_long_as_one_of_its_threads() -> None:
    script = (
        "import ctypes, threading, time; "
        "threading.Thread(target=time.sleep, args=(60,)).start(); print(flush=True); "
        "ctypes.CDLL(None).pthread_exit(0)"
    )
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while (found := processes.read_process(process.pid)) and found.state != "Z":
            pass
        assert found is not None
        assert processes.is_alive(process.pid, found.start)
        assert process.pid in [p.pid for p in processes.descendants(os.getpid())]
        process.kill()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EIO])
def test_what_cannot_be_looked_at_is_not_gone(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    start = processes.start_time(sleeper.pid)

    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(CannotTell):
        processes.is_alive(sleeper.pid, start)
    monkeypatch.setattr(os, "listdir", fail)
    with pytest.raises(CannotTell):
        processes.all_processes()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EPERM, errno.ENOSYS])
def test_a_signal_arrives_also_without_descriptors_of_processes(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    process = processes.read_process(sleeper.pid)
    assert process is not None

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", fail)
    assert not processes.send_signal(process._replace(start=1), signal.SIGKILL)
    assert processes.send_signal(process, signal.SIGKILL)
    assert sleeper.wait() == -9
