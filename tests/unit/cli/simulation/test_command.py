"""`tgpu sim`: figures as a table, as JSON and as a page; bad input is named."""

import json
from importlib.metadata import EntryPoint

import pytest

from tgpu import predictors
from tgpu.app.scheduling import recorded_values
from tgpu.settings import Settings

TRACE = "job_id,submit_s,duration_s,gpus\n1,0,60,8\n2,1,30,8\n3,2,10,1\n"
BAD = "job_id,submit_s,duration_s,gpus\n1,0,60,8\n2,-1,30,8\n3,2,10,99\n"


def a_trace(tmp_path, text=TRACE):
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    return str(path)


def test_a_run_prints_the_figures(tgpu, tmp_path):
    outcome = tgpu("sim", "run", "--trace", a_trace(tmp_path), "--cluster", "1x8")
    assert outcome.code == 0, outcome.err
    assert "jobs.csv on 1x8: 1 node, 8 GPUs" in outcome.out
    assert "wait, mean s" in outcome.out


def test_a_run_prints_json_with_the_setting_and_the_summary(tgpu, tmp_path):
    arguments = ("--policy", "fifo", "--backfill", "strict", "--placement", "consolidated")
    outcome = tgpu(
        "sim", "run", "--trace", a_trace(tmp_path), "--cluster", "1x8", *arguments, "--json"
    )
    found = json.loads(outcome.out)
    assert found["run"]["placement"] == "consolidated"
    assert found["summary"]["wait_s"]["mean"] == (0 + 59 + 88) / 3


def test_policies_that_rank_running_jobs_preempt_them(tgpu, tmp_path):
    config = a_config(
        tmp_path, "scheduler: {preempt_min_run_seconds: 0, preempt_spare_seconds: 0}\n"
    )
    given = ("--policy", "las", "--preemption", "--keep-work", "--backfill", "strict")
    arguments = (*given, "--config", config)
    outcome = tgpu(
        "sim", "run", "--trace", a_trace(tmp_path), "--cluster", "1x8", *arguments, "--json"
    )
    found = json.loads(outcome.out)
    assert found["run"]["backfill"] == "greedy"  # whatever was asked for
    assert found["summary"]["preemptions"] >= 2
    assert found["summary"]["unfinished"] == 0


def test_the_same_input_gives_the_same_result(tgpu):
    def once():
        arguments = ("--trace", "synthetic:500", "--cluster", "4x8", "--seed", "5", "--json")
        found = json.loads(tgpu("sim", "run", *arguments).out)
        del found["run"]["seconds"]
        return found

    assert once() == once()


def test_a_page_and_a_file_are_written(tgpu, tmp_path):
    page, out = tmp_path / "page.html", tmp_path / "out.json"
    outcome = tgpu(
        *("sim", "run", "--trace", a_trace(tmp_path), "--cluster", "1x8"),
        *("--html", str(page), "--out", str(out)),
    )
    assert outcome.code == 0
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(out.read_text())["summary"]["jobs"] == 3


def test_bad_lines_are_named_and_stop_the_run(tgpu, tmp_path):
    outcome = tgpu("sim", "run", "--trace", a_trace(tmp_path, BAD), "--cluster", "1x8")
    assert (outcome.code, outcome.out) == (2, "")
    assert "line 3, submit_s: -1 is negative" in outcome.err
    assert "line 4, gpus: 99 GPUs never fit" in outcome.err
    assert "--skip-bad" in outcome.err


def test_bad_lines_are_details_where_json_was_asked_for(tgpu, tmp_path):
    outcome = tgpu("sim", "run", "--trace", a_trace(tmp_path, BAD), "--cluster", "1x8", "--json")
    details = json.loads(outcome.out)["error"]["details"]
    assert [(one["line"], one["column"]) for one in details] == [(3, "submit_s"), (4, "gpus")]


