import pytest

from gpu_scheduler.cli.top.rows import below, gpu_cells, log_tail, summary, use_bar
from gpu_scheduler.cli.top.source import Look
from tests.unit.cli.builders import a_gpu, a_job, some_gpus
from tests.unit.cli.top.fake import a_status


@pytest.mark.parametrize(
    ("percent", "bar"),
    [(None, ""), (0, "░░░░░   0%"), (1, "█░░░░   1%"), (60, "███░░  60%"), (100, "█████ 100%")],
)
def test_use_is_a_bar_with_its_number(percent: int | None, bar: str) -> None:
    assert use_bar(percent) == bar


@pytest.mark.parametrize(("celsius", "style"), [(50, ""), (75, "yellow"), (90, "red")])
def test_heat_has_a_colour(celsius: int, style: str) -> None:
    assert str(gpu_cells(a_gpu(temperature_c=celsius))[5].style) == style


def test_a_progress_bar_shows_only_how_it_is_now() -> None:
    assert log_tail("epoch 1\n 10%\r 20%\r 30%\r\n", 5) == "epoch 1\n 30%"


def test_control_characters_of_a_log_cannot_repaint_the_screen() -> None:
    assert "\x1b" not in log_tail("\x1b[31mred\x1b[0m\n", 5)


def test_the_log_shows_its_last_lines() -> None:
    assert log_tail("a\nb\nc\n", 2) == "b\nc"


def test_a_job_without_a_reason_shows_its_log() -> None:
    assert below(a_job(), "x\n", 3) == "x"


def test_the_summary_fits_eighty_columns_with_ten_thousand_jobs() -> None:
    status = a_status(total_gpus=64, available_gpus=12.5, running_jobs=51, pending_jobs=10_000)
    gpus = some_gpus(*(a_gpu(index) for index in range(64)), simulated=True)
    line = summary(Look(status, gpus, (), (), 1), 99)
    assert "10,000 waiting (page 100)" in line
    assert len(line) <= 80
