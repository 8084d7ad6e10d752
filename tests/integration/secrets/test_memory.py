"""Secrets in the memory of our processes: no core dumps, and a job of the same user cannot look."""

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path

from tests.real_service import RealService, gate
from tgpu.engines.local.processes import keep_memory_private


def core_limit(pid: int) -> str:
    text = Path(f"/proc/{pid}/limits").read_text()
    found = re.search(r"Max core file size\s+(\S+)", text)
    assert found is not None
    return found[1]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_our_processes_leave_no_core_and_jobs_keep_their_own_limit(tmp_path: Path) -> None:
    with RealService(tmp_path, gpus="sim:1xA100") as service:
        service.start()
        script = f"ulimit -c > {service.work}/core; {gate('end')}"
        job_id = service.post("/jobs", service.request(script))["job_id"]
        pid = int(service.running(job_id)["pid"])
        mine = core_limit(os.getpid())
        assert core_limit(pid) == mine  # as the service was started with
        supervisor = parent_of(parent_of(pid))
        assert core_limit(supervisor) == "0"
        # As for any program that must not be looked into, its files are root's.
        assert Path(f"/proc/{service.pid}/environ").stat().st_uid == 0
        service.open_gate("end")
        service.in_state(job_id, "completed")


def exit_code_of(act: Callable[[], int]) -> int:
    """In a child of this process."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = act()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _read_my_parents_variables() -> int:
    try:
        Path(f"/proc/{os.getppid()}/environ").read_bytes()
    except PermissionError:
        return 13
    return 0


def _as_nobody() -> int:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a program that was started by this user
    if exit_code_of(_read_my_parents_variables) != 0:
        return 1
    keep_memory_private()
    os.listdir("/proc/self/fd")  # its own stays its own
    return exit_code_of(_read_my_parents_variables)


def test_another_process_of_its_user_cannot_read_the_memory_of_the_service() -> None:
    assert exit_code_of(_as_nobody) == 13
