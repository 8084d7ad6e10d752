"""One run of `tgpu run`: submit, wait for the GPUs, connect to the job, return its exit code."""

import contextlib
import os
import signal
import stat
import sys
from collections.abc import Iterator

from tgpu.cli import environment
from tgpu.cli.connect import connected, ensure_service
from tgpu.cli.exit_codes import ExitCode, exit_code_of_job
from tgpu.cli.failures import Failure
from tgpu.cli.output import note, write_bytes
from tgpu.cli.render.estimate import start_text
from tgpu.cli.render.jobs import ended_line, held_line, waiting_line
from tgpu.cli.render.words import command_text
from tgpu.cli.submit.option_fields import JobOptions
from tgpu.cli.submit.send import build, real_id, submit
from tgpu.cli.terminal import doors
from tgpu.cli.terminal.seat import NoTerminal, SeatOutcome, feed, reach, sit
from tgpu.client.errors import ClientError
from tgpu.client.follow import ENDED, follow_job, patiently, wait_until_over, wait_until_started
from tgpu.client.http import Client
from tgpu.wire.v1 import JobModel

_HOLDER = "tgpu.cli.terminal.holder"


def run_job(options: JobOptions, api_url: str | None, *, keep: bool) -> int:
    """The exit code of the command, which is the job's."""
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    shell = environment.variables().get("SHELL") or "/bin/sh"
    words = list(options.get("command") or ()) or [shell]
    name = options.get("name") or command_text(words)[:80]
    options = {**options, "command": words, "name": name}
    build(options, lambda job_id: job_id)  # bad input is refused before a service is started
    ensure_service(api_url)
    with connected(api_url) as client:
        if at_terminal and not client.target.is_local:
            raise _far_away(client)
        door = doors.new_name()
        has_input = not at_terminal and client.target.is_local and _has_input()
        if at_terminal or has_input:
            held = holder_words(door, words, keep=keep, pipe=not at_terminal)
            options = {**options, "command": held}
        request, _ = build(options, lambda job_id: real_id(client, job_id))
        job_id = submit(client, request).job_id
        job = started(client, job_id)
        if job is None:
            return ExitCode.INTERRUPTED
        try:
            if at_terminal:
                return sit_in_front(client, job, door)
            return _stream(client, job, door if has_input else None)
        except NoTerminal as problem:
            _cancel(client, job_id)
            raise Failure(f"job {job_id}: {problem}", code="NO_TERMINAL") from None


def holder_words(name: str, words: list[str], *, keep: bool, pipe: bool) -> list[str]:
    flags = [*(["--keep"] if keep else []), *(["--pipe"] if pipe else [])]
    return [sys.executable, "-I", "-m", _HOLDER, name, *flags, "--", *words]


def terminal_name(command: list[str]) -> str | None:
    """Of a job that `tgpu run` started at a terminal; None for others."""
    if command[1:4] != ["-I", "-m", _HOLDER] or "--" not in command or "--pipe" in command[4:7]:
        return None
    return command[4]


def sit_in_front(client: Client, job: JobModel, name: str) -> int:
    """Until the command is over, or somebody leaves or takes the place. Raises NoTerminal."""
    job_id = job.job_id
    if not client.target.is_local:
        raise _far_away(client)
    line = reach(name, job.pid, lambda: client.get_job(job_id).state in ENDED)
    if line is not None:
        with line:
            on = f" on {held_line(job)}" if job.gpus else ""
            note(f"job {job_id} runs{on}; Ctrl-] d detaches")
            outcome = sit(line)
        if outcome is SeatOutcome.LEFT:
            note(f"\njob {job_id} continues; reconnect with: tgpu attach {job_id}")
            return ExitCode.OK
        if outcome is SeatOutcome.TAKEN:
            note(f"\nanother terminal has taken over job {job_id}")
            return ExitCode.OK
    return _ended(client, job_id, is_quiet=line is not None)


def _ended(client: Client, job_id: str, *, is_quiet: bool) -> int:
    job = wait_until_over(client, job_id)
    if not is_quiet:  # it was over before anybody could sit there
        follow_job(client, job_id, write_bytes)
    if job.state != "completed":
        note(ended_line(job))
    return exit_code_of_job(job.state, job.exit_code, job.signal)


def _stream(client: Client, job: JobModel, name: str | None) -> int:
    job_id = job.job_id
    try:
        with _ended_by_signals():
            line = None
            if name is not None:
                line = reach(name, job.pid, lambda: client.get_job(job_id).state in ENDED)
            if line is not None:
                feed(line)
            job = follow_job(client, job_id, write_bytes)
    except KeyboardInterrupt:
        _cancel(client, job_id)
        return ExitCode.INTERRUPTED
    if job.state != "completed":
        note(ended_line(job))
    return exit_code_of_job(job.state, job.exit_code, job.signal)


def started(client: Client, job_id: str) -> JobModel | None:
    """None where whoever waited did not want to any longer; then it is cancelled."""
    try:
        with _ended_by_signals():
            return wait_until_started(client, job_id, on_waiting=_Waiting())
    except KeyboardInterrupt:
        _cancel(client, job_id)
        return None


def _cancel(client: Client, job_id: str) -> None:
    try:
        patiently(lambda: client.cancel_job(job_id))
        note(f"\njob {job_id} cancelled")
    except ClientError as error:
        note(f"\njob {job_id} could not be cancelled: {error.message}; tgpu cancel {job_id}")


class _Waiting:
    """One line on why it waits and when it starts, again where the reason is another."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, job: JobModel) -> None:
        if job.reason is None or job.reason.code in ("next_cycle", self._said):
            return
        self._said = job.reason.code
        starts = start_text(job.estimate, environment.now_ms())
        note(waiting_line(job) + (f"; starts {starts}" if starts else "") + " (Ctrl-C cancels it)")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A window that is closed is as good as Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGHUP, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_input() -> bool:
    """Whether somebody gives us something to read: a pipe or a file, not /dev/null."""
    try:
        return not stat.S_ISCHR(os.fstat(0).st_mode)
    except OSError:
        return False


def _far_away(client: Client) -> Failure:
    return Failure(
        f"{client.target} is reached over the network, but a terminal works only on the job's "
        "machine",
        "log in there and run it; without a terminal (`tgpu run … | cat`) its output comes here",
        code="NOT_LOCAL",
    )
