"""Job lists of every format are read, and what is wrong with them is named by line and column."""

import gzip

import pytest

from tgpu.simulate.problems import BadInput
from tgpu.simulate.traces import read_trace

TABLE = "job_id,submit_s,duration_s,gpus\n1,0,60,1\n2,1.5,30,0.5\n"


def a_file(tmp_path, text, name="jobs.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_table_is_read_by_its_column_names(tmp_path):
    rows = read_trace(a_file(tmp_path, TABLE))
    assert rows.format == "csv"
    assert [(row.job_id, row.submit_ms, row.run_ms, row.gpu_millis) for row in rows.jobs] == [
        ("1", 0, 60_000, 1000),
        ("2", 1_500, 30_000, 500),
    ]


def test_columns_may_stand_in_any_order_and_have_more_beside_them(tmp_path):
    text = (
        "gpus,colour,priority,job_id,duration_s,submit_s,partition,tenant,user,time_limit_s,cpus,"
        "memory_mib,workers,gpu_type,queue\n"
        "4,red,700,a,9,3,east,vision,ann,20,2.5,100,2,A100|H100,night\n"
    )
    (row,) = read_trace(a_file(tmp_path, text)).jobs
    assert (row.partition, row.tenant, row.user, row.queue) == ("east", "vision", "ann", "night")
    assert (row.priority, row.time_limit_ms, row.workers) == (700, 20_000, 2)
    assert (row.cpu_millis, row.mem_mib, row.gpu_types) == (2_500, 100, ("A100", "H100"))


def test_a_packed_file_is_unpacked(tmp_path):
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(gzip.compress(TABLE.encode()))
    assert len(read_trace(path).jobs) == 2


def test_the_philly_and_helios_columns_are_known(tmp_path):
    text = "job_id,vc,submit_s,gpu_num,duration_s,status,in_ref\n7,6214e9,27,8,100,pass,1\n"
    (row,) = read_trace(a_file(tmp_path, text)).jobs
    assert (row.partition, row.gpu_millis) == ("6214e9", 8_000)


def test_rows_that_published_figures_are_not_about_are_left_out(tmp_path):
    text = "job_id,submit_s,gpu_num,duration_s,in_ref\n1,-5,1,9,0\n2,0,1,9,1\n"
    rows = read_trace(a_file(tmp_path, text))
    assert [row.job_id for row in rows.jobs] == ["2"]
    assert (rows.left_out, rows.problems) == (1, [])


def test_json_lines_have_the_names_of_the_columns(tmp_path):
    text = '{"job_id": "a", "submit_s": 1, "duration_s": 2.5, "gpus": 2}\n\n{"job_id": 5}\n[1]\nx\n'
    rows = read_trace(a_file(tmp_path, text, "jobs.ndjson"))
    assert [(row.job_id, row.run_ms) for row in rows.jobs] == [("a", 2_500)]
    assert [(one.line, one.column, one.kind) for one in rows.problems] == [
        (3, "submit_s", "missing column"),
        (4, "", "no JSON"),
        (5, "", "no JSON"),
    ]


def test_the_standard_workload_format_is_read(tmp_path):
    text = (
        "; Version: 2.2\n"
        "1 10 -1 60 8 -1 -1 16 120 -1 1 3 4 -1 2 1 -1 -1\n"
        "2 11 -1 60 8 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
        "3 12 -1 -1 8 -1 -1 8 -1 -1 0 1 1 -1 1 1 -1 -1\n"
        "4 12\n"
    )
    rows = read_trace(a_file(tmp_path, text, "log.swf"))
    first, second = rows.jobs
    assert (first.gpu_millis, first.time_limit_ms, first.user, first.tenant) == (
        16_000,
        120_000,
        "3",
        "4",
    )
    assert (second.gpu_millis, second.time_limit_ms, second.partition) == (8_000, None, "")
    assert [(one.line, one.kind) for one in rows.problems] == [
        (4, "negative time"),
        (5, "missing column"),
    ]


def test_muri_traces_run_for_their_iterations(tmp_path):
    text = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\n0,8,2000,100,dqn,490\n"
    rows = read_trace(a_file(tmp_path, text))
    assert rows.format == "muri"
    assert (rows.jobs[0].submit_ms, rows.jobs[0].run_ms) == (2_000, 49_735)


def test_openb_pods_have_shares_and_models_and_those_without_gpus_are_left_out(tmp_path):
    text = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
        "p0,12000,16384,1,460,V100M16|V100M32,5,25\n"
        "p1,12000,16384,2,1000,,5,25\n"
        "p2,12000,16384,0,0,,5,25\n"
        "p3,12000,16384,1,1000,,25,5\n"
    )
    rows = read_trace(a_file(tmp_path, text))
    assert [(row.gpu_millis, row.run_ms, row.gpu_types) for row in rows.jobs] == [
        (460, 20_000, ("V100M16", "V100M32")),
        (2_000, 20_000, ()),
    ]
    assert rows.left_out == 1
    assert [one.column for one in rows.problems] == ["deletion_time"]


@pytest.mark.parametrize(
    ("line", "column", "kind"),
    [
        ("2,-3,4,1", "submit_s", "negative time"),
        ("2,3,-4,1", "duration_s", "negative time"),
        ("2,3,x,1", "duration_s", "no number"),
        ("2,nan,4,1", "submit_s", "no number"),
        ("2,3,9e12,1", "duration_s", "absurd time"),
        ("2,3,4,0", "gpus", "GPUs"),
        ("2,3,4,", "gpus", "no number"),
        (",3,4,1", "job_id", "no id"),
        ("1,3,4,1", "job_id", "duplicate id"),
    ],
)
def test_a_bad_value_is_named_by_line_and_column(tmp_path, line, column, kind):
    rows = read_trace(a_file(tmp_path, f"job_id,submit_s,duration_s,gpus\n1,0,60,1\n{line}\n"))
    assert [row.job_id for row in rows.jobs] == ["1"]
    (problem,) = rows.problems
    assert (problem.line, problem.column, problem.kind) == (3, column, kind)
    assert problem.sentence().startswith(f"line 3, {column}: ")


def test_missing_columns_are_named_with_those_there_are(tmp_path):
    with pytest.raises(BadInput, match=r"jobs.csv: line 1, duration_s: .* there are: job_id, subm"):
        read_trace(a_file(tmp_path, "job_id,submit_s,gpus\n1,0,1\n"))


def test_an_empty_file_and_an_unknown_format_are_refused(tmp_path):
    with pytest.raises(BadInput, match="no header"):
        read_trace(a_file(tmp_path, ""))
    with pytest.raises(ValueError, match="csv, ndjson, swf"):
        read_trace(a_file(tmp_path, TABLE), "parquet")


def test_only_the_first_problems_are_spelled_out(tmp_path):
    text = "job_id,submit_s,duration_s,gpus\n" + "".join(f"{n},-1,1,1\n" for n in range(50))
    error = BadInput("jobs.csv", read_trace(a_file(tmp_path, text)).problems)
    assert str(error).endswith("and 40 more")
    assert error.counts() == {"negative time": 50}
