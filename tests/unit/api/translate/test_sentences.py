"""Every reason has a sentence and a next command."""

import pytest

from tgpu.api.translate.sentences import reason_model
from tgpu.core.model.reasons import ReasonCode, reason

FACTS: dict[str, int | str] = {
    "jobs": "a, b",
    "cause": "exit code 1",
    "until": 1_700_000_000_000,
    "running": 2,
    "limit": 4000,
    "resource": "gpus",
    "requested": 3000,
    "current": 2000,
    "user": "ann",
    "tenant": "vision",
    "gpu_type": "A100",
    "types": "A100, H100",
    "largest": 2000,
    "free": 1000,
    "total": 8000,
    "paused": 0,
    "pauses": "fan is loud",
    "hot": 0,
    "problem": 0,
    "queue": "night",
    "node": "n0",
    "empty": 1,
    "condition": "labels",
    "value": "zone=moon",
    "busy": 2,
    "provider": "slurm",
    "cohort": "lab",
    "lent": 1000,
    "nominal": 4000,
    "borrow": 2000,
    "pool": 8000,
    "window": "month",
    "spent": 7_200_000_000,
    "budget": 3_600_000_000,
    "action": "hold",
    "job": "17",
    "policy": "mine",
    "foreign": 0,
    "booking": "r-1",
    "at": 1_600_000_000_000,
    "workers": 1,
    "nodes": 1,
    "together": 1000,
    "by_type": "",
    **{f"{what}:{gpu_type}": 500 for what in ("free", "total") for gpu_type in ("A100", "H100")},
}


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_reason_has_a_sentence_and_a_next_command(code: ReasonCode) -> None:
    model = reason_model(reason(code, **FACTS), "7")
    assert model.code == str(code)
    assert model.message
    assert model.message[0].islower() or model.message[0].isdigit()
    assert model.remedy.startswith("tgpu ")
    assert model.facts == FACTS


def test_a_gang_that_is_too_large_is_measured_by_all_machines_together() -> None:
    found = reason(ReasonCode.TOO_LARGE, resource="workers", requested=9, largest=8)
    message = reason_model(found, "7").message
    assert message == "needs 9 workers; all machines together hold 8"


def test_paused_gpus_and_those_out_of_order_are_counted() -> None:
    facts = {**FACTS, "paused": 1, "problem": 2, "foreign": 3}
    message = reason_model(reason(ReasonCode.GPUS_BUSY, **facts), "7").message
    assert "needs 3 A100" in message
    assert "1 paused (fan is loud)" in message
    assert "2 faulty" in message
    assert "3 used by other programs" in message


@pytest.mark.parametrize(
    ("until", "shown"),
    [(1_700_000_000_000, "2023-11-14T22:13:20Z"), (2**53, "second 9007199254740")],
)
def test_an_instant_is_shown_also_where_no_calendar_has_it(until: int, shown: str) -> None:
    found = reason(ReasonCode.BACKING_OFF, until=until, cause="exit code 1")
    message = reason_model(found, "7").message
    assert message == f"tries again at {shown} after exit code 1"


@pytest.mark.parametrize(
    ("limit", "message", "remedy"),
    [
        (
            0,
            "the GPUs it could use are reserved until 1970-01-01T00:02:00Z (r-1)",
            "tgpu reservations",
        ),
        (
            60_000,
            "the GPUs it could use are reserved from 1970-01-01T00:01:00Z until "
            "1970-01-01T00:02:00Z (r-1); only jobs with a time limit of 1m or less may start there",
            "tgpu submit --time 1m",
        ),
    ],
)
def test_reserved_gpus_are_named_with_the_limit_that_would_do(
    limit: int, message: str, remedy: str
) -> None:
    facts: dict[str, int | str] = {"booking": "r-1", "at": 60_000, "until": 120_000}
    found = reason_model(reason(ReasonCode.BOOKED, limit=limit, node="n0", **facts), "7")
    assert (found.message, found.remedy) == (message, remedy)


def test_a_job_of_another_tenant_has_no_name_in_the_sentence() -> None:
    found = reason(ReasonCode.STRICT_LINE, job="")
    model = reason_model(found, "7")
    assert "another tenant's job is ahead of it" in model.message
    assert model.remedy == "tgpu show 7"


def test_who_may_not_pass_is_told_how_short_it_would_have_to_be() -> None:
    facts: dict[str, int | str] = {
        "job": "17",
        "at": 1_700_000_000_000,
        "limit": 720_000,
        "requested": 7_200_000,
    }
    message = reason_model(reason(ReasonCode.BEHIND_RESERVATION, **facts), "7").message
    assert message == (
        "job 17 starts on these GPUs at 2023-11-14T22:13:20Z at the latest; before that only "
        "jobs with a time limit of 12m00s or less may use them, and it may run for 2h00m"
    )


def test_what_is_reserved_of_others_has_no_name() -> None:
    facts: dict[str, int | str] = {
        "booking": "",
        "at": 0,
        "until": 1_700_000_000_000,
        "limit": 0,
        "node": "n0",
    }
    message = reason_model(reason(ReasonCode.BOOKED, **facts), "7").message
    assert message == "the GPUs it could use are reserved until 2023-11-14T22:13:20Z"


@pytest.mark.parametrize(("jobs", "who"), [("3", "job 3"), ("3, 4", "jobs 3, 4")])
def test_one_job_is_preempted_or_several(jobs: str, who: str) -> None:
    told = reason_model(reason(ReasonCode.PROMISED, jobs=jobs), "7")
    assert (told.message, told.remedy) == (f"waits for {who} to be preempted for it", "tgpu show 3")
