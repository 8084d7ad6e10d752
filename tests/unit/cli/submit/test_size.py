"""tgpu size: what is asked, what is shown."""

import json
from typing import Any

import httpx
import pytest

from tgpu.cli import connect
from tgpu.client import Client

SIZE: dict[str, Any] = {
    "gpu_count": 0.49,
    "gpu_memory_mb": 0,
    "source": "estimate",
    "matched": "",
    "arithmetic": ["70 billion parameters x 4 bits", "40055 MiB on GPUs of 81920 MiB = 0.49 GPU"],
}
ANSWER: dict[str, Any] = {
    "model": "org/llama-70b-int4",
    "gpu_memory_each_mb": 81920,
    "size": SIZE,
    "learned": None,
    "runs": 0,
    "peak_memory_mb": None,
    "last_runs": [],
    "table": None,
}
LEARNED = {**SIZE, "gpu_count": 0.6, "source": "learned", "arithmetic": ["highest peak: 1 MiB"]}


@pytest.fixture
def answers(tgpu, monkeypatch: pytest.MonkeyPatch):
    given: dict[str, Any] = dict(ANSWER)
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url.params["model"]))
        return httpx.Response(200, json=given)

    client = Client("http://test", transport=httpx.MockTransport(answer))
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: client)
    return given, asked


def test_an_estimate_is_shown_with_its_arithmetic(tgpu, answers):
    outcome = tgpu("size", "org/llama-70b-int4")
    assert outcome.out.splitlines() == [
        "org/llama-70b-int4: 0.49 GPU (estimated from the name)",
        "  70 billion parameters x 4 bits",
        "  40055 MiB on GPUs of 81920 MiB = 0.49 GPU",
        "past runs: none known",
    ]
    assert answers[1] == ["org/llama-70b-int4"]


def test_past_runs_stand_beside_the_table(tgpu, answers):
    given, _ = answers
    table = {**SIZE, "source": "table", "gpu_memory_mb": 40960, "matched": "m"}
    given.update(size=table, learned=LEARNED, runs=3, table="/etc/sizes.json")
    outcome = tgpu("size", "m")
    assert "0.49 GPU, 40G of memory (by /etc/sizes.json)" in outcome.out
    assert "past runs: 0.6 GPU (3 runs)" in outcome.out
    assert "--auto" in outcome.err


def test_a_model_that_nobody_knows_gets_a_hint(tgpu, answers):
    answers[0].update(size={**SIZE, "source": "default"})
    assert "files.llm_config_file" in tgpu("size", "large").err


def test_json_is_the_answer_of_the_api(tgpu, answers):
    assert json.loads(tgpu("size", "m", "--json").out)["size"] == SIZE
