"""Our systemd unit: what systemd itself says of it, and what must stand in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tgpu.cli.serving.systemd import UNIT, Unit, unit_path, unit_text

SERVE = (sys.executable, "-m", "tgpu", "serve")


def verified(folder: Path, unit: Unit) -> str:
    path = folder / UNIT
    path.write_text(unit_text(unit))
    manager = "--system" if unit.is_system else "--user"
    ran = subprocess.run(
        ["systemd-analyze", "verify", manager, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)},
    )
    # Others of the machine's units are looked at as well, and are none of our business.
    return "\n".join(line for line in ran.stderr.splitlines() if UNIT in line)


@pytest.mark.parametrize("is_system", [True, False], ids=["system", "user"])
def test_systemd_finds_nothing_wrong_with_it(tmp_path, is_system):
    assert verified(tmp_path, Unit(SERVE, is_system, 30)) == ""


def test_systemd_would_say_what_is_wrong(tmp_path):
    assert "bad unit file setting" in verified(tmp_path, Unit(("no such/program",), True, 30))


def test_jobs_outlive_the_service():
    assert "KillMode=process" in unit_text(Unit(SERVE, False, 2)).splitlines()


def test_systemd_waits_longer_than_the_service_takes_to_end():
    assert "TimeoutStopSec=40" in unit_text(Unit(SERVE, False, 30)).splitlines()


def test_a_system_service_may_run_as_another_user():
    text = unit_text(Unit(SERVE, True, 2, "gpu"))
    assert "User=gpu" in text.splitlines()
    assert "WantedBy=multi-user.target" in text


def test_words_that_systemd_would_change_are_written_so_that_it_does_not():
    command = ("/bin/x", "a b", "100%", "$HOME", 'say "hi"')
    line = next(li for li in unit_text(Unit(command, False, 2)).splitlines() if "ExecStart" in li)
    assert line == 'ExecStart=/bin/x "a b" "100%%" "$$HOME" "say \\"hi\\""'


def test_units_go_where_systemd_looks():
    home = Path("/home/me/.config")
    assert unit_path(False, home) == home / "systemd/user/gpu-scheduler.service"
    assert unit_path(True, home) == Path("/etc/systemd/system/gpu-scheduler.service")
