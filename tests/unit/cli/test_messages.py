"""What people are told when something is wrong: our sentences, with the value and what to do."""

import pytest

from tests.unit.cli.fake_tenants import FakeTenants
from tgpu.cli import connect
from tgpu.text.plurals import plural

# Words of libraries and of the system that no sentence of ours has.
FOREIGN = (
    "Input should be",
    "valid integer",
    "Invalid value for",
    "No such option",
    "No such command",
    "Missing option",
    "Missing argument",
    "requires an argument",
    "unexpected extra argument",
    "Errno",
    "No such file or directory",
    "ssl.c",
    "Expecting value",
    "Traceback",
)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "submit --priority high -- true",
            "--priority: must be a whole number, higher goes first: 300 is low, 500 normal, "
            "1500 high (got 'high')",
        ),
        ("submit --retries -1 -- true", "--retries: must be at least 0 (got -1)"),
        ("submit --retries x -- true", "--retries: must be a whole number (got 'x')"),
        ("list --limit 0", "--limit: must be at least 1 (got '0')"),
        ("list --limit x", "--limit: must be a whole number (got 'x')"),
        ("logs last --tail -1", "--tail: must be at least 0 (got '-1')"),
        ("serve --port abc", "--port: must be a whole number (got 'abc')"),
        (
            "import x --format nonsense",
            "--format: must be one of 'auto', 'commands', 'task-spooler'",
        ),
        (
            "submit --gpus nvml -- true",
            "--gpus: 'nvml' is not a number of GPUs: write one like 1, 2 or 0.5; which GPUs the "
            "service uses is said when it starts: tgpu start --gpus",
        ),
        ("nosuch", "there is no command 'nosuch'"),
        ("lsit", "there is no command 'lsit'; did you mean list?"),
        ("list --limt 3", "there is no option --limt; did you mean --limit?"),
        ("submit --begin 9 -- true", "there is no option --begin\n"),
        ("submit --image x -- true", "there is no option --image\n"),
        ("submit --workdir x -- true", "there is no option --workdir; did you mean --cwd?"),
        ("submit --mail x -- true", "there is no option --mail; did you mean --mail-"),
        ("tenants add x", "there is no command 'add'; did you mean create?"),
        ("keys remove x", "there is no command 'remove'; did you mean revoke?"),
        ("scancel 1", "there is no command 'scancel'; did you mean cancel?"),
        ("priority 5", "priority takes jobs and then a number, and there is only '5'"),
        ("accuracy --days 0", "--days: must be above 0 (got 0)"),
        (
            "submit --secret A=@/nowhere -- true",
            "--secret: A cannot be read from /nowhere: there is no such file or folder",
        ),
        ("list --limit", "--limit needs a value"),
        ("list --json=yes", "--json takes no value"),
        ("why", "JOB is missing"),
        ("sim run", "--trace is missing"),
        ("version and more", "'and more' is too much: nothing more is taken here"),
        ("import /nowhere", "FILE: '/nowhere' cannot be read: there is no such file or folder"),
        ("submit none.yaml", "none.yaml: cannot be read: there is no such file or folder"),
    ],
)
def test_a_bad_command_line_is_told_in_our_words(tgpu, service, line, sentence):
    outcome = tgpu(*line.split())
    assert outcome.code == 2
    assert sentence in outcome.err
    assert [words for words in FOREIGN if words in outcome.err] == []


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.yaml", "api: [", "line 1: is not YAML: a bracket or a quote is not closed"),
        ("a.yaml", "api: 'x", "is not YAML: a quote is not closed"),
        ("a.yaml", "api:\n\thost: x", "line 2: is not YAML: a tab indents it: use spaces"),
        ("a.yaml", "api: a: b", "line 1: is not YAML: there is an extra colon"),
        ("a.json", '{"api": ', "line 1: is not JSON: a value is missing"),
        ("a.json", '{"api": 1 "x"}', "is not JSON: a comma or a closing bracket is missing"),
        ("a.toml", "a = =", "line 1: is not TOML: a value or a name is not written correctly"),
        ("a.yaml", "api: {http_port: 99999999}", "must be a whole number from 0 to 65535"),
        ("a.yaml", "logging: {level: 7}", "logging.level must be "),
    ],
)
def test_a_bad_settings_file_is_told_in_our_words(tgpu, tmp_path, name, text, sentence):
    file = tmp_path / name
    file.write_text(text)
    outcome = tgpu("config", "show", "--config", str(file))
    assert outcome.code == 2
    assert sentence in outcome.err
    assert str(file) in outcome.err
    assert [words for words in FOREIGN if words in outcome.err] == []


