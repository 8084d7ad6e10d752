"""One time zone in one answer: the reader's on the command line, UTC with a Z in JSON."""

import time
from collections.abc import Iterator

import pytest

from tests.unit.cli.builders import NOW_MS, a_job
from tgpu.api.translate.sentences import reason_model
from tgpu.cli.render.grid import lay_out
from tgpu.cli.render.job_table import job_grid
from tgpu.cli.render.jobs import job_facts
from tgpu.cli.render.why import why_lines
from tgpu.core.hardware.health import GpuHealth, problem_of
from tgpu.core.model.reasons import Reason, ReasonCode, reason
from tgpu.text.instants import in_local_time, local_text
from tgpu.wire.v1 import WhyAnswer

AT = 1_700_000_000_000  # 2023-11-14T22:13:20Z
IN_UTC, IN_NEW_YORK = "2023-11-14T22:13:20Z", "2023-11-14 17:13:20"


@pytest.fixture(autouse=True)
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


WITH_INSTANTS = [
    reason(ReasonCode.BACKING_OFF, until=AT, cause="exit code 1"),
    reason(
        ReasonCode.BUDGET, tenant="t", window="month", spent=9, budget=1, until=AT, action="hold"
    ),
    reason(ReasonCode.BOOKED, booking="r-1", at=AT, until=AT, limit=60_000, node="n0"),
    reason(ReasonCode.BOOKED, booking="r-1", at=AT, until=AT, limit=0, node="n0"),
    reason(ReasonCode.BOOKING_AHEAD, booking="r-1", at=AT),
    reason(ReasonCode.BEHIND_RESERVATION, job="7", at=AT, limit=60_000, requested=0),
]


@pytest.mark.parametrize("found", WITH_INSTANTS, ids=lambda found: found.code)
def test_a_reason_has_utc_on_the_wire_and_the_readers_time_on_the_terminal(found: Reason) -> None:
    model = reason_model(found, "12")
    assert IN_UTC in model.message
    job = a_job(reason=model)
    answer = WhyAnswer(job_id="12", state="pending", reason=model, blockers=[], blocker_count=0)
    shown = [lay_out(job_grid([job], NOW_MS), None), job_facts(job, NOW_MS)]
    for lines in [*shown, why_lines(answer, NOW_MS)]:
        text = "\n".join("".join(cell.text for cell in line) for line in lines)
        assert IN_NEW_YORK in text
        assert "UTC" not in text
        assert "Z " not in text


def test_a_gpu_on_probation_says_until_when_in_the_readers_time() -> None:
    health = GpuHealth(fault="Xid 79", probation=True, clean_since=AT - 60_000)
    problem = problem_of(health, 60_000)
    assert problem == f"on probation until {IN_UTC} after: Xid 79"
    assert in_local_time(problem) == f"on probation until {IN_NEW_YORK} after: Xid 79"


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (f"from {IN_UTC} to {IN_UTC}, then", f"from {IN_NEW_YORK} to {IN_NEW_YORK}, then"),
        ("tries again at 2023-11-14 22:13:20 UTC after", f"tries again at {IN_NEW_YORK} after"),
        ("(got '2023-11-14T22:13:20+00:00')", f"(got '{IN_NEW_YORK}')"),
        ("at 2023-11-14T22:13:20.123Z", f"at {IN_NEW_YORK}"),
        ("run-2023-11-14T22:13:20Z", "run-2023-11-14T22:13:20Z"),
        ("at 2023-99-14T22:13:20Z", "at 2023-99-14T22:13:20Z"),
        ("at second 9007199254740", "at second 9007199254740"),
        ("without any", "without any"),
    ],
)
def test_instants_in_sentences_are_shown_in_local_time(sentence: str, shown: str) -> None:
    assert in_local_time(sentence) == shown


def test_an_instant_of_the_api_is_shown_in_local_time() -> None:
    assert local_text("2023-11-14T22:13:20.000Z") == IN_NEW_YORK
    assert (local_text(""), local_text("9007199254740s")) == ("", "9007199254740s")
