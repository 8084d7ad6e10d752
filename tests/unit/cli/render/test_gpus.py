import pytest

from tests.unit.cli.builders import a_gpu, some_gpus
from tgpu.cli.render.gpus import (
    gpu_counts,
    gpu_grid,
    memory_bar,
    provider_line,
    status_facts,
)
from tgpu.cli.render.grid import lay_out
from tgpu.wire.v1 import ClusterStatus


def text_of(lines) -> str:
    return "\n".join("".join(cell.text for cell in line).rstrip() for line in lines)


def table(*gpus) -> str:
    return text_of(lay_out(gpu_grid(some_gpus(*gpus)), None))


@pytest.mark.parametrize(
    ("used", "total", "bar"),
    [
        (0, 81_920, "░░░░░░░░ 0M/80G"),
        (1, 81_920, "█░░░░░░░ 1M/80G"),
        (40_960, 81_920, "████░░░░ 40G/80G"),
        (90_000, 81_920, "████████ 87.9G/80G"),
        (None, 81_920, "80G"),
        (0, 0, "0M"),
    ],
)
def test_memory_is_a_bar_with_its_numbers(used, total, bar):
    assert memory_bar(used, total) == bar


def test_a_paused_gpu_says_why():
    assert "paused: fan is loud" in table(a_gpu(status="paused", paused="fan is loud"))


def test_a_gpu_used_from_outside_names_who():
    stranger = {"pid": 77, "user": "eve", "command": "python", "memory_mb": 2048, "job_id": None}
    ours = {"pid": 78, "user": "ada", "command": "python", "memory_mb": 10, "job_id": "12"}
    text = table(a_gpu(processes=[stranger, ours]))
    assert "used by other programs: eve pid 77 python 2G" in text
    assert "78" not in text


def test_a_process_from_outside_shows_for_how_long_it_runs():
    stranger = {"pid": 77, "user": "eve", "command": "python", "memory_mb": 2048, "job_id": None}
    text = table(a_gpu(status="foreign", processes=[stranger | {"age_seconds": 7200.0}]))
    assert "eve pid 77 python 2G for 2h" in text


def test_a_gpu_in_foreign_hands_says_so_where_nobody_may_be_named():
    text = table(a_gpu(status="foreign", foreign="used by other programs"))
    assert "used by other programs" in text


def test_a_slow_gpu_and_a_slice_say_so():
    text = table(a_gpu(slow="throttled: overheated", slice_of=3))
    assert "throttled: overheated; slice of GPU 3" in text


def test_a_shared_gpu_shows_how_much_is_taken():
    assert "shared 50%" in table(a_gpu(status="shared", allocated=0.5, jobs=["12"]))


def test_unknown_figures_leave_their_column_out():
    text = table(a_gpu(utilisation_percent=None, temperature_c=None))
    assert "USE" not in text
    assert "TEMP" not in text


def test_gpus_are_counted_by_type():
    assert gpu_counts(some_gpus(a_gpu(0), a_gpu(1), a_gpu(2, gpu_type="H100"))) == "2 A100, 1 H100"
    assert gpu_counts(some_gpus(a_gpu(), simulated=True)) == "1 simulated A100"
    assert gpu_counts(some_gpus()) == "no GPUs"


def test_the_source_of_the_figures_is_named():
    assert provider_line(some_gpus(a_gpu())) == "1 A100 on local, through nvml"
    assert provider_line(some_gpus(a_gpu(), simulated=True)) == "1 A100 on local, simulated"


def test_the_status_counts_jobs_in_words():
    status = ClusterStatus(
        total_nodes=1,
        online_nodes=1,
        total_gpus=4,
        available_gpus=2.5,
        total_jobs=3,
        running_jobs=1,
        pending_jobs=2,
        jobs_by_state={"pending": 2, "running": 1, "failed": 0},
        simulated=True,
        provider="simulated",
        problem=None,
        engine="local",
        store="SQLite",
        policy="priority",
        clock="auto",
        version="1.2",
        uptime_seconds=61,
        data_dir=None,
    )
    text = text_of(status_facts(status))
    assert "jobs       2 waiting, 1 running" in text
    assert "GPUs       2.5 of 4 free (simulated)" in text
    assert "up 1m01s" in text


def test_gpus_of_several_nodes_have_their_names() -> None:
    here, there = (a_gpu(1, node=node, gpu_name=f"{node}/1") for node in ("local", "b"))
    assert [line.split()[0] for line in table(here, there).splitlines()] == [
        "GPU",
        "local/1",
        "b/1",
    ]
    assert [line.split()[0] for line in table(there).splitlines()] == ["GPU", "1"]
    assert provider_line(some_gpus(here, there)) == "2 A100 on 2 nodes (local, b), through nvml"
