"""Every reason has a sentence and a next command."""

import pytest

from gpu_scheduler.api.sentences import reason_model
from gpu_scheduler.core.reasons import ReasonCode, reason

FACTS: dict[str, int | str] = {
    "jobs": "a, b",
    "cause": "exit code 1",
    "until": 1_700_000_000_000,
    "running": 2,
    "limit": 4000,
    "resource": "gpus",
    "requested": 3000,
    "current": 2000,
    "tenant": "vision",
    "gpu_type": "A100",
    "types": "A100, H100",
    "largest": 2000,
    "free": 1000,
    "total": 8000,
    "paused": 0,
    "hot": 0,
    "problem": 0,
    "queue": "night",
    "node": "n0",
    "empty": 1,
    "provider": "slurm",
}


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_reason_has_a_sentence_and_a_next_command(code: ReasonCode) -> None:
    model = reason_model(reason(code, **FACTS), "7")
    assert model.code == str(code)
    assert model.message
    assert model.message[0].islower() or model.message[0].isdigit()
    assert model.remedy.startswith("tgpu ")
    assert model.facts == FACTS


def test_paused_gpus_and_those_out_of_order_are_counted() -> None:
    facts = {**FACTS, "paused": 1, "problem": 2}
    message = reason_model(reason(ReasonCode.GPUS_BUSY, **facts), "7").message
    assert "needs 3 A100" in message
    assert "1 paused" in message
    assert "2 out of order" in message


@pytest.mark.parametrize(
    ("until", "shown"),
    [(1_700_000_000_000, "2023-11-14 22:13:20 UTC"), (2**53, "second 9007199254740")],
)
def test_an_instant_is_shown_also_where_no_calendar_has_it(until: int, shown: str) -> None:
    found = reason(ReasonCode.BACKING_OFF, until=until, cause="exit code 1")
    message = reason_model(found, "7").message
    assert message == f"tries again at {shown} after exit code 1"
