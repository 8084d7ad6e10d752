"""Who the processes of this machine are, as its kernel tells."""

import errno
import os
from signal import SIGTERM

import psutil
import pytest

from tests.unit.service.processes import a_process
from tgpu.engines.api import AttemptKey, JobMark
from tgpu.engines.local.node_processes import is_same, look_up, send
from tgpu.engines.node_processes import Who

KEY = AttemptKey("j1", 1)


def test_the_kernel_tells_who_a_process_is() -> None:
    mark = {"TGPU_JOB_ID": "j1", "TGPU_ATTEMPT": "1", "TGPU_LOG_DIR": "/logs/j1/1"}
    with a_process(mark) as process:
        who = look_up([process.pid])[process.pid]
        assert who.user
        assert (who.command or "").startswith("python")
        assert os.getpid() in who.ancestors
        assert who.mark == JobMark(KEY, "/logs/j1/1")
        assert is_same(who)
    assert not is_same(who)
    assert look_up([process.pid])[process.pid] == Who(process.pid)


def test_a_signal_reaches_only_the_process_that_was_meant() -> None:
    with a_process() as process:
        who = look_up([process.pid])[process.pid]
        assert not send(Who(process.pid, started_at=1), SIGTERM)
        assert process.poll() is None
        assert send(who, SIGTERM)
        assert process.wait(20) == -15
        assert not send(who, SIGTERM)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EACCES])
def test_a_process_that_cannot_be_looked_at_is_still_who_it_was(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with a_process() as process:
        pid = process.pid
        known = look_up([pid])
        assert known[pid].is_seen

        def fail(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(psutil, "Process", fail)
        assert is_same(known[pid])
        assert look_up([pid], known) == known
        assert not send(known[pid], SIGTERM)  # it may be another one by now
        monkeypatch.undo()
    assert not is_same(known[pid])