def test_bad_lines_are_left_out_and_counted_where_asked(tgpu, tmp_path):
    outcome = tgpu(
        *("sim", "run", "--trace", a_trace(tmp_path, BAD), "--cluster", "1x8"),
        *("--skip-bad", "--json"),
    )
    found = json.loads(outcome.out)
    assert (found["summary"]["jobs"], found["run"]["skipped"]) == (1, 2)
    assert "left out 2 invalid lines" in outcome.err


def test_unknown_names_say_what_there_is(tgpu, tmp_path):
    trace = a_trace(tmp_path)
    policy = tgpu("sim", "run", "--trace", trace, "--cluster", "1x8", "--policy", "luck")
    assert (policy.code, "fairshare" in policy.err) == (2, True)
    nothing = tgpu("sim", "run", "--trace", "nowhere.csv", "--cluster", "1x8")
    assert (nothing.code, "no file nowhere.csv" in nothing.err) == (2, True)
    number = tgpu("sim", "run", "--trace", "synthetic:many", "--cluster", "1x8")
    assert (number.code, "synthetic:1000" in number.err) == (2, True)
    cluster = tgpu("sim", "run", "--trace", trace, "--cluster", "lots")
    assert (cluster.code, "100x8" in cluster.err) == (2, True)


def test_results_are_compared_side_by_side(tgpu, tmp_path):
    files = []
    for backfill in ("strict", "greedy"):
        out = tmp_path / f"{backfill}.json"
        arguments = ("--cluster", "1x8", "--policy", "fifo", "--backfill", backfill)
        tgpu("sim", "run", "--trace", a_trace(tmp_path), *arguments, "--out", str(out))
        files.append(str(out))
    outcome = tgpu("sim", "compare", *files)
    assert outcome.code == 0
    header = outcome.out.splitlines()[0].split()
    assert header == ["strict", "greedy"]
    found = json.loads(tgpu("sim", "compare", *files, "--json").out)
    assert [one["run"]["backfill"] for one in found["runs"]] == ["strict", "greedy"]


def test_what_is_no_result_cannot_be_compared(tgpu, tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    outcome = tgpu("sim", "compare", str(other))
    assert (outcome.code, "not a result of a simulation" in outcome.err) == (2, True)
    other.write_text("{")
    assert "is not JSON" in tgpu("sim", "compare", str(other)).err
    assert "cannot be read" in tgpu("sim", "compare", str(tmp_path / "gone.json")).err


def test_predictions_are_made_inside_the_simulation(tgpu, tmp_path):
    text = "job_id,submit_s,duration_s,gpus,user\n"
    text += "a0,0,10,8,ada\ng0,20,1000,8,grace\nblock,1100,500,8,eve\n"
    text += "g1,1200,1000,8,grace\na1,1300,10,8,ada\n"
    trace = a_trace(tmp_path, text)
    waits = {}
    for name in ("history", "none", "truth"):
        arguments = ("--policy", "shortest", "--predictor", name, "--json")
        outcome = tgpu("sim", "run", "--trace", trace, "--cluster", "1x8", *arguments)
        assert outcome.code == 0, outcome.err
        found = json.loads(outcome.out)
        assert found["run"]["predictor"] == name
        waits[name] = found["summary"]["wait_s"]["mean"]
    assert waits["history"] == waits["truth"] < waits["none"]


def test_past_jobs_teach_the_predictor(tgpu, tmp_path):
    past = tmp_path / "past.csv"
    past.write_text("user,submit_s,duration_s,gpu_num\nada,-9000,10,8\ngrace,-9000,1000,8\n")
    text = "job_id,submit_s,duration_s,gpus,user\n"
    text += "block,0,500,8,eve\ng1,100,1000,8,grace\na1,200,10,8,ada\n"
    arguments = ("--trace", a_trace(tmp_path, text), "--cluster", "1x8", "--policy", "shortest")
    blind = tgpu("sim", "run", *arguments, "--json")
    taught = tgpu("sim", "run", *arguments, "--history", str(past), "--json")
    assert json.loads(taught.out)["summary"]["wait_s"]["max"] == 410  # grace's
    assert json.loads(blind.out)["summary"]["wait_s"]["max"] == 1_300  # ada's


def test_an_unknown_predictor_or_a_bad_past_is_named(tgpu, tmp_path):
    arguments = ("--trace", a_trace(tmp_path), "--cluster", "1x8", "--policy", "shortest")
    outcome = tgpu("sim", "run", *arguments, "--predictor", "tarot")
    assert outcome.code == 2
    assert "no predictor 'tarot'; there are: history, limit, none" in outcome.err
    past = tmp_path / "past.csv"
    past.write_text("submit_s,duration_s,gpu_num\n0,-1,1\n")
    outcome = tgpu("sim", "run", *arguments, "--history", str(past))
    assert outcome.code == 2
    assert "past.csv: line 2, duration_s: -1 is negative" in outcome.err


class Broken:
    def learn(self, facts, duration_ms, at):
        pass

    def predict(self, facts, elapsed_ms=0, at=0):
        raise RuntimeError("the stars are hidden")


class Vague(Broken):
    def predict(self, facts, elapsed_ms=0, at=0):
        return "soon"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Broken", "--predictor: mine failed: RuntimeError: the stars are hidden"),
        ("Vague", "--predictor: mine answered 'soon'; it must be a Prediction or None"),
    ],
)
def test_an_installed_predictor_that_fails_is_named(tgpu, tmp_path, monkeypatch, name, sentence):
    point = EntryPoint("mine", f"{__name__}:{name}", predictors.GROUP)
    monkeypatch.setattr(predictors, "entry_points", lambda group: [point])
    arguments = ("--trace", a_trace(tmp_path), "--cluster", "1x8", "--policy", "shortest")
    outcome = tgpu("sim", "run", *arguments, "--predictor", "mine")
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err


