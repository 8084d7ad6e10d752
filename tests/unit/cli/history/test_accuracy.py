"""tgpu accuracy and submit --when: what is asked, what is shown."""

import json
from typing import Any

import httpx
import pytest

from tgpu.cli import connect
from tgpu.client import Client

FIGURES: dict[str, Any] = {
    "jobs": 412,
    "before_p50": 0.5121,
    "before_p90": 0.9296,
    "median_error_seconds": 250.0,
    "median_wait_seconds": 1082.0,
    "median_window_seconds": 3900.0,
}
NOTHING = {**dict.fromkeys(FIGURES, 0), "before_p50": None, "before_p90": None}
ACCURACY: dict[str, Any] = {
    "days": 7.0,
    "since": "2023-11-07T22:12:20.000Z",
    "total": FIGURES,
    "queues": [
        {"tenant_id": "vision", "queue": "night", **FIGURES},
        {"tenant_id": "vision", "queue": "default", **FIGURES},
    ],
}
WHEN: dict[str, Any] = {
    "jobs": 1,
    "starts_now": True,
    "held": False,
    "estimate": {"p50": "10s", "p90": "10s", "as_of": "10s", "basis": "next_cycle"},
    "last": None,
    "sooner": [],
    "warnings": ["think twice"],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        found.append((request.method, request.url.raw_path.decode()))
        if "gpu_count" in request.content.decode():
            error = {"code": "VALIDATION_ERROR", "message": "gpu_count: too many", "details": []}
            return httpx.Response(422, json={"error": error})
        return httpx.Response(200, json=WHEN if request.method == "POST" else ACCURACY)

    client = Client("http://test", transport=httpx.MockTransport(answer))
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: client)
    return found


def test_every_queue_has_a_line_and_all_of_them_one_below(tgpu, asked):
    outcome = tgpu("accuracy", "--days", "7", "--tenant", "vision")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[1] == ["vision", "night", "412", "51.2%", "93.0%", "4m10s", "18m02s", "1h05m"]
    assert [line[0] for line in lines[2:]] == ["vision", "all"]
    assert outcome.err.startswith("of the last 7d00h: half of the jobs should start by the p50")
    assert asked == [("GET", "/api/v1/scheduler/accuracy?days=7.0&tenant_id=vision")]


def test_accuracy_without_jobs_says_so(tgpu, asked, monkeypatch):
    monkeypatch.setitem(ACCURACY, "total", NOTHING)
    monkeypatch.setitem(ACCURACY, "queues", [])
    outcome = tgpu("accuracy")
    assert outcome.out == ""
    assert outcome.err.startswith("no job that waited with an estimate started")


def test_accuracy_as_json_is_the_answer_of_the_api(tgpu, asked):
    assert json.loads(tgpu("accuracy", "--json").out) == ACCURACY


def test_when_asks_and_submits_nothing(tgpu, asked):
    outcome = tgpu("submit", "--when", "--", "x")
    assert (outcome.code, outcome.out) == (0, "it would start now\n")
    assert "note: think twice" in outcome.err
    assert asked == [("POST", "/api/v1/jobs/estimate")]


def test_when_as_json_is_the_answer_of_the_api(tgpu, asked):
    assert json.loads(tgpu("submit", "--when", "--json", "--", "x").out)["starts_now"] is True


def test_what_when_refuses_is_named_by_its_option(tgpu, asked):
    outcome = tgpu("submit", "--when", "--gpus", "99", "--", "x")
    assert outcome.code == 2
    assert outcome.err.startswith("tgpu: --gpus: too many")
