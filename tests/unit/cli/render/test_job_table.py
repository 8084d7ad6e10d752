import pytest
from rich.cells import cell_len

from tests.unit.cli.builders import NOW_MS, a_job, a_reason, a_running_job, an_ended_job
from tests.unit.cli.fake_service import FakeService, a_folded_job, an_element
from tgpu.cli.render.folded import id_text, outcome_text, row_key, row_state, row_title, span_text
from tgpu.cli.render.grid import lay_out
from tgpu.cli.render.job_table import COLUMNS, counts_text, in_order, job_grid


def text_of(lines) -> str:
    return "\n".join("".join(cell.text for cell in line).rstrip() for line in lines)


def header(jobs, width=None, **shape) -> list[str]:
    lines = text_of(lay_out(job_grid(jobs, NOW_MS, **shape), width))
    return lines.splitlines()[0].replace("TIME LEFT", "LEFT").replace("STARTS IN", "STARTS").split()


def test_jobs_are_in_the_order_people_look_for_them():
    jobs = [
        an_ended_job("1", ended_at="2023-11-14T22:13:05Z"),
        an_ended_job("2", ended_at="2023-11-14T22:13:15Z"),
        a_job("10"),
        a_job("9"),
        a_job("11", priority=900),
        a_running_job("3"),
    ]
    assert [job.job_id for job in in_order(jobs)] == ["3", "11", "9", "10", "2", "1"]


def test_the_list_says_why_a_job_waits():
    job = a_job(gpu_count=4, gpu_type="A100", reason=a_reason("needs 4 A100; 3 free"))
    lines = text_of(lay_out(job_grid([job], NOW_MS), None)).splitlines()
    assert lines[0].split() == ["JOB", "NAME", "STATE", "GPUS", "TIME", "REASON"]
    assert lines[1] == "12   python train.py  pending  4 A100  1m00s  needs 4 A100; 3 free"


def test_tenant_user_and_priority_are_shown_where_they_differ():
    jobs = [a_job("1"), a_job("2", tenant_id="vision", user="bob", priority=9)]
    header = text_of(lay_out(job_grid(jobs, NOW_MS), None)).splitlines()[0]
    assert {"TENANT", "USER", "PRIO"} <= set(header.split())


def test_a_name_cannot_repaint_the_terminal():
    line = text_of(lay_out(job_grid([a_job(name="\x1b[2Jboo")], NOW_MS), None))
    assert "\x1b" not in line


def test_a_gang_has_its_workers_and_nodes():
    places = [{"node": "a", "gpus": [0, 1]}, {"node": "b", "gpus": [2, 3]}]
    job = a_running_job(gpus=[0, 1], workers=2, gpus_per_worker=2.0, placements=places)
    (row,) = job_grid([job], NOW_MS, ("gpus", "on")).rows
    assert [cell.text for cell in row] == ["2x2", "a/0-1,b/2-3"]


def test_instants_beyond_every_calendar_have_a_place_in_the_order():
    job = a_job(submitted_at="99999999999999s")
    assert in_order([job]) == [job]


# -- arrays ------------------------------------------------------------------------------------


def test_an_array_is_one_row_with_its_progress():
    job = a_folded_job(completed=120, running=4, scheduled=1, failed=2, pending=73)
    line = text_of(lay_out(job_grid([job], NOW_MS), 80)).splitlines()[1]
    assert line.startswith("2.[1-200]  sweep ")
    assert line.endswith(" 120/200 done, 5 running, 2 failed")


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ({"completed": 1, "running": 1, "pending": 1}, "running"),
        ({"scheduled": 1, "pending": 1}, "running"),
        ({"completed": 1, "pending": 1}, "pending"),
        ({"completed": 1, "failed": 1, "cancelled": 1}, "failed"),
        ({"completed": 1, "cancelled": 1}, "cancelled"),
        ({"completed": 3}, "completed"),
    ],
)
def test_the_state_of_an_array_is_the_one_that_counts(states, state):
    assert row_state(a_folded_job(total=3, **states)) == state


def test_an_array_on_hold_is_held():
    job = a_folded_job(pending=200).model_copy(update={"held": True})
    assert row_state(job) == "held"


def test_an_array_that_waits_says_why_behind_its_progress():
    job = a_folded_job(pending=200).model_copy(update={"reason": a_reason("needs 4 A100; 3 free")})
    assert outcome_text(job, NOW_MS) == "0/200 done; needs 4 A100; 3 free"