def test_a_whole_command_in_quotes_is_told_how_to_be_written(tgpu, service):
    outcome = tgpu("submit", "--", "sh train.sh --x 1")
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        "tgpu: 'sh train.sh --x 1' is one word because of its quotes, and there is no program "
        "with that name",
        "  write: tgpu submit -- sh train.sh --x 1",
        "  or, for pipes and $: tgpu submit -- sh -c 'sh train.sh --x 1'",
    ]


def test_a_command_in_quotes_is_told_in_the_words_of_the_command_that_was_typed(tgpu, service):
    outcome = tgpu("run", "--", "sh train.sh --x 1")
    assert outcome.code == 2
    assert "write: tgpu run -- sh train.sh --x 1" in outcome.err


def test_options_in_the_head_of_a_script_are_told_as_those_of_the_command_line(
    tgpu, service, tmp_path
):
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n#TGPU --nosuch\ntrue\n")
    outcome = tgpu("submit", str(script))
    assert outcome.code == 2
    assert "line 2: there is no option --nosuch" in outcome.err
    script.write_text("#!/bin/sh\n#TGPU --workers x\ntrue\n")
    assert "line 2: --workers: must be a whole number (got 'x')" in tgpu("submit", str(script)).err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"x": 1}\n', "the field 'kind' is missing"),
        ('{"kind": 1}\n', "a text is expected, not a whole number at kind"),
        ("x", "something in it is not JSON (byte 0)"),
    ],
)
def test_a_file_that_is_no_journal_is_told_in_our_words(tgpu, tmp_path, text, sentence):
    file = tmp_path / "journal.ndjson"
    file.write_text(text)
    outcome = tgpu("replay", str(file), "--at", "1")
    assert outcome.code == 2
    assert f"line 1: is not a header of a journal, as `tgpu export` writes it: {sentence}" in (
        outcome.err
    )
    assert [words for words in (*FOREIGN, "malformed") if words in outcome.err] == []


def test_a_program_whose_name_has_spaces_is_no_mistake(tgpu, service, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sh my job").touch()
    assert tgpu("submit", "--", "sh my job").code == 0
    assert tgpu("submit", "--", "no-such-program x").code == 0  # the scheduler may have it


@pytest.mark.parametrize(
    ("count", "word", "text"),
    [
        (1, "job", "1 job"),
        (0, "job", "0 jobs"),
        (2, "job", "2 jobs"),
        ("1", "GPU", "1 GPU"),
        ("0.5", "GPU", "0.5 GPU"),
        ("1.5", "GPU", "1.5 GPUs"),
        ("1,000", "row", "1,000 rows"),
        (2, "entry", "2 entries"),
    ],
)
def test_one_is_not_many(count, word, text):
    assert plural(count, word) == text


def test_a_tenant_that_is_not_there_is_named_with_those_that_are(tgpu, monkeypatch):
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: FakeTenants().client())
    for flags in ((), ("--json",)):
        outcome = tgpu("list", "--tenant", "nobody", *flags)
        assert outcome.code == 2
        told = "--tenant: there is no tenant 'nobody'; there are: research"
        assert told in outcome.err + outcome.out
    assert "no such jobs" in tgpu("list", "--tenant", "research").err