@pytest.mark.parametrize("option", ["--html", "--out"])
def test_where_nothing_can_be_written_is_said_before_the_run(tgpu, tmp_path, option):
    arguments = ("sim", "run", "--trace", str(tmp_path / "none.csv"), "--cluster", "1x8")
    outcome = tgpu(*arguments, option, str(tmp_path / "gone" / "out"))
    assert outcome.code == 2
    assert f"{option}: there is no directory {tmp_path / 'gone'}" in outcome.err
    outcome = tgpu(*arguments, option, str(tmp_path))
    assert outcome.code == 2
    assert f"{option}: {tmp_path} is a directory" in outcome.err


def test_a_column_of_node_counts_needs_a_cluster_file(tgpu, tmp_path):
    arguments = ("--trace", a_trace(tmp_path), "--cluster", "1x8", "--nodes", "nodes_tight75")
    outcome = tgpu("sim", "run", *arguments)
    assert outcome.code == 2
    assert "--nodes names a column of a file" in outcome.err


@pytest.mark.parametrize("cluster", ["", "."])
def test_a_directory_is_no_cluster(tgpu, tmp_path, cluster):
    outcome = tgpu("sim", "run", "--trace", a_trace(tmp_path), "--cluster", cluster)
    assert outcome.code == 2
    assert "is neither a file nor a cluster such as" in outcome.err


def test_a_damaged_file_and_a_line_with_too_many_fields_are_named(tgpu, tmp_path):
    damaged = tmp_path / "cut.csv.gz"
    damaged.write_bytes(b"\x1f\x8bnot gzip")
    outcome = tgpu("sim", "run", "--trace", str(damaged), "--cluster", "1x8")
    assert outcome.code == 2
    assert "cut.csv.gz: line 1: the file is damaged" in outcome.err
    text = "job_id,submit_s,duration_s,gpus\n1,0,10,1,7\n"
    outcome = tgpu("sim", "run", "--trace", a_trace(tmp_path, text), "--cluster", "1x8")
    assert outcome.code == 2
    assert "line 2: has more fields than the header" in outcome.err


