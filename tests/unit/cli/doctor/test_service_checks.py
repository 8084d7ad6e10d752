"""`tgpu doctor` of a scheduler elsewhere: what it says of itself, and nothing of this machine."""

import json
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest

from tgpu.cli import connect
from tgpu.cli.doctor import service_checks
from tgpu.cli.doctor.checks import examine
from tgpu.cli.environment import now_ms
from tgpu.cli.findings import Check, FindingLevel
from tgpu.client.http import Client
from tgpu.client.target import parse_target

ADA = {"name": "ada", "kind": "key", "role": "user", "tenants": ["vision"], "tenant": "vision"}
GPUS = {"provider": "NVML", "simulated": False, "problem": None, "gpus": []}


class Elsewhere:
    """What a scheduler at http://gpu.example.org:8080 answers."""

    def __init__(self) -> None:
        self.health: dict[str, object] = {
            "status": "healthy",
            "version": "9",
            "pid": 7,
            "problems": [],
        }
        self.who: tuple[int, object] = (200, ADA)
        self.metrics = (200, "gpu_scheduler_disk_free_bytes 5.36870912e+10\n")
        self.clock_off_seconds = 0.0

    def client(self) -> Client:
        transport = httpx.MockTransport(self.answer)
        return Client(parse_target("http://gpu.example.org:8080"), transport=transport)

    def answer(self, request: httpx.Request) -> httpx.Response:
        date = formatdate(now_ms() / 1000 + self.clock_off_seconds, usegmt=True)
        match request.url.path.removeprefix("/api/v1"):
            case "/health":
                return httpx.Response(200, json=self.health, headers={"Date": date})
            case "/whoami":
                return httpx.Response(self.who[0], json=self.who[1])
            case "/metrics":
                return httpx.Response(self.metrics[0], text=self.metrics[1])
        refused = {"error": {"code": "FORBIDDEN", "message": "not for you", "details": []}}
        return httpx.Response(403, json=refused)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    made = Elsewhere()
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: made.client())
    return made


def examined() -> dict[str, Check]:
    return {check.name: check for check in examine("http://gpu.example.org:8080")}


def test_the_service_that_was_named_is_looked_at_and_not_the_one_here(elsewhere: Elsewhere) -> None:
    found = examined()
    assert {"data", "files", "limits", "sessions", "leftovers"} & found.keys() == set()
    assert found["service"].level is FindingLevel.WARN
    assert "has version 9" in found["service"].finding
    assert found["disk"].finding == "50.0 GiB free in its data directory"
    assert found["clock"].level is found["engine"].level is FindingLevel.OK
    assert found["you"].finding == "ada: user of vision; your tenant: vision"
    assert (found["tls"].level, found["tls"].remedy) == (
        FindingLevel.WARN,
        "set api.tls_cert and api.tls_key there",
    )


@pytest.mark.parametrize(("off", "words"), [(90.0, "90 s ahead of"), (-90.0, "90 s behind")])
def test_a_clock_that_is_off_is_told(elsewhere: Elsewhere, off: float, words: str) -> None:
    elsewhere.clock_off_seconds = off
    clock = examined()["clock"]
    assert clock.level is FindingLevel.WARN
    first = words.split()[0]
    assert words in clock.finding.replace(str(int(first) - 1), first).replace(
        str(int(first) + 1), first
    )


def test_what_it_says_is_wrong_and_who_it_does_not_know_fail(elsewhere: Elsewhere) -> None:
    elsewhere.health |= {"status": "degraded", "problems": ["engine: out of reach"]}
    refused = {"error": {"code": "UNAUTHENTICATED", "message": "show a key", "details": []}}
    elsewhere.who = (401, refused)
    elsewhere.metrics = (403, json.dumps(refused))
    found = examined()
    assert "engine" not in found
    assert "disk" not in found
    assert (found["you"].level, found["you"].finding) == (FindingLevel.FAIL, "show a key")
    assert "TGPU_API_KEY" in found["you"].remedy


def test_who_belongs_to_no_tenant_is_warned(elsewhere: Elsewhere) -> None:
    elsewhere.who = (200, {**ADA, "tenants": [], "tenant": None, "problem": "ada belongs nowhere"})
    assert examined()["you"] == Check(
        "you", FindingLevel.WARN, "ada belongs nowhere", "tgpu whoami"
    )


def test_a_certificate_that_cannot_be_checked_fails_with_what_to_set() -> None:
    (check,) = service_checks._transport(parse_target("https://127.0.0.1:1"))
    assert (check.name, check.level) == ("tls", FindingLevel.FAIL)
    assert "TGPU_CA_FILE" in check.remedy


def test_the_doctor_looks_at_the_service_of_a_settings_file(tgpu, service, tmp_path: Path) -> None:
    file = tmp_path / "tgpu.yaml"
    file.write_text(f"data_dir: {tmp_path / 'there'}\n")
    found = json.loads(tgpu("doctor", "--config", str(file), "--json").out)["checks"]
    told = {check["name"]: check["finding"] for check in found}
    assert told["settings"] == f"{file} and the environment are valid"
    assert told["data"].startswith(str(tmp_path / "there"))
    file.write_text("api: {prot: 1}\n")
    outcome = tgpu("doctor", "--config", str(file), "--json")
    assert outcome.code == 1
    (wrong,) = [one for one in json.loads(outcome.out)["checks"] if one["name"] == "settings"]
    assert (wrong["level"], wrong["remedy"]) == ("fail", f"tgpu config check {file}")
    assert "api.prot is not a setting" in wrong["finding"]
