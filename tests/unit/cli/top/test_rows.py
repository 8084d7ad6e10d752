from dataclasses import replace
from typing import Any

import pytest

from tests.unit.cli.builders import (
    NOW_MS,
    a_gpu,
    a_job,
    a_reason,
    a_running_job,
    some_gpus,
)
from tests.unit.cli.screen_service import a_status
from tgpu.cli.top.rows import below, gpu_cells, log_tail, summary, use_bar
from tgpu.cli.top.source import ScreenReading
from tgpu.wire.v1 import WhyAnswer


@pytest.mark.parametrize(
    ("percent", "bar"),
    [(None, ""), (0, "░░░░░   0%"), (1, "█░░░░   1%"), (60, "███░░  60%"), (100, "█████ 100%")],
)
def test_use_is_a_bar_with_its_number(percent: int | None, bar: str) -> None:
    assert use_bar(percent) == bar


@pytest.mark.parametrize(("celsius", "style"), [(50, ""), (75, "yellow"), (90, "red")])
def test_heat_has_a_colour(celsius: int, style: str) -> None:
    assert str(gpu_cells(a_gpu(temperature_c=celsius), "0")[5].style) == style


def test_a_progress_bar_shows_only_how_it_is_now() -> None:
    assert log_tail("epoch 1\n 10%\r 20%\r 30%\r\n", 5) == "epoch 1\n 30%"


def test_control_characters_of_a_log_cannot_repaint_the_screen() -> None:
    assert "\x1b" not in log_tail("\x1b[31mred\x1b[0m\n", 5)


def test_the_log_shows_its_last_lines() -> None:
    assert log_tail("a\nb\nc\n", 2) == "b\nc"


def a_look(**changes: Any) -> ScreenReading:
    return replace(ScreenReading(a_status(), some_gpus(a_gpu()), (), (), None), **changes)


def test_of_a_running_job_its_log_is_below() -> None:
    assert below(a_look(log="x\n"), a_running_job("1"), NOW_MS, (80, 3)) == "x"


def test_of_a_waiting_job_the_reason_and_what_to_do_are_below_in_however_few_lines() -> None:
    blockers = [
        {"job_id": str(number), "tenant_id": "t", "user": "ada", "gpu_count": 1}
        | {"node": "local", "gpus": [number], "ends_by": None}
        for number in range(9)
    ]
    why = WhyAnswer.model_validate(
        {
            "job_id": "12",
            "state": "pending",
            "reason": a_reason("needs 2 GPUs", remedy="tgpu gpus").model_dump(),
            "blockers": blockers,
            "blocker_count": 9,
        }
    )
    for height in (2, 4, 9, 40):
        lines = below(a_look(why=why), a_job("12"), NOW_MS, (80, height)).splitlines()
        assert len(lines) <= height
        assert "needs 2 GPUs" in lines[0]
        assert lines[-1] == "next: tgpu gpus"
    assert any("job 8" in line for line in lines)


def test_what_was_told_of_another_job_is_not_shown() -> None:
    assert below(a_look(log="x\n"), a_job("12"), NOW_MS, (80, 4)) == ""
    assert below(a_look(log="x\n"), None, NOW_MS, (80, 4)) == ""


def test_the_summary_fits_eighty_columns_with_ten_thousand_jobs() -> None:
    status = a_status(total_gpus=64, available_gpus=12.5, running_jobs=51, pending_jobs=10_000)
    gpus = some_gpus(*(a_gpu(index) for index in range(64)), simulated=True)
    line = summary(ScreenReading(status, gpus, (), (), 1), 99)
    assert "10,000 waiting (page 100)" in line
    assert len(line) <= 80
