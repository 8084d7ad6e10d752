"""Commands about jobs in GNU screen and tmux: screens, attach."""

from typing import TYPE_CHECKING

from tgpu.cli.options import ApiUrl, JobId, Json, examples

if TYPE_CHECKING:
    from tgpu.cli.sessions.screen_sessions import JobSession

SCREENS_EPILOG = examples(
    "tgpu submit --screen -- python train.py",
    "tgpu submit --tmux -- python train.py",
    "tgpu screens",
)
ATTACH_EPILOG = examples("tgpu attach 12", "tgpu attach last")


def screens(as_json: Json = False) -> None:
    """List the GNU screen and tmux sessions that your jobs run in, on this machine."""
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.grid import Cell, Column, Grid, clean, lay_out

    found = _sessions()
    if as_json:
        show_json({"sessions": [session.as_json() for session in found]})
        return
    if not found:
        note(
            "no job runs in a session; `tgpu submit --screen -- …` starts one that does, or --tmux"
        )
        return
    columns = (Column("JOB"), Column("SESSION", least=10), Column("PROGRAM"), Column("STATE"))
    rows = tuple(
        (Cell(s.job_id), Cell(clean(s.name)), Cell(s.program), Cell(s.state)) for s in found
    )
    show_lines(lay_out(Grid(columns, rows), width()))
    note("attach with `tgpu attach JOB`; detach from screen with Ctrl-A d, from tmux with Ctrl-B d")


def attach(job: JobId, api_url: ApiUrl = None) -> int:
    """Connect to the terminal of a `tgpu run` job, or to the screen or tmux session of a job.

    Detach with Ctrl-] d, for screen with Ctrl-A d, for tmux with Ctrl-B d; the job continues.
    Ctrl-C goes to the job.
    """
    import os
    import sys

    from tgpu.cli.connect import connected
    from tgpu.cli.environment import variables
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.failures import Failure, bad_input

    code = _sit(job, api_url)
    if code is not None:
        return code
    sessions = _sessions()
    if job == "last":
        with connected(api_url) as client:
            job = client.get_job(job).job_id
    found = next((session for session in sessions if session.job_id == job), None)
    if found is None:
        raise Failure(
            f"job {job} runs in no session of yours on this machine",
            f"see: tgpu screens; follow its output with: tgpu logs -f {job}",
            exit_code=ExitCode.NO_SUCH_JOB,
            code="NO_SESSION",
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise bad_input("this is not a terminal", f"follow its output with: tgpu logs -f {job}")
    env = variables()
    env.pop("TMUX", None)  # inside a session of one's own, tmux would refuse
    os.execve(found.enter[0], found.enter, env)


def _sit(job: str, api_url: str | None) -> int | None:
    """In front of a job that `tgpu run` has started; None for all others."""
    import sys

    from tgpu.cli.connect import open_client
    from tgpu.cli.failures import Failure, bad_input
    from tgpu.cli.sessions.running import sit_in_front, terminal_name
    from tgpu.cli.terminal.seat import NoTerminal
    from tgpu.client.errors import ClientError, Denied

    with open_client(api_url) as client:
        try:
            model = client.get_job(job, to="attach")
        except Denied:
            raise
        except ClientError:
            return None  # sessions are found without a service
        name = terminal_name(model.command) if model.state == "running" else None
        if name is None:
            return None
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise bad_input("this is not a terminal", f"follow its output with: tgpu logs -f {job}")
        try:
            return sit_in_front(client, model, name)
        except NoTerminal as problem:
            remedy = f"follow its output with: tgpu logs -f {model.job_id}"
            raise Failure(f"job {model.job_id}: {problem}", remedy, code="NO_TERMINAL") from None


def _sessions() -> "list[JobSession]":
    import shutil

    from tgpu.cli.failures import Failure
    from tgpu.cli.sessions.screen_sessions import screen_sessions
    from tgpu.cli.sessions.tmux_sessions import tmux_sessions

    if shutil.which("screen") is None and shutil.which("tmux") is None:
        remedy = "apt install screen; or: apt install tmux"
        raise Failure("neither GNU screen nor tmux is installed", remedy, code="NO_SCREEN")
    found = [*screen_sessions(), *tmux_sessions()]
    return sorted(found, key=lambda session: (len(session.job_id), session.job_id))
