from typing import Any

import pytest

from tests.unit.cli.builders import NOW_MS, a_reason
from tgpu.cli.render.why import next_line, why_lines
from tgpu.wire.estimates_v1 import EstimateModel
from tgpu.wire.v1 import AheadModel, BlockerModel, ChangeModel, WhyAnswer


def text_of(answer: WhyAnswer, width: int | None = None) -> str:
    lines = why_lines(answer, NOW_MS, width)
    texts = ["".join(cell.text for cell in line).rstrip() for line in lines]
    return "\n".join([*texts, next_line(answer)]).rstrip()


def an_answer(message: str = "needs 4 A100; 3 free", **fields: Any) -> WhyAnswer:
    return WhyAnswer(job_id="12", state="pending", reason=a_reason(message), **fields)


def a_blocker(job_id: str | None = "3", **fields: Any) -> BlockerModel:
    given: dict[str, Any] = {
        "job_id": job_id,
        "tenant_id": "default" if job_id else None,
        "user": "ann" if job_id else None,
        "gpu_count": 2,
        "node": "n0",
        "gpus": [0, 1],
        "ends_by": None,
    }
    return BlockerModel(**{**given, **fields})


def test_why_gives_the_reason_and_the_command():
    assert text_of(an_answer()) == "job 12 waits: needs 4 A100; 3 free\n  next: tgpu gpus"


@pytest.mark.parametrize(
    ("state", "code", "message", "sentence"),
    [
        ("pending", "dependency", "waits for job 3 to end", "job 12 waits for job 3 to end"),
        ("running", "running", "runs on GPU 0", "job 12 runs on GPU 0"),
    ],
)
def test_why_reads_as_a_sentence_in_every_state(state, code, message, sentence):
    answer = WhyAnswer(job_id="12", state=state, reason=a_reason(message, code, remedy=""))
    assert text_of(answer) == sentence


def test_those_in_the_way_stand_in_columns():
    ends_by = "2023-11-14T22:15:20Z"
    blockers = [a_blocker(ends_by=ends_by), a_blocker("10", user="bob", gpus=[2], gpu_count=0.5)]
    lines = text_of(an_answer(blockers=blockers, blocker_count=3)).splitlines()
    assert lines[1].split() == ["BLOCKED", "BY", "USER", "GPUS", "ON", "ENDS", "BY"]
    assert lines[2].startswith("  job 3")
    assert lines[2].endswith("(in 2m00s)")
    assert " ".join(lines[3].split()) == "job 10 bob 0.5 GPU 2 of n0 no time limit"
    assert lines[2].index("GPU ") == lines[3].index("GPU 2")
    assert lines[4] == "  and 1 more"


def test_who_is_not_the_readers_to_see_has_no_name():
    assert "another's" in text_of(an_answer(blockers=[a_blocker(None)], blocker_count=1))


def test_those_before_it_and_the_instant_at_the_latest_are_told():
    ahead = AheadModel(count=7, first=["8", "9"])
    text = text_of(an_answer(ahead=ahead, starts_by="2023-11-14T22:15:20Z"))
    assert "  before it   7 jobs: 8, 9, …\n" in text
    assert "  starts      at the latest 2023-11-1" in text


def test_a_start_is_told_once():
    later = "2023-11-14T22:56:20Z"
    estimate = EstimateModel(
        p50=later, p90=later, as_of="2023-11-14T22:13:20Z", basis="simulated", latest=later
    )
    text = text_of(an_answer(starts_by=later, estimate=estimate))
    assert text.count("starts") == 1
    assert "  starts      at the latest in 43m00s (" in text


def test_the_command_that_helps_comes_instead_of_the_one_that_looks():
    change = ChangeModel(
        sentence="with 3 GPUs it would start now",
        command="tgpu submit --gpus 3 -- x && tgpu cancel 12",
        fields={"gpu_count": 3},
    )
    lines = text_of(an_answer(change=change)).splitlines()
    assert lines[-2] == "  what helps  with 3 GPUs it would start now"
    assert lines[-1] == "  next: tgpu submit --gpus 3 -- x && tgpu cancel 12"


def test_a_long_reason_is_wrapped_to_the_width_and_nothing_of_it_is_lost():
    message = "job 7 starts on these GPUs at noon; before that only short jobs may have them"
    text = text_of(an_answer(message), 40)
    lines = text.splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(" ".join(lines[:-1]).split()) == f"job 12 waits: {message}"


def test_a_gang_in_the_way_is_shown_with_all_its_workers() -> None:
    gang = a_blocker("3", node="b", gpus=[0, 1], gpu_names=["a/0", "a/1", "b/0", "b/1"])
    assert "GPU a/0-1,b/0-1" in text_of(an_answer(blockers=[gang], blocker_count=1))
