from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.unit.cli.fake_service import FakeService
from tgpu.cli import connect
from tgpu.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Tgpu = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def own_choices(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nobody's own: what whoever runs the tests has set for themselves does not count."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.delenv("TGPU_TENANT", raising=False)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """What every command talks to here; nothing is started and nothing is sent."""
    fake = FakeService()
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: fake.client())
    monkeypatch.setattr(connect, "ensure_running", lambda *_: None)
    monkeypatch.delenv("TGPU_URL", raising=False)
    return fake


@pytest.fixture
def tgpu(service: FakeService, capsys: pytest.CaptureFixture[str]) -> Tgpu:
    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
