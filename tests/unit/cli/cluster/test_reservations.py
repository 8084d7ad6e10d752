"""tgpu reserve, reservations, unreserve: what is sent, what is shown."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.unit.cli.builders import a_gpu, some_gpus
from tests.unit.cli.fake_service import FakeService
from tgpu.cli import connect, environment
from tgpu.text.instants import span_text, zone_text
from tgpu.wire.v1 import GpuReservationModel

NOW = 1_900_000_000_000  # 2030-03-17T17:46:40Z
HOUR = 3_600_000


def iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat().replace("+00:00", "Z")


RESERVATION: dict[str, Any] = {
    "id": "r-1",
    "tenant_id": "vision",
    "user": "ann",
    "node": "local",
    "gpus": [0, 1, 2, 6],
    "gpu_type": "A100",
    "starts_at": iso(NOW + HOUR),
    "ends_at": iso(NOW + 3 * HOUR),
    "state": "waiting",
    "used": False,
    "unused_minutes": 15.0,
    "jobs": ["7"],
    "problem": None,
}


@dataclass
class FakeReservations(FakeService):
    made: dict[str, Any] = field(default_factory=lambda: dict(RESERVATION))
    taken: dict[str, Any] | None = None

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1").strip("/").split("/")
        if path[0] != "reservations" or self.refusal:
            return super().answer(request)
        self.requests.append((request.method, str(request.url.raw_path, "ascii")[7:]))
        if request.content:
            self.bodies.append(json.loads(request.content))
        if self.taken is not None:
            error = {"code": "CONFLICT", "message": "only 1 is left", "details": [self.taken]}
            return httpx.Response(409, json={"error": error})
        if request.method == "GET" and len(path) == 1:
            return httpx.Response(200, json={"reservations": [self.made] if self.made else []})
        return httpx.Response(201 if request.method == "POST" else 200, json=self.made)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeReservations:
    fake = FakeReservations()
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: fake.client())
    monkeypatch.setattr(connect, "ensure_running", lambda *_: None)
    monkeypatch.setattr(environment, "now_ms", lambda: NOW)
    monkeypatch.setattr(environment, "user_name", lambda: "ann")
    return fake


def test_reserve_sends_what_was_typed_in_utc(tgpu, service):
    outcome = tgpu(
        *("reserve", "--gpus", "4", "--at", "+2h", "--for", "1h30m", "--type", "A100"),
        *("--tenant", "vision", "--unused", "5m", "--node", "local", "--id", "demo"),
    )
    assert outcome.code == 0, outcome.err
    assert service.requests == [("POST", "/reservations")]
    assert service.bodies == [
        {
            "id": "demo",
            "tenant_id": "vision",
            "user": "ann",
            "gpus": 4,
            "minutes": 90.0,
            "starts_at": iso(NOW + 2 * HOUR),
            "gpu_type": "A100",
            "node": "local",
            "unused_minutes": 5.0,
        }
    ]


def test_without_a_time_the_service_decides_what_now_is(tgpu, service):
    assert tgpu("reserve", "--gpus", "1", "--for", "1h", "--unused", "never").code == 0
    assert "starts_at" not in service.bodies[0]
    assert service.bodies[0]["unused_minutes"] == 0


def test_reserve_shows_gpus_time_and_zone_and_what_to_do_next(tgpu):
    outcome = tgpu("reserve", "--gpus", "4", "--at", "+1h", "--for", "2h")
    when = f"{span_text(NOW + HOUR, NOW + 3 * HOUR, NOW)} {zone_text(NOW)}"
    assert outcome.out == f"r-1: 4 A100 (0-2,6) of local, {when}\n"
    assert "tgpu submit --reservation r-1 --gpus 4" in outcome.err
    assert "released if no job has run or waits in it by" in outcome.err


def test_reserve_as_json_is_what_the_service_said(tgpu):
    outcome = tgpu("reserve", "--gpus", "4", "--for", "2h", "--json")
    assert json.loads(outcome.out) == RESERVATION


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--for", "2"], "--for: '2' has no unit"),
        (["--for", "2h", "--at", "noon"], "--at: 'noon' is not a time"),
        (["--for", "2h", "--unused", "soon"], "--unused: 'soon' is not a span of time"),
    ],
)
def test_what_cannot_be_read_is_bad_input_that_names_the_option(tgpu, service, options, complaint):
    outcome = tgpu("reserve", "--gpus", "1", *options)
    assert (outcome.code, service.requests) == (2, [])
    assert complaint in outcome.err


def test_a_conflict_says_when_it_would_be_possible_in_local_time(tgpu, service):
    service.taken = {"free_at": iso(NOW + HOUR)}
    outcome = tgpu("reserve", "--gpus", "4", "--for", "2h")
    local = datetime.fromtimestamp((NOW + HOUR) / 1000, UTC).astimezone()
    assert (outcome.code, outcome.out) == (5, "")
    assert f'it would be possible with: --at "{local:%Y-%m-%d %H:%M:%S}"' in outcome.err


def test_the_list_shows_when_what_and_whose(tgpu, service):
    outcome = tgpu("reservations", "--tenant", "vision")
    _, row = outcome.out.splitlines()
    when = span_text(NOW + HOUR, NOW + 3 * HOUR, NOW)
    assert " ".join(row.split()) == f"r-1 {when} 4 A100 (0-2,6) local vision ann waiting 7"
    assert service.requests == [("GET", "/reservations?tenant_id=vision")]
    assert zone_text(NOW) in outcome.err


def test_the_list_shows_what_is_wrong(tgpu, service):
    service.made["problem"] = "node local is gone"
    assert "node local is gone" in tgpu("reservations").out


def test_an_empty_list_says_so(tgpu, service):
    service.made = {}
    outcome = tgpu("reservations")
    assert (outcome.code, outcome.out) == (0, "")
    assert "nothing is reserved" in outcome.err
    assert json.loads(tgpu("reservations", "--json").out) == {"reservations": []}


def test_unreserve_gives_it_back(tgpu, service):
    assert tgpu("unreserve", "r-1").out == "reservation r-1 is cancelled\n"
    assert service.requests == [("DELETE", "/reservations/r-1")]
    assert json.loads(tgpu("unreserve", "r-1", "--json").out)["id"] == "r-1"


@pytest.mark.parametrize(
    ("owner", "words"),
    [("vision", " by vision (r-1), and 1 more"), (None, ", and 1 more")],
    ids=["to those who may see whose it is", "to all others"],
)
def test_gpus_are_marked_as_reserved(tgpu, service, owner, words):
    mark = GpuReservationModel(
        id=owner and "r-1",
        tenant_id=owner,
        starts_at=iso(NOW + HOUR),
        ends_at=iso(NOW + 3 * HOUR),
    )
    service.gpus = some_gpus(a_gpu(reservations=[mark, mark]))
    when = span_text(NOW + HOUR, NOW + 3 * HOUR, NOW)
    assert f"reserved {when}{words}" in tgpu("gpus").out
