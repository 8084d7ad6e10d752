"""tgpu config: what holds and where it came from, and what is wrong with a file."""

import json

import pytest

from tgpu.settings import all_keys


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path):
    for key in all_keys():
        for variable in key.variables:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="tgpu.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write_file


def rows(out: str) -> dict[str, list[str]]:
    found = [line.split() for line in out.splitlines()]
    return {words[0]: words[1:] for words in found[1:]}


def test_show_has_every_setting_and_its_source(tgpu, write, monkeypatch):
    monkeypatch.setenv("GPU_SCHEDULER_ENGINE_KIND", "none")
    file = write("scheduler:\n  policy: fifo\n")
    outcome = tgpu("config", "show", "--config", file, "--port", "81")
    assert outcome.code == 0
    shown = rows(outcome.out)
    assert list(shown) == [key.name for key in all_keys()]
    assert shown["scheduler.policy"] == ["fifo", f"{file},", "line", "2"]
    assert shown["engine.kind"] == ["none", "GPU_SCHEDULER_ENGINE_KIND"]
    assert shown["api.http_port"] == ["81", "--port"]
    assert shown["scheduler.clock"] == ["auto", "default"]


def test_show_as_json_has_values_and_sources(tgpu, write):
    file = write("files: {state_file: s.json}\ndatabase: {host: db, password: hunter2}\n")
    outcome = tgpu("config", "show", "-c", file, "--json")
    assert "hunter2" not in outcome.out
    found = json.loads(outcome.out)
    by_key = {setting["key"]: setting for setting in found["settings"]}
    assert by_key["database.password"]["value"] == "********"
    assert by_key["database.host"] == {
        "key": "database.host",
        "value": "db",
        "source": f"{file}, line 2",
    }
    assert found["without_effect"] == [
        {
            "key": "files.state_file",
            "value": "s.json",
            "source": f"{file}, line 1",
            "note": "accepted, has no effect in this version",
        }
    ]


def test_show_names_what_has_no_effect_apart_from_the_answer(tgpu, write):
    outcome = tgpu("config", "show", "-c", write("files: {state_file: s.json}"))
    assert "files.state_file: accepted, has no effect in this version" in outcome.err
    assert "files.state_file" not in outcome.out


def test_show_prints_no_secret(tgpu, write):
    text = "database: {url: 'postgresql://u:hunter2@db/x'}\nquota: {slurm_auth_token: hunter2}\n"
    outcome = tgpu("config", "show", "-c", write(text))
    assert "hunter2" not in outcome.out + outcome.err
    assert "postgresql://u:********@db/x" in outcome.out


def test_a_right_file_is_all_right(tgpu, write):
    file = write("api: {http_port: 8081}")
    outcome = tgpu("config", "check", file)
    assert (outcome.code, outcome.out, outcome.err) == (0, f"{file}: all right\n", "")
    assert json.loads(tgpu("config", "check", file, "--json").out) == {
        "file": file,
        "valid": True,
        "without_effect": [],
    }


def test_check_looks_at_the_file_alone(tgpu, write, monkeypatch):
    monkeypatch.setenv("GPU_SCHEDULER_API_HTTP_PORT", "nonsense")
    assert tgpu("config", "check", write("engine: {kind: none}")).code == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\n\napi:\n  http_prt: 5", "line 4: api.http_prt is not a setting; did you mean"),
        ("api: {http_port: 99999}", "line 1: api.http_port must be a whole number from 0 to"),
        ("scheduler: {policy: best}", "no scheduling policy 'best'; there are: priority"),
        ("api: [", "is not YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_and_the_remedy(tgpu, write, text, sentence):
    outcome = tgpu("config", "check", write(text))
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err


def test_a_wrong_file_as_json(tgpu, write):
    outcome = tgpu("config", "check", write("apis: {}"), "--json")
    assert outcome.code == 2
    assert "did you mean api?" in json.loads(outcome.out)["error"]["message"]


def test_a_file_that_is_not_there(tgpu, tmp_path):
    outcome = tgpu("config", "check", str(tmp_path / "none.yaml"))
    assert outcome.code == 2
    assert "there is no such file or folder" in outcome.err


@pytest.mark.parametrize("command", ["show", "check"])
def test_both_commands_have_help_with_examples(tgpu, command):
    out = tgpu("config", command, "--help").out
    assert f"tgpu config {command}" in out.partition("Examples")[2]