def a_config(tmp_path, text):
    path = tmp_path / "service.yaml"
    path.write_text(text)
    return str(path)


def test_without_a_file_the_defaults_are_those_of_the_service(tgpu, tmp_path):
    outcome = tgpu("sim", "run", "--trace", a_trace(tmp_path), "--cluster", "1x8", "--json")
    run = json.loads(outcome.out)["run"]
    usual = Settings()
    assert (run["config"], run["policy"]) == ("", usual.scheduler.policy)
    assert run["settings"] == json.loads(json.dumps(recorded_values(usual)))
    assert run["settings"]["scheduler.hold_after_seconds"] == 3600


def test_a_settings_file_is_the_service_that_is_simulated(tgpu, tmp_path):
    config = a_config(
        tmp_path, "scheduler: {policy: fifo, backfill: strict, max_running_jobs: 1}\n"
    )
    text = "job_id,submit_s,duration_s,gpus\n1,0,60,1\n2,1,30,1\n"
    arguments = ("--trace", a_trace(tmp_path, text), "--cluster", "1x8", "--config", config)
    found = json.loads(tgpu("sim", "run", *arguments, "--json").out)
    assert found["summary"]["wait_s"]["max"] == 59  # one at a time
    assert (found["run"]["config"], found["run"]["backfill"]) == ("service.yaml", "strict")
    assert found["run"]["settings"]["scheduler.max_running_jobs"] == 1
    assert "settings of service.yaml" in tgpu("sim", "run", *arguments).out


def test_options_change_what_the_file_says(tgpu, tmp_path):
    config = a_config(
        tmp_path, "scheduler: {policy: fifo, backfill: strict, placement: consolidated}\n"
    )
    arguments = ("--trace", a_trace(tmp_path), "--cluster", "1x8", "--config", config)
    changes = ("--backfill", "greedy", "--hold-after", "2h", "--no-preemption")
    run = json.loads(tgpu("sim", "run", *arguments, *changes, "--json").out)["run"]
    assert (run["policy"], run["backfill"], run["placement"]) == ("fifo", "greedy", "consolidated")
    assert run["settings"]["scheduler.hold_after_seconds"] == 7200


def test_quotas_of_a_settings_file_hold(tgpu, tmp_path):
    config = a_config(tmp_path, "tenants: [{tenant_id: red, max_gpus: 1}]\n")
    text = "job_id,submit_s,duration_s,gpus,tenant\n1,0,60,1,red\n2,1,30,1,red\n3,1,30,1,blue\n"
    arguments = ("--trace", a_trace(tmp_path, text), "--cluster", "1x8", "--config", config)
    found = json.loads(tgpu("sim", "run", *arguments, "--json").out)
    assert found["summary"]["wait_s"]["max"] == 59


def test_a_settings_file_that_cannot_be_is_named(tgpu, tmp_path):
    arguments = ("--trace", a_trace(tmp_path), "--cluster", "1x8", "--config")
    wrong = tgpu("sim", "run", *arguments, a_config(tmp_path, "scheduler: {backfill: often}\n"))
    assert (wrong.code, "scheduler.backfill" in wrong.err) == (2, True)
    policy = tgpu("sim", "run", *arguments, a_config(tmp_path, "scheduler: {policy: luck}\n"))
    assert policy.code == 2
    assert "scheduler.policy: no scheduling policy 'luck'" in policy.err


def test_results_that_differ_in_other_settings_say_so(tgpu, tmp_path):
    files = []
    for span in ("1h", "2h"):
        out = tmp_path / f"{span}.json"
        arguments = ("--cluster", "1x8", "--hold-after", span, "--out", str(out))
        tgpu("sim", "run", "--trace", a_trace(tmp_path), *arguments)
        files.append(str(out))
    lines = tgpu("sim", "compare", *files).out.splitlines()
    (told,) = [line.split() for line in lines if "scheduler." in line]
    assert told == ["scheduler.hold_after_seconds", "3600", "7200"]
