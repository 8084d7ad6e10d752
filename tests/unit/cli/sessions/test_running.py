"""`tgpu run`, where standard input is no terminal, and where the service is far away."""

from tests.unit.cli.builders import a_job, an_ended_job
from tgpu.cli import connect
from tgpu.cli.main import build_command
from tgpu.cli.option_words import options_of
from tgpu.client.http import Client
from tgpu.client.target import parse_target


class _Terminal:
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0


def test_without_a_terminal_the_output_is_passed_on_with_the_exit_code(tgpu, service):
    service.add(an_ended_job("12", state="failed", exit_code=7))
    service.logs = {("12", "stdout"): b"loss 0.1\n", ("12", "stderr"): b"warning\n"}
    outcome = tgpu("run", "--gpus", "2", "--time", "1h", "--", "python", "t.py")
    assert outcome.code == 7
    assert outcome.out == "loss 0.1\n"
    assert "warning" in outcome.err
    body = service.bodies[0]
    assert (body["command"], body["gpu_count"]) == (["python", "t.py"], 2)
    assert (body["name"], body["max_runtime"]) == ("python t.py", 3600)


def test_ctrl_c_while_it_waits_cancels_the_job(tgpu, service, monkeypatch):
    service.add(a_job("12"))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tgpu.cli.sessions.running.wait_until_started", interrupted)
    outcome = tgpu("run", "--", "x")
    assert outcome.code == 130
    assert ("DELETE", "/jobs/12") in service.requests
    assert "job 12 cancelled" in outcome.err


def test_a_terminal_goes_to_this_machine_only(tgpu, service, monkeypatch):
    far = Client(parse_target("http://gpu7.example:8080"), transport=None)
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: far)
    monkeypatch.setattr("tgpu.cli.sessions.running.sys.stdin", _Terminal())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    outcome = tgpu("run", "--", "bash")
    assert outcome.code == 1
    assert "reached over the network" in outcome.err
    assert service.requests == []


def test_it_has_the_options_of_submit_that_make_sense():
    commands = build_command().commands
    mine = set(options_of(commands["run"]))  # type: ignore[arg-type]
    theirs = set(options_of(commands["submit"]))  # type: ignore[arg-type]
    assert {"gpus", "type", "time", "env", "tenant", "after"} <= mine
    assert mine - theirs == {"keep"}
    assert not {"array", "lease", "hold"} & mine
