"""`tgpu service install`."""

import json
import socket
from types import SimpleNamespace

import pytest

from tgpu.cli.serving import install_checks, systemd
from tgpu.client.http import Client
from tgpu.wire.v1 import Health


@pytest.fixture
def config_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    return tmp_path / "config"


def test_the_unit_is_written_and_the_way_on_is_shown(tgpu, config_home):
    outcome = tgpu("service", "install")
    assert outcome.code == 0
    path = config_home / "systemd/user/gpu-scheduler.service"
    assert "ExecStart=" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644
    assert "systemctl --user enable --now gpu-scheduler.service" in outcome.err
    assert list(path.parent.iterdir()) == [path]


def test_a_dry_run_shows_it_and_writes_nothing(tgpu, config_home):
    outcome = tgpu("service", "install", "--dry-run")
    assert outcome.out.startswith("[Unit]\n")
    assert not config_home.exists()


def test_it_serves_where_tgpu_looks(tgpu, config_home, tmp_path):
    outcome = tgpu("service", "install", "--dry-run")
    assert f"--socket {tmp_path}/share/tgpu/service.sock" in outcome.out
    assert f"--data-dir {tmp_path}/share/tgpu" in outcome.out


def test_a_settings_file_is_named_by_its_whole_path(tgpu, config_home, tmp_path, monkeypatch):
    (tmp_path / "x.yaml").write_text("api: {shutdown_seconds: 30}\n")
    monkeypatch.chdir(tmp_path)
    found = json.loads(tgpu("service", "install", "--dry-run", "--config", "x.yaml", "--json").out)
    assert f"serve --config {tmp_path}/x.yaml\n" in found["unit"]
    assert "TimeoutStopSec=40" in found["unit"]
    assert found["written"] is False


def test_bad_settings_are_refused_before_anything_is_written(tgpu, config_home, tmp_path):
    (tmp_path / "x.yaml").write_text("api: {prot: 1}\n")
    assert tgpu("service", "install", "--config", str(tmp_path / "x.yaml")).code == 2
    assert not config_home.exists()


def test_a_user_of_a_user_service_makes_no_sense(tgpu, config_home):
    assert tgpu("service", "install", "--user-name", "games").code == 2


def test_without_the_rights_it_says_what_to_do(tgpu, config_home, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(systemd, "_SYSTEM_FOLDER", tmp_path / "file")
    outcome = tgpu("service", "install", "--system", "--user-name", "games")
    assert outcome.code == 1
    assert "sudo" in outcome.err


@pytest.mark.parametrize(
    ("words", "extra", "code"),
    [
        (["--system"], "", 0),
        (["--system", "--user-name", "games"], "", 2),
        ([], "", 2),
        (["--system", "--user-name", "games"], "engine: {jobs_as_service_user: true}\n", 0),
        (["--system", "--user-name", "games"], "engine: {kind: none}\n", 0),
    ],
)
def test_a_unit_that_could_not_run_jobs_as_others_is_not_written(
    tgpu, config_home, tmp_path, words: list[str], extra: str, code: int
):
    config = tmp_path / "x.yaml"
    config.write_text(f"auth: {{enabled: true}}\n{extra}")
    outcome = tgpu("service", "install", "--dry-run", "--config", str(config), *words)
    assert outcome.code == code
    if code:
        assert "only root can do that" in outcome.err


def test_a_user_who_is_not_there_is_told_with_how_to_make_one(tgpu, config_home):
    outcome = tgpu("service", "install", "--system", "--user-name", "nobodyhere", "--dry-run")
    assert outcome.code == 2
    assert outcome.err == (
        "tgpu: --user-name: there is no user 'nobodyhere' on this machine\n"
        "  create it with: sudo useradd --system --create-home nobodyhere\n"
    )


@pytest.fixture
def personal(monkeypatch):
    """A personal scheduler that runs, with jobs."""
    health = Health(status="healthy", version="1", pid=7, problems=[])
    monkeypatch.setattr(install_checks, "find_running", lambda *_, **__: health)
    told = SimpleNamespace(running_jobs=2, pending_jobs=3)
    monkeypatch.setattr(Client, "cluster_status", lambda _: told)


def test_a_personal_scheduler_on_the_same_directory_is_stopped_first(tgpu, config_home, personal):
    found = json.loads(tgpu("service", "install", "--dry-run", "--json").out)
    assert found["next"][0] == "tgpu stop"
    (note,) = found["notes"]
    assert note.startswith("a personal scheduler runs on the same data directory (pid 7, data in ")
    assert "2 running jobs, 3 waiting" in note


def test_a_personal_scheduler_beside_a_unit_is_told_of(tgpu, config_home, personal):
    place = ("--system", "--data-dir", "/var/lib/tgpu", "--dry-run")
    outcome = tgpu("service", "install", *place)
    assert "a personal scheduler stays beside the unit (pid 7" in outcome.err
    assert json.loads(tgpu("service", "install", *place, "--json").out)["next"][0] != "tgpu stop"


def test_a_port_that_is_taken_is_told_of(tgpu, config_home, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "x.yaml").write_text(f"api: {{http_port: {port}}}\n")
        outcome = tgpu("service", "install", "--dry-run", "--config", str(tmp_path / "x.yaml"))
    assert f"something listens on 127.0.0.1:{port} already" in outcome.err
