"""What people are told when something is wrong: our sentences, with the value and what to do."""

import pytest

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
        ("nosuch", "there is no command 'nosuch'"),
        ("lsit", "there is no command 'lsit'; did you mean list?"),
        ("list --limt 3", "there is no option --limt; did you mean --limit?"),
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
        ("a.yaml", "api: a: b", "line 1: is not YAML: there is a colon too much"),
        ("a.json", '{"api": ', "line 1: is not JSON: a value is missing"),
        ("a.json", '{"api": 1 "x"}', "is not JSON: a comma or a closing bracket is missing"),
        ("a.toml", "a = =", "line 1: is not TOML: a value or a name is not written as it must be"),
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
