"""tgpu budget: what was spent, what is left, and when it runs out."""

import json

import httpx
import pytest

from tests.unit.cli.fake_service import FakeService
from tests.unit.cli.fake_tenants import Json
from tgpu.cli import connect

STATUS: Json = {
    "tenant_id": "research",
    "window": "month",
    "action": "hold",
    "budget_gpu_hours": 500.0,
    "spent_gpu_hours": 420.25,
    "left_gpu_hours": 79.75,
    "percent": 84.05,
    "budget_cost": 1000.0,
    "spent_cost": 840.5,
    "current_gpus": 4.0,
    "window_start": "2026-11-01T00:00:00.000Z",
    "window_end": "2026-12-01T00:00:00.000Z",
    "runs_out_at": "2026-11-17T03:30:00.000Z",
    "used_up": False,
    "holds": False,
}


class FakeBudgets(FakeService):
    budgets: tuple[Json, ...] = (STATUS,)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append((request.method, str(request.url.raw_path, "ascii")[7:]))
        return httpx.Response(200, json={"budgets": list(self.budgets)})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeBudgets:
    fake = FakeBudgets()
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: fake.client())
    return fake


def test_the_table_shows_what_is_left_and_when_it_runs_out(tgpu, service):
    header, row = tgpu("budget").out.splitlines()
    assert header.split()[:4] == ["TENANT", "WINDOW", "SPENT", "OF"]
    for words in ("research", "420.25", "500.00", "79.75", "84 %", "2026-11-17 03:30"):
        assert words in row
    assert service.requests == [("GET", "/budgets")]


def test_one_tenant_is_asked_for_by_name(tgpu, service):
    tgpu("budget", "research")
    assert service.requests == [("GET", "/budgets?tenant_id=research")]


def test_a_used_up_budget_is_said_to_be(tgpu, service):
    service.budgets = ({**STATUS, "used_up": True, "runs_out_at": None},)
    assert "used up" in tgpu("budget").out


def test_who_has_no_budget_is_told_how_to_get_one(tgpu, service):
    service.budgets = ()
    outcome = tgpu("budget", "research")
    assert "tgpu tenants change research --budget-hours 500" in outcome.err


def test_json_is_what_the_service_said(tgpu, service):
    assert json.loads(tgpu("budget", "--json").out) == {"budgets": [STATUS]}
