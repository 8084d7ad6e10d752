"""What the doctor looks at around the service."""

from pathlib import Path

import pytest

from tgpu.cli.doctor import machine_checks
from tgpu.cli.findings import FindingLevel

HOME = {"HOME": "/home/nobody"}


def test_a_wrong_variable_is_named_with_the_way_out():
    check = machine_checks.settings(HOME | {"GPU_SCHEDULER_API_HTTP_PORT": "many"})
    assert check.level is FindingLevel.FAIL
    assert check.remedy == "unset GPU_SCHEDULER_API_HTTP_PORT, or correct it"


def test_a_variable_without_effect_is_a_warning():
    check = machine_checks.settings(HOME | {"GPU_SCHEDULER_SCHEDULER_MAX_WORKERS": "4"})
    assert check.level is FindingLevel.WARN
    assert machine_checks.settings(HOME).level is FindingLevel.OK


@pytest.mark.parametrize(
    ("path", "level"),
    [("/home/me", FindingLevel.WARN), ("/home/local", FindingLevel.OK), ("/var", FindingLevel.OK)],
)
def test_a_network_file_system_is_a_warning(tmp_path, path, level):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/h /home nfs4 rw 0 0\n/dev/sdb /home/local xfs rw 0 0\n"
    )
    assert machine_checks.file_system(Path(path), mounts).level is level


@pytest.mark.parametrize(
    ("soft", "level"), [(256, FindingLevel.WARN), (1024, FindingLevel.OK), (-1, FindingLevel.OK)]
)
def test_few_open_files_are_a_warning(soft, level):
    assert machine_checks.open_files(soft).level is level


def test_screen_is_looked_for_on_the_path(tmp_path):
    assert "neither" in machine_checks.sessions(str(tmp_path)).finding
    (tmp_path / "screen").touch(0o755)
    assert machine_checks.sessions(str(tmp_path)).finding.endswith("--screen")
    (tmp_path / "tmux").touch(0o755)
    assert machine_checks.sessions(str(tmp_path)).finding.endswith("--screen or --tmux")


def test_a_unit_whose_program_is_gone_fails_with_the_command_that_mends_it(tmp_path):
    unit = tmp_path / "systemd" / "user" / "gpu-scheduler.service"
    unit.parent.mkdir(parents=True)
    nowhere = tmp_path / "none.service"
    assert machine_checks.units(tmp_path, nowhere) == []
    unit.write_text(f'[Service]\nExecStart="{tmp_path}/my env/python" -m tgpu serve\n')
    (check,) = machine_checks.units(tmp_path, nowhere)
    assert (check.level, check.remedy) == (FindingLevel.FAIL, "tgpu service install --user")
    (tmp_path / "my env").mkdir()
    (tmp_path / "my env" / "python").touch()
    (check,) = machine_checks.units(tmp_path, nowhere)
    assert check.level is FindingLevel.OK


def test_how_far_a_memory_limit_reaches_is_said(tmp_path):
    (tmp_path / "self").mkdir()
    groups = tmp_path / "groups"
    groups.mkdir()
    (tmp_path / "self" / "mountinfo").write_text(f"36 24 0:31 / {groups} rw - cgroup x rw,memory\n")
    (tmp_path / "self" / "cgroup").write_text("4:memory:/\n")
    assert "the whole job" in machine_checks.memory_limits(proc=tmp_path).finding
    (tmp_path / "self" / "mountinfo").write_text("")
    check = machine_checks.memory_limits(proc=tmp_path)
    assert "each process of a job" in check.finding
    assert check.remedy == "tgpu service install"