def test_an_array_that_is_over_says_when_and_how_long_it_took():
    job = a_folded_job(completed=199, failed=1)
    assert outcome_text(job, NOW_MS) == "199/200 done, 1 failed, 10s ago"
    assert span_text(job, NOW_MS) == "20s"


def test_the_same_array_is_the_same_row_whoever_stands_for_it():
    one, later = a_folded_job(running=1), a_folded_job(completed=1, running=3)
    assert row_key(one) == row_key(later.model_copy(update={"job_id": "2.4"}))
    assert row_key(an_element("2", 3)) == ("2.3",)


def test_a_sweep_names_its_parameters_where_the_values_of_one_point_stand():
    sweep = a_folded_job(pending=200)
    command = ["python3", "train.py", "--lr", "0.1", "--bs=8", "0.12"]
    named = sweep.model_copy(update={"name": "", "command": command})
    assert row_title(named) == "python3 train.py --lr '{lr}' '--bs={bs}' 0.12"
    assert row_title(sweep) == "sweep"


# -- columns -----------------------------------------------------------------------------------


def test_parameters_are_shown_of_a_point_and_named_of_a_sweep():
    point = a_job(params={"lr": "0.1", "bs": "8"})
    grid = job_grid([point, a_folded_job(pending=200)], NOW_MS, ("params",))
    assert [row[0].text for row in grid.rows] == ["lr=0.1 bs=8", "lr, bs"]


def test_time_left_is_until_the_limit_of_what_runs():
    limited = a_running_job(max_runtime_minutes=2)
    grid = job_grid([limited, a_job(max_runtime_minutes=2)], NOW_MS, ("left",))
    assert [row[0].text for row in grid.rows] == ["1m30s", ""]
    assert "LEFT" in header([limited])
    assert "LEFT" not in header([a_running_job()])


def test_the_time_left_of_a_paused_job_goes_on():
    paused = a_running_job(max_runtime_minutes=2, paused_at="2023-11-14T22:13:00Z")
    grid = job_grid([paused], NOW_MS, ("state", "left"))
    assert [cell.text for cell in grid.rows[0]] == ["paused", "1m30s"]


def test_80_columns_have_what_matters():
    jobs = [
        a_running_job("1", name="n" * 70, max_runtime_minutes=9, tenant_id="vision", user="bob"),
        a_job("2", reason=a_reason("needs 4 A100; 3 free"), priority=9),
        a_folded_job("3", completed=120, running=5, failed=2, pending=73),
    ]
    assert header(jobs, 80) == ["JOB", "NAME", "STATE", "GPUS", "TIME", "REASON"]
    assert {"USER", "TENANT", "LEFT", "PARAMS"} <= set(header(jobs, 130))


@pytest.mark.parametrize("width", range(44, 200, 7))
def test_no_id_is_cut_and_no_line_is_too_long(width):
    jobs = [
        a_running_job("an-id-of-25-columns-length", name="日本語の名前" * 9, max_runtime_minutes=9),
        a_folded_job("3", total=10_000, completed=120, pending=9880),
        an_ended_job("7", tenant_id="vision", user="bob", priority=1),
    ]
    lines = text_of(lay_out(job_grid(jobs, NOW_MS), width)).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    for job, line in zip(jobs, lines[1:], strict=True):
        assert line.startswith(id_text(job))


def test_columns_that_were_asked_for_stay():
    job = a_job(name="n" * 90)
    assert header([job], 40, columns=("user", "job", "left")) == ["USER", "JOB", "LEFT"]


def test_a_wide_list_has_all_columns_with_something_in_them():
    assert set(header([a_running_job()], wide=True)) == {
        *("JOB", "NAME", "STATE", "GPUS", "ON", "TENANT", "USER", "QUEUE", "PRIO"),
        *("SUBMITTED", "TIME", "REASON"),
    }
    assert set(COLUMNS) >= {"job", "params", "tenant", "user", "left"}


def test_the_counts_are_one_sentence():
    service = FakeService()
    service.add(a_running_job("1"), a_job("2"), a_job("3"), an_ended_job("4"))
    text = counts_text(service.status())
    assert text == "1 running, 2 waiting, 1 over; 5 of 8 GPUs in use"
