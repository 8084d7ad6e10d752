"""tgpu share: what is asked, what is shown."""

import json
from typing import Any

import httpx
import pytest

from tgpu.cli import connect
from tgpu.client import Client

SHARE: dict[str, Any] = {
    "weight": 2.0,
    "entitled": 0.6667,
    "used": 0.75,
    "used_gpu_hours": 12.5,
    "current_gpus": 4.0,
    "standing": 1.125,
    "is_even": False,
    "even_at": "2023-11-14T23:12:20.000Z",
}
ANN = {**SHARE, "user": "ann", "weight": 1.0, "standing": 1.5, "even_at": None, "limits": None}
BOB = {**SHARE, "user": "", "weight": 1.0, "standing": 0.5, "is_even": True, "limits": None}
ANSWER: dict[str, Any] = {
    "policy": "fairshare",
    "half_life_hours": 168.0,
    "at": "2023-11-14T22:12:20.000Z",
    "tenants": [{"tenant_id": "vision", "users": [ANN, BOB], **SHARE}],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        found.append(request.url.raw_path.decode())
        return httpx.Response(200, json=ANSWER)

    client = Client("http://test", transport=httpx.MockTransport(answer))
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: client)
    return found


def test_every_tenant_has_a_line(tgpu, asked):
    outcome = tgpu("share")
    head, row = outcome.out.splitlines()
    assert head.split() == [
        *("TENANT", "WEIGHT", "ENTITLED", "USED", "GPU-HOURS", "GPUS", "NOW", "STANDING", "EVEN")
    ]
    assert row.split() == [*("vision", "2", "66.7%", "75.0%", "12.50", "4", "1.12", "in", "1h00m")]
    assert outcome.err == "GPU time of 7d00h ago counts half\n"
    assert asked == ["/api/v1/share"]


def test_one_tenant_is_shown_with_its_users_in_the_order_of_service(tgpu, asked):
    lines = tgpu("share", "vision").out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["(nobody)", "ann"]
    assert lines[2].endswith("now")
    assert lines[3].endswith("not at this rate")
    assert asked == ["/api/v1/share?tenant_id=vision"]


def test_what_users_may_have_is_shown_beside_their_share(tgpu, asked, monkeypatch):
    limits = {
        "user": "ann",
        "max_gpus": 1.0,
        "max_concurrent_jobs": 2,
        "max_gpu_hours_per_day": 24.0,
        "by_name": False,
        "current_gpus": 1.0,
        "current_jobs": 1,
        "gpu_hours_today": 0.5,
    }
    monkeypatch.setitem(ANN, "limits", limits)
    lines = tgpu("share", "vision").out.splitlines()
    assert lines[0].endswith("MAY HAVE")
    assert lines[3].endswith("1 GPU and 2 jobs at once, 24 GPU-hours a day")


def test_another_policy_is_said_not_to_decide_by_it(tgpu, asked, monkeypatch):
    monkeypatch.setitem(ANSWER, "policy", "fifo")
    monkeypatch.setitem(ANSWER, "half_life_hours", 0.0)
    assert tgpu("share").err == (
        "only GPUs held now count; the policy is fifo, which does not use it\n"
    )


def test_json_is_what_the_service_said(tgpu, asked):
    assert json.loads(tgpu("share", "--json").out) == ANSWER
