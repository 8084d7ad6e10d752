"""A job as the command that would submit it. That it makes the same job: tests/unit/cli."""

import pytest

from tests.builders import a_job
from tgpu.api.translate.resubmit import resubmit_command, span_text
from tgpu.core.model.job import Detail
from tgpu.text.sizes import exact_size_text

DETAIL = Detail(name="my run", argv=("python", "train.py", "--text", "a b"), cwd="/home/ada")


def test_the_new_job_is_there_before_the_old_one_goes() -> None:
    command = resubmit_command("12", a_job(gpus=2, gpu_type="A100"), DETAIL, {"SEED": "1"}, 500)
    assert command == (
        "tgpu submit --gpus 2 --type A100 --name 'my run' --cwd /home/ada --env SEED=1 "
        "-- python train.py --text 'a b' && tgpu cancel 12"
    )


def test_a_priority_is_named_where_it_is_not_the_usual_one() -> None:
    assert "--priority 900 " in resubmit_command("12", a_job(priority=900), DETAIL, {}, 500)


def test_a_lease_has_no_command() -> None:
    command = resubmit_command("12", a_job(lease=True), Detail(), {}, 500)
    assert command == "tgpu submit --gpus 1 --lease && tgpu cancel 12"


@pytest.mark.parametrize(
    ("ms", "text"), [(5_400_000, "1h30m"), (86_461_000, "1d1m1s"), (400, "1s"), (720_000, "12m")]
)
def test_spans_are_exact(ms: int, text: str) -> None:
    assert span_text(ms) == text


@pytest.mark.parametrize(("mebibytes", "text"), [(40_960, "40G"), (500, "500M"), (1500, "1500M")])
def test_sizes_are_exact(mebibytes: int, text: str) -> None:
    assert exact_size_text(mebibytes) == text
