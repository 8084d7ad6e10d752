"""The supervisor's clock and the service's lie hours apart, as after the wall clock was set."""

import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.real_service import RealService

HOURS = 5


@pytest.mark.parametrize("hours", [HOURS, -HOURS], ids=["set back", "set ahead"])
def test_starts_ends_and_time_limits_are_what_they_were(tmp_path: Path, hours: int) -> None:
    """The supervisor began before the step: its clock goes on, the service has the new time."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + hours * 3600
    with RealService(tmp_path) as service:
        engine = service.data_dir / "engine"
        engine.mkdir(parents=True, mode=0o700)
        (engine / "clock").write_text(f"{boot} {round(offset * 1000)}\n")
        service.start()
        limited = service.submit("sleep 60", max_runtime=2)
        job = service.end(service.submit("sleep 0.2", max_runtime=3000))
        assert job["state"] == "completed"
        for name in ("started_at", "ended_at"):
            at = datetime.fromisoformat(job[name]).timestamp()
            assert abs(at - time.time()) < 600, name
        killed = service.end(limited)
        assert "time limit" in killed["cause"]
        usage = service.get("/tenants/default/usage")
        assert usage["total"]["gpu_hours"] < 0.1
