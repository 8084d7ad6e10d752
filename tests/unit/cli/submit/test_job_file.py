"""`tgpu submit job.yaml`."""

import io
import json

import pytest

from tgpu.cli.main import build_command
from tgpu.cli.option_words import ANSWERING, options_of
from tgpu.cli.submit.job_schema import job_file_schema
from tgpu.cli.submit.option_fields import DESCRIBING


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_file(text: str, name: str = "job.yaml") -> str:
        (tmp_path / name).write_text(text)
        return name

    return write_file


def test_the_options_of_submit_are_fields_of_a_job_file(tgpu, service, write):
    job = """\
name: bert
command: [python, train.py, --lr, 1e-3]
gpus: 2
type: [H100, A100]
time: 2h
mem: 64G
gpu-mem: 40G
env: {SEED: 1, DEBUG: "yes"}
label: {rack: r1}
retries: 2
requeue: true
after: [5, 6]
array: 1-10%2
queue: night
tenant: vision
"""
    outcome = tgpu("submit", write(job))
    assert outcome.code == 0, outcome.err
    (body,) = service.bodies
    assert body["command"] == ["python", "train.py", "--lr", "1e-3"]
    assert (body["name"], body["gpu_count"], body["gpu_types"]) == ("bert", 2, ["H100", "A100"])
    assert (body["max_runtime"], body["memory_mb"], body["gpu_memory_mb"]) == (7200, 65536, 81920)
    assert (body["environment"], body["labels"]) == ({"SEED": "1", "DEBUG": "yes"}, {"rack": "r1"})
    assert (body["max_retries"], body["requeue"]) == (2, True)
    assert [after["job_id"] for after in body["after"]] == ["5", "6"]
    assert body["array"] == {"indexes": "1-10", "max_running": 2}
    assert (body["queue"], body["tenant_id"]) == ("night", "vision")


def test_the_fields_of_the_api_are_fields_of_a_job_file(tgpu, service, write):
    job = """\
command: ["./step.sh"]
args: [a, b]
gpu_count: 0.5
memory_mb: 1024
max_runtime_minutes: 90
environment: {SEED: 7}
params: {lr: [0.1, 0.01], note: ["a,b"]}
array: {indexes: 1-4, max_running: 2}
preemptible: false
after: [{job_id: 3, kind: any}, 4]
working_dir: /data
"""
    outcome = tgpu("submit", write(job))
    assert outcome.code == 0, outcome.err
    (body,) = service.bodies
    assert (body["gpu_count"], body["memory_mb"], body["max_runtime_minutes"]) == (0.5, 1024, 90)
    assert (body["args"], body["environment"]) == (["a", "b"], {"SEED": "7"})
    assert body["params"] == {"lr": ["0.1", "0.01"], "note": ["a,b"]}
    assert body["array"] == {"indexes": "1-4", "max_running": 2}
    assert (body["preemptible"], body["working_dir"]) == (False, "/data")
    assert {(a["job_id"], a.get("kind", "ok")) for a in body["after"]} == {
        ("3", "any"),
        ("4", "ok"),
    }


@pytest.mark.parametrize("field", ["secret", "secrets"])
def test_a_file_names_secrets_and_never_has_their_values(tgpu, service, write, monkeypatch, field):
    monkeypatch.setenv("MY_WORD", "unremarkableword")
    outcome = tgpu("submit", write(f"command: [x]\n{field}: [MY_WORD]\n"))
    assert outcome.code == 0, outcome.err
    (body,) = service.bodies
    assert body["secrets"] == {"MY_WORD": "unremarkableword"}
    refused = tgpu("submit", write(f"command: [x]\n{field}: [MY_WORD=hunter2]\n"))
    assert "others can read the value here" in refused.err
    assert "hunter2" not in refused.err
    assert len(service.bodies) == 1


def test_what_is_typed_goes_before_the_file(tgpu, service, write):
    job = "command: [x]\ngpus: 8\nmax_runtime: 60\nenv: {A: 1, B: 2}\nparams: {lr: [1, 2]}\n"
    typed = ("--gpus", "1", "--time", "1h", "--env", "B=9", "--param", "lr=3")
    assert tgpu("submit", *typed, write(job)).code == 0
    assert tgpu("submit", write(job), *typed).code == 0
    first, second = service.bodies
    assert first == second
    assert (first.get("gpu_count", 1), first["max_runtime"]) == (1, 3600)
    assert (first["environment"], first["params"]) == ({"A": "1", "B": "9"}, {"lr": ["3"]})


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("python train.py --name 'a b'", ["python", "train.py", "--name", "a b"]),
        ("python train.py | tee log", ["bash", "-c", "python train.py | tee log", "bash"]),
        ("|\n  set -e\n  make\n", ["bash", "-c", "set -e\nmake\n", "bash"]),
        ("|\n  #!/bin/sh\n  make\n", ["/bin/sh", "-c", "#!/bin/sh\nmake\n", "bash"]),
    ],
)
def test_a_text_is_a_line_of_words_or_a_script(tgpu, service, write, text, command):
    assert tgpu("submit", write(f"command: {text}\n")).code == 0
    assert service.bodies[0]["command"] == command


