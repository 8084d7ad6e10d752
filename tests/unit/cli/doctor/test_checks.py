import json
import os

import pytest

from tests.unit.cli.builders import a_gpu, some_gpus
from tgpu.cli.doctor.checks import data_dir, disk
from tgpu.cli.findings import FindingLevel

GIB = 1024**3


def test_a_missing_data_directory_is_fine_where_it_can_be_made(tmp_path):
    assert data_dir(tmp_path / "new" / "tgpu").level is FindingLevel.OK


def test_a_file_in_the_place_of_the_directory_fails(tmp_path):
    (tmp_path / "tgpu").touch()
    check = data_dir(tmp_path / "tgpu")
    assert check.level is FindingLevel.FAIL
    assert check.remedy


def test_a_directory_open_to_others_is_a_warning_with_the_command(tmp_path):
    tmp_path.chmod(0o755)
    check = data_dir(tmp_path)
    assert (check.level, check.remedy) == (FindingLevel.WARN, f"chmod 700 {tmp_path}")
    os.chmod(tmp_path, 0o700)
    assert data_dir(tmp_path).level is FindingLevel.OK


@pytest.mark.parametrize(
    ("free", "level"),
    [(50 * GIB, FindingLevel.OK), (GIB // 2, FindingLevel.WARN), (1024, FindingLevel.FAIL)],
)
def test_disk_space_is_ok_scarce_or_gone(tmp_path, free, level):
    assert disk(tmp_path, lambda _: (100 * GIB, 0, free)).level is level


def test_the_doctor_reports_trouble_and_returns_1(tgpu, service, monkeypatch, tmp_path):
    monkeypatch.setenv("TGPU_DATA_DIR", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    outcome = tgpu("doctor", "--json")
    levels = {check["name"]: check["level"] for check in json.loads(outcome.out)["checks"]}
    assert levels["data"] == "fail"
    assert outcome.code == 1


def test_warnings_alone_are_no_failure(tgpu, service, monkeypatch, tmp_path):
    monkeypatch.setenv("TGPU_DATA_DIR", str(tmp_path / "new"))
    service.gpus = some_gpus(a_gpu(paused="fan"), simulated=True)
    outcome = tgpu("doctor")
    assert outcome.code == 0, outcome
    assert "tgpu resume-gpu 0" in outcome.out
