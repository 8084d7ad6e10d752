"""A machine that was rebooted: every process is gone, and the boot id is another one."""

from pathlib import Path

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, eventually, gate, kill_and_wait
from tgpu.engines.local.paths import JOURNAL


def test_what_ran_has_failed_by_the_reboot_or_runs_again_if_it_may(
    start: StartService, tmp_path: Path
) -> None:
    service = start_with_boot_id(start, tmp_path, "first boot")
    script = f"echo $TGPU_ATTEMPT >> $TGPU_JOB_ID; {gate()}; exit 4"
    service.submit(script, job_id="once")
    service.submit(script, job_id="again", requeue=True)
    service.submit("exit 6", job_id="waits", hold=True)
    for job_id in ("once", "again"):
        service.running(job_id)

    reboot(service, tmp_path)

    once = service.end("once")
    assert (once["state"], once["exit_code"]) == ("failed", None)
    assert once["cause"] == "the machine was rebooted"
    again = service.running("again")
    assert (again["attempt"], again["restarts"]) == (2, 1)
    service.open_gate()
    assert service.end("again")["exit_code"] == 4
    service.post("/jobs/waits/release")
    assert service.end("waits")["exit_code"] == 6
    assert (service.lines("once"), service.lines("again")) == (["1"], ["1", "2"])
    assert service.busy_gpus() == []


def test_an_end_that_was_written_down_before_the_reboot_is_not_lost(
    start: StartService, tmp_path: Path
) -> None:
    service = start_with_boot_id(start, tmp_path, "first boot")
    job_id = service.submit(f"{gate()}; exit 4", requeue=True)
    service.running(job_id)
    service.kill()
    service.open_gate()
    journal = service.data_dir / "engine" / JOURNAL
    eventually(lambda: b'"exited"' in journal.read_bytes(), "the end in the journal")

    reboot(service, tmp_path)

    job = service.end(job_id)
    assert (job["state"], job["exit_code"], job["attempt"]) == ("failed", 4, 1)


def start_with_boot_id(start: StartService, tmp_path: Path, boot_id: str) -> RealService:
    file = tmp_path / "boot_id"
    file.write_text(f"{boot_id}\n")
    return start(environ={"TGPU_BOOT_ID_FILE": str(file)})


def reboot(service: RealService, tmp_path: Path) -> None:
    kill_and_wait(*service.processes())
    (tmp_path / "boot_id").write_text("second boot\n")
    service.start()
