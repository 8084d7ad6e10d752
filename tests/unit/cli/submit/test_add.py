"""tgpu add: the same kind of job that a line of the jobs file makes."""

import pytest


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "script.py"
    file.write_text("print(1)\n")
    return file


def test_the_documents_example_becomes_a_job(tgpu, service, script):
    arguments = "--llm qwen2.5-7b-inst --mode test"
    outcome = tgpu("add", str(script), "--args", arguments, "--priority", "1", "--gpus", "0,1")
    assert outcome.code == 0, outcome.err
    body = service.bodies[0]
    assert body["command"] == ["python3", str(script), *arguments.split()]
    assert body["priority"] == 750
    assert body["allowed_gpus"] == [0, 1]
    assert body["size_by"] == "model"
    assert body["name"] == "script.py"


@pytest.mark.parametrize(("given", "priority"), [("0", 1500), ("1", 750), ("2", 300)])
def test_priority_classes_are_priorities(tgpu, service, script, given, priority):
    tgpu("add", "script.py", "--priority", given)
    assert service.bodies[0]["priority"] == priority


def test_an_environment_and_past_runs_are_passed_on(tgpu, service, script):
    tgpu("add", "script.py", "--conda", "ml_env", "--auto")
    body = service.bodies[0]
    assert (body["conda"], body["size_by"]) == ("ml_env", "learned")
    assert body["command"] == ["python", str(script)]


def test_the_scripts_own_cuda_is_set_to_the_gpus_it_gets(tgpu, service, script):
    script.write_text('p.add_argument("--cuda", type=str)\n')
    tgpu("add", "script.py", "--args", "--cuda 0")
    assert service.bodies[0]["command"][2:] == ["--cuda", "{TGPU_GPUS}"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nope.py",), "SCRIPT: 'nope.py' cannot be read: there is no such file"),
        (("script.py", "--priority", "3"), "--priority: priority must be 0 (high)"),
        (("script.py", "--gpus", "a"), "--gpus: allowed GPUs must be like 0-3"),
        (("script.py", "--args", "'"), "--args: No closing quotation"),
    ],
)
def test_bad_input_names_the_option_and_sends_nothing(tgpu, service, script, arguments, words):
    outcome = tgpu("add", *arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert service.requests == []


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        ("allowed_gpus: there are 0, 1", "tgpu: --gpus: there are 0, 1"),
        ("gpu_count: at most 4 GPUs", "tgpu: GPUs by its model: at most 4 GPUs"),
        ("the queue is full", "tgpu: the queue is full"),
    ],
)
def test_a_refusal_speaks_of_the_options_of_add(tgpu, service, script, refused, told):
    service.refusal = (422, "VALIDATION_ERROR", refused)
    outcome = tgpu("add", "script.py", "--gpus", "9")
    assert outcome.code == 2
    assert outcome.err.startswith(told)


def test_a_scheduler_elsewhere_may_have_files_that_are_not_here(tgpu, service, script):
    tgpu("add", "/data/there.py", "--api-url", "http://elsewhere:8080")
    assert service.bodies[0]["command"] == ["python3", "/data/there.py"]


def test_submit_takes_an_environment_and_past_runs_too(tgpu, service):
    tgpu("submit", "--auto", "--venv", "v", "--", "x", "--llm", "m")
    assert (service.bodies[0]["venv"], service.bodies[0]["size_by"]) == ("v", "learned")
    assert "GPUs by its model" in tgpu("submit", "--auto", "--", "x").out


def test_a_given_number_and_auto_exclude_each_other(tgpu, service):
    outcome = tgpu("submit", "--auto", "--gpus", "1", "--", "x")
    assert outcome.code == 2
    assert "--auto and --gpus exclude each other" in outcome.err
    assert service.requests == []
