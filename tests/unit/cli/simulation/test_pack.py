"""`tgpu sim pack`: how much of a cluster a list of requests fills."""

import json

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
PODS = HEADER + "".join(
    f"p{at},2000,100,{1 if at % 3 else 0},{500 if at % 3 else 0},\n" for at in range(30)
)


def some_pods(tmp_path, text=PODS, name="pods.csv"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_each_list_is_a_row(tgpu, tmp_path):
    one, other = some_pods(tmp_path), some_pods(tmp_path, name="other.csv")
    outcome = tgpu("sim", "pack", "--pods", one, "--pods", other, "--nodes", "2x4")
    assert outcome.code == 0, outcome.err
    head, *rows = outcome.out.splitlines()
    assert head.split()[:3] == ["REQUESTS", "IN", "USE"]
    assert [row.split()[:2] for row in rows] == [["pods.csv", "100.00"], ["other.csv", "100.00"]]


def test_json_has_every_seed(tgpu, tmp_path):
    outcome = tgpu(
        *("sim", "pack", "--pods", some_pods(tmp_path), "--nodes", "2x4"),
        *("--seeds", "7-8", "--demand", "50", "--json"),
    )
    found = json.loads(outcome.out)
    assert (found["nodes"], found["gpus"], found["demand_percent"]) == (2, 8, 50)
    (listed,) = found["lists"]
    assert listed["allocated_percent"] == 50.0
    assert [run["seed"] for run in listed["runs"]] == [7, 8]
    assert {run["dropped"] for run in listed["runs"]} == {0}


def test_bad_lines_are_named(tgpu, tmp_path):
    pods = some_pods(tmp_path, HEADER + "a,1,1,1,2000,\n")
    outcome = tgpu("sim", "pack", "--pods", pods, "--nodes", "2x4")
    assert outcome.code == 2
    assert "line 2, gpu_milli: 2000 thousandths of a GPU; it must be 1 to 1000" in outcome.err


def test_seeds_and_files_that_are_none_are_named(tgpu, tmp_path):
    pods = some_pods(tmp_path)
    for seeds in ("x", "44-42", "1-100000"):
        outcome = tgpu("sim", "pack", "--pods", pods, "--nodes", "2x4", "--seeds", seeds)
        assert outcome.code == 2
        assert f"--seeds: {seeds}" in outcome.err
    outcome = tgpu("sim", "pack", "--pods", "nowhere.csv", "--nodes", "2x4")
    assert "there is no file nowhere.csv" in outcome.err
    outcome = tgpu("sim", "pack", "--pods", pods, "--nodes", "2x0")
    assert outcome.code == 2