@pytest.mark.parametrize(
    "text",
    [
        "command: [a]\n---\ncommand: [b]\n---\n",
        "jobs:\n- command: [a]\n- command: [b]\n",
        "- command: [a]\n- command: [b]\n",
        '{"jobs": [\n\t{"command": ["a"]},\n\t{"command": ["b"]}]}',
    ],
)
def test_a_file_may_have_several_jobs(tgpu, service, write, text):
    outcome = tgpu("submit", write(text))
    assert outcome.code == 0, outcome.err
    assert [body["command"] for body in service.bodies] == [["a"], ["b"]]
    assert outcome.out.count("queued") == 2


def test_jobs_share_what_an_anchor_has(tgpu, service, write):
    text = "- &base {command: [a], gpus: 2}\n- {<<: *base, gpus: 4}\n"
    assert tgpu("submit", write(text)).code == 0
    assert [body["gpu_count"] for body in service.bodies] == [2, 4]


def test_a_job_waits_for_one_above_it_by_its_name(tgpu, service, write):
    text = "- {name: prepare, command: [a]}\n- {command: [b], after: prepare}\n"
    assert tgpu("submit", write(text)).code == 0
    assert service.bodies[1]["after"][0]["job_id"] == "12"


def test_one_that_stands_further_down_cannot_be_waited_for(tgpu, service, write):
    text = "- {command: [b], after: prepare}\n- {name: prepare, command: [a]}\n"
    outcome = tgpu("submit", write(text))
    assert "job.yaml, line 1: after: 'prepare' comes later in the file" in outcome.err
    assert service.bodies == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("command: [x]\ngpu: 2\n", "line 2: 'gpu' is not a field of a job: did you mean gpus?"),
        (
            "command: [x]\ngpus: two\n",
            "line 2: gpus: 'two' is not a number of GPUs: write one like",
        ),
        (
            "command: [x]\ntime: 1:30\n",
            "line 2: time: '1:30' is not a span of time: write one like",
        ),
        ("command: [x]\nqueue: no\n", "line 2: queue: no means yes or no in YAML: put it into"),
        ("command: [x]\nhold: 3\n", "line 2: hold: '3' must be true or false"),
        ("command: [x]\nname:\n", "line 2: name: has no value"),
        ("command: [x]\nmemory_mb: 4G\n", "line 2: memory_mb: "),
        ("command: [x]\ngpus: 1\ngpus: 2\n", "line 3: 'gpus' is there twice"),
        ("gpus: 1\ngpu_count: 2\n", "line 2: gpu_count: says the same as gpus on line 1"),
        ("command: [x]\nuser: root\n", "line 2: 'user' is not a field of a job"),
        ("command: [x\n", "line 2: is not YAML"),
        ("gpus: 1\n", "line 1: there is no command to run"),
        ("just words\n", "line 1: a job is fields and their values"),
        ("jobs: [{command: [a]}]\ngpus: 2\n", "line 2: 'gpus' is outside of jobs"),
        ("- command: [x]\n- command: [y]\n  workers: many\n", "line 3: workers: "),
        ("a: &a [*a]\n", "contains itself"),
        ("# nothing\n", "it has no jobs"),
    ],
)
def test_a_mistake_names_file_line_field_and_value(tgpu, service, write, text, sentence):
    outcome = tgpu("submit", write(text))
    assert outcome.code == 2
    assert outcome.err.startswith("tgpu: job.yaml")
    assert sentence in outcome.err
    assert service.bodies == []


def test_a_refusal_of_the_service_names_the_line_too(tgpu, service, write):
    service.refusal = (422, "VALIDATION_ERROR", "gpu_count: at most 4 GPUs are here (got '99')")
    outcome = tgpu("submit", write("command: [x]\ngpus: 99\n"))
    assert outcome.err.startswith("tgpu: job.yaml, line 2: gpus: at most 4")
    outcome = tgpu("submit", "--gpus", "99", write("command: [x]\ngpus: 1\n"))
    assert "--gpus: at most 4" in outcome.err


def test_standard_input_is_read(tgpu, service, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"command: [x]\ngpus: 3\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    assert tgpu("submit", "-").code == 0
    assert service.bodies[0]["gpu_count"] == 3


def test_a_missing_file_is_said(tgpu, service, write):
    assert (
        "none.yaml: cannot be read: there is no such file or folder"
        in tgpu("submit", "none.yaml").err
    )


def test_behind_dashes_it_is_a_command(tgpu, service, write):
    assert tgpu("submit", "--", write("command: [x]\n")).code == 0
    assert service.bodies[0]["command"] == ["job.yaml"]


def test_every_option_that_describes_a_job_is_read():
    options = options_of(build_command().commands["submit"])  # type: ignore[arg-type]
    assert {option.name for option in options.values()} | {"command"} == DESCRIBING
    assert not DESCRIBING & ANSWERING


def test_the_schema_knows_every_field(tgpu):
    schema = json.loads(tgpu("job-schema").out)
    assert schema == json.loads(json.dumps(job_file_schema()))
    fields = schema["$defs"]["Job"]["properties"]
    assert {"gpus", "gpu_count", "command", "time", "params", "env", "max_runtime"} <= set(fields)
    assert "base_environment" not in fields
