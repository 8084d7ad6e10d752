"""Errors become sentences and exit codes, and nothing imports what it does not need."""

import json
import subprocess
import sys

import httpx
import pytest

from tgpu.cli.exit_codes import MEANINGS
from tgpu.cli.main import DAILY, build_command, main

COMMANDS = [
    *("submit", "serve", "start", "stop", "status", "list", "show", "logs", "wait", "cancel"),
    *("hold", "release", "rerun", "why", "watch", "gpus", "pause-gpu", "resume-gpu", "complete"),
    "adopt",
    *("add", "size", "jobs-file"),
    *("nodes", "agent", "gateway"),
    *("checkpoint", "preemptions", "receipt", "accuracy", "pause", "resume"),
    *("top", "metrics", "health", "drain"),
    "budget",
    "share",
    *("reserve", "reservations", "unreserve"),
    *("tenants", "queues", "quota", "config"),
    *("config-sample", "config-schema", "job-schema", "db", "doctor", "version"),
    *("keys", "audit", "whoami"),
    *("test", "service", "screens", "attach", "import"),
    *("priority", "edit", "run", "lease", "shell"),
    *("export", "replay", "whatif"),
    "predict",
    "sim",
    *("notices", "report"),
]


def test_tgpu_alone_prints_its_help(tgpu):
    outcome = tgpu()
    assert outcome.code == 0
    assert "submit" in outcome.out


def test_the_daily_commands_are_set_apart_from_the_rest(tgpu):
    first, *others = tgpu("--help").out.split("─ Common commands ─")[1].split("╰─")
    named = [line.split()[1] for line in first.splitlines() if line.startswith("│ ")]
    words = [word for word in named if word.isalpha()]
    assert [word for word in words if word in DAILY] == [name for name in DAILY if name in COMMANDS]
    assert not [word for word in words if word in COMMANDS and word not in DAILY]
    assert "Jobs" in others[0]


def test_every_command_there_should_be_is_there():
    shown = {name for name, command in build_command().commands.items() if not command.hidden}
    assert shown == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(tgpu, name):
    outcome = tgpu(name, "--help")
    assert outcome.code == 0
    assert "Examples" in outcome.out
    assert f"tgpu {name}" in outcome.out.partition("Examples")[2]


def test_every_command_that_answers_programs_takes_json():
    no_json = {"agent", "attach", "shell", "gateway", "serve", "watch", "top", "config-sample"}
    no_json |= {"config-schema", "job-schema"}  # print JSON anyway
    no_json.add("run")  # its output is the command's
    # Their subcommands do.
    no_json |= {"jobs-file", "db", "keys", "tenants", "queues", "quota", "config", "predict"}
    no_json |= {"sim", "service", "notices"}
    commands = build_command().commands
    without = {
        name
        for name in COMMANDS
        if "--json" not in {word for param in commands[name].params for word in param.opts}
    }
    assert without == no_json


def test_the_exit_codes_are_in_the_help(tgpu):
    shown = " ".join(tgpu("--help").out.split())
    for code, meaning in MEANINGS.items():
        assert f"{code.value} {meaning}" in shown


def test_an_unknown_command_is_bad_input_with_a_hint(tgpu):
    outcome = tgpu("sbmit")
    assert outcome.code == 2
    assert "submit" in outcome.err
    assert "tgpu --help" in outcome.err


def test_an_unknown_option_names_the_command_s_help(tgpu):
    outcome = tgpu("list", "--frobnicate")
    assert (outcome.code, outcome.out) == (2, "")
    assert "see: tgpu list --help" in outcome.err


def test_errors_are_json_on_standard_output_where_json_was_asked_for(tgpu):
    outcome = tgpu("show", "99", "--json")
    assert (outcome.code, outcome.err) == (4, "")
    assert json.loads(outcome.out)["error"]["code"] == "JOB_NOT_FOUND"


def test_usage_errors_are_json_too(tgpu):
    outcome = tgpu("list", "--json", "--frobnicate")
    assert json.loads(outcome.out)["error"]["code"] == "VALIDATION_ERROR"


def test_json_after_the_dashes_belongs_to_the_job(tgpu):
    outcome = tgpu("submit", "--gpus", "x", "--", "tool", "--json")
    assert outcome.out == ""


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (422, "VALIDATION_ERROR", 2),
        (422, "QUOTA_EXCEEDED", 2),
        (404, "JOB_NOT_FOUND", 4),
        (409, "CONFLICT", 5),
        (503, "UNAVAILABLE", 3),
        (500, "INTERNAL_ERROR", 1),
    ],
)
def test_every_refusal_is_a_sentence_and_an_exit_code(tgpu, service, status, code, expected):
    service.refusal = (status, code, "this is why")
    outcome = tgpu("show", "12")
    assert outcome.code == expected
    assert outcome.err.startswith("tgpu: this is why\n")


def test_no_service_says_how_to_start_one(tgpu, service):
    service.broken = httpx.ConnectError("[Errno 111] Connection refused")
    outcome = tgpu("list")
    assert outcome.code == 3
    assert "no scheduler is running for you" in outcome.err
    assert "tgpu start" in outcome.err


def test_no_service_at_a_chosen_address_says_to_check_it(tgpu, service):
    service.broken = httpx.ConnectError("[Errno 111] Connection refused")
    outcome = tgpu("list", "--api-url", "http://127.0.0.1:8080")
    assert outcome.code == 3
    assert "TGPU_URL" in outcome.err


def test_a_stranger_on_the_port_is_named_as_such(tgpu, service):
    service.answer = lambda request: httpx.Response(200, text="<html>hello</html>")
    outcome = tgpu("status")
    assert outcome.code == 3
    assert "does not use" in outcome.err


def test_a_bug_is_a_sentence_and_no_traceback(tgpu, service):
    service.broken = RuntimeError("boom")
    outcome = tgpu("list")
    assert outcome.code == 1
    assert "internal error: RuntimeError: boom" in outcome.err
    assert "Traceback" not in outcome.err


def test_an_interrupt_is_130(tgpu, service):
    service.broken = KeyboardInterrupt()
    assert tgpu("list").code == 130


@pytest.mark.parametrize(
    "arguments", [["version"], ["--help"], ["submit", "--help"], ["agent", "--help"]]
)
def test_help_and_version_import_no_network_and_no_server(arguments):
    code = (
        "import sys; from tgpu.cli.main import main; main(sys.argv[1:]);"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    modules = set(run.stderr.split())
    assert "tgpu.cli.main" in modules
    heavy = {"httpx", "fastapi", "grpc", "uvicorn", "yaml", "structlog", "asyncio", "textual"}
    assert not modules & {*heavy, "tgpu.settings", "tgpu.app"}


@pytest.mark.parametrize(
    "words",
    [
        ("--api-url", "http://127.0.0.1:1", "list"),
        ("list", "--api-url", "http://127.0.0.1:1"),
        ("--api-url", "http://127.0.0.1:9", "list", "--api-url", "http://127.0.0.1:1"),
        ("--api-url", "http://127.0.0.1:1", "keys", "list"),
    ],
)
def test_an_address_that_was_typed_goes_before_the_variable(monkeypatch, capsys, words):
    monkeypatch.setenv("TGPU_URL", "http://127.0.0.1:9")
    assert main(words) == 3
    said = capsys.readouterr().err
    assert "127.0.0.1:1" in said
    assert "127.0.0.1:9" not in said
