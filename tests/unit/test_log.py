"""Log lines: their form for people and machines, and the file they go to."""

import json
import logging

import pytest
import structlog

from tests.unit.telemetry.log_lines import the_log
from tgpu.log import request_id
from tgpu.settings.model import LoggingSettings


@pytest.fixture
def written(tmp_path):
    """Log with these settings by calling `write`; what is in the file then."""

    def log(write, **settings):
        path = tmp_path / "service.log"
        with the_log(LoggingSettings(file=path, **settings)):
            write()
        return path.read_text()

    return log


def say(message="job started", **fields):
    return lambda: structlog.get_logger("tgpu.test").info(message, **fields)


def test_a_json_line_begins_with_what_every_line_has(written):
    line = json.loads(written(say(job_id="7", gpu_ids=[0, 1]), format="json"))
    assert list(line) == ["timestamp", "level", "logger", "message", "job_id", "gpu_ids"]
    assert line["timestamp"].endswith("Z")
    assert (line["level"], line["logger"]) == ("INFO", "tgpu.test")
    assert (line["message"], line["job_id"], line["gpu_ids"]) == ("job started", "7", [0, 1])


def test_lines_of_libraries_have_the_same_form(written):
    def write():
        logging.getLogger("some.library").warning("%d of %s", 3, "them")

    line = json.loads(written(write, format="json"))
    assert (line["level"], line["logger"]) == ("WARNING", "some.library")
    assert line["message"] == "3 of them"


@pytest.mark.parametrize(
    "value",
    ["two\nlines", "\ud800", "%s %d", {"nested": [1]}, object(), float("nan"), b"\xff"],
    ids=["lines", "surrogate", "percent", "nested", "object", "nan", "bytes"],
)
def test_any_value_makes_one_line_of_valid_json(written, value):
    text = written(say("%s happened", value=value), format="json")
    assert text.count("\n") == 1
    assert json.loads(text)["message"] == "%s happened"


@pytest.mark.parametrize("format", ["json", "console"])
def test_a_traceback_is_in_the_log_and_shows_no_values(written, format):
    def write():
        password = "hunter2"
        try:
            raise ValueError("a bug")
        except ValueError:
            structlog.get_logger().exception("failed", length=len(password))

    text = written(write, format=format)
    assert "ValueError: a bug" in text
    assert "'hunter2'" not in text.replace('password = "hunter2"', "")
    if format == "json":
        assert "Traceback" in json.loads(text)["exception"]


def test_a_line_for_people_reads_from_left_to_right(written):
    text = written(say(job_id="7", cause="exit code 1"))
    assert "[info     ] job started" in text
    assert text.endswith("[tgpu.test] job_id=7 cause='exit code 1'\n")
    assert "\x1b" not in text


def test_a_value_cannot_forge_a_line_for_people(written):
    assert written(say(path="/x\n2026 [info] forged")).count("\n") == 1


def test_lines_below_the_level_are_not_written(written):
    def write():
        structlog.get_logger().info("chatter")
        structlog.get_logger().warning("trouble")

    text = written(write, level="WARNING")
    assert "trouble" in text
    assert "chatter" not in text


def test_lines_name_the_request_they_belong_to(written):
    def write():
        token = request_id.set("abc")
        say()()
        logging.getLogger("some.library").warning("meanwhile")
        request_id.reset(token)
        say("afterwards")()

    lines = [json.loads(line) for line in written(write, format="json").splitlines()]
    assert [line.get("request_id") for line in lines] == ["abc", "abc", None]


def test_a_full_file_is_set_aside_and_the_oldest_is_deleted(tmp_path):
    path = tmp_path / "service.log"
    with the_log(LoggingSettings(file=path, max_size_mb=1, backup_count=2)):
        for _ in range(5):
            say("x" * 700_000)()
    assert {file.name for file in tmp_path.iterdir()} == {
        "service.log",
        "service.log.1",
        "service.log.2",
    }
    assert all(file.stat().st_size < 2**21 for file in tmp_path.iterdir())


def test_the_files_are_their_owners_alone(tmp_path):
    with the_log(LoggingSettings(file=tmp_path / "service.log", max_size_mb=1)):
        for _ in range(3):
            say("x" * 700_000)()
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_a_file_that_others_may_read_stays_so(tmp_path):
    path = tmp_path / "service.log"
    path.touch()
    path.chmod(0o640)
    with the_log(LoggingSettings(file=path)):
        say()()
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_size_of_zero_sets_nothing_aside(tmp_path):
    path = tmp_path / "service.log"
    with the_log(LoggingSettings(file=path, max_size_mb=0)):
        for _ in range(3):
            say("x" * 700_000)()
    assert path.stat().st_size > 2_100_000


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path):
    settings = LoggingSettings(file=tmp_path / "missing" / "service.log")
    with pytest.raises(OSError, match="missing"), the_log(settings):
        pass


def test_without_a_file_the_log_goes_to_standard_error(capsys):
    with the_log(LoggingSettings(format="json")):
        say()()
    assert json.loads(capsys.readouterr().err)["message"] == "job started"
