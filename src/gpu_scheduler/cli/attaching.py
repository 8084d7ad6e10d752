"""Commands about jobs in GNU screen: screens, attach."""

from gpu_scheduler.cli.options import ApiUrl, JobId, Json, examples

SCREENS_EPILOG = examples("tgpu submit --screen -- python train.py", "tgpu screens")
ATTACH_EPILOG = examples("tgpu attach 12", "tgpu attach last")


def screens(as_json: Json = False) -> None:
    """List the GNU screen sessions that your jobs run in, on this machine."""
    from gpu_scheduler.cli.output import note, show_json, show_lines, width
    from gpu_scheduler.cli.render.grid import Cell, Column, Grid, clean, lay_out
    from gpu_scheduler.cli.screen_sessions import screen_sessions

    found = screen_sessions()
    if as_json:
        show_json({"sessions": [session.as_json() for session in found]})
        return
    if not found:
        note("no job runs in a session; `tgpu submit --screen -- …` starts one that does")
        return
    columns = (Column("JOB"), Column("SESSION", least=10), Column("STATE"))
    rows = tuple((Cell(s.job_id), Cell(clean(s.name)), Cell(s.state)) for s in found)
    show_lines(lay_out(Grid(columns, rows), width()))
    note("go in with `tgpu attach JOB`; leave with Ctrl-A d, and the job goes on")


def attach(job: JobId, api_url: ApiUrl = None) -> None:
    """Go into the GNU screen session of a running job.

    Leave it with Ctrl-A d: the job goes on. Ctrl-C is the job's.
    """
    import os
    import sys

    from gpu_scheduler.cli.connect import connected
    from gpu_scheduler.cli.exit_codes import ExitCode
    from gpu_scheduler.cli.failures import Failure, bad_input
    from gpu_scheduler.cli.screen_sessions import find_screen, screen_sessions

    screen = find_screen()
    if job == "last":
        with connected(api_url) as client:
            job = client.get_job(job).job_id
    found = next((session for session in screen_sessions() if session.job_id == job), None)
    if found is None:
        raise Failure(
            f"job {job} runs in no session of yours on this machine",
            f"see: tgpu screens; follow its output with: tgpu logs -f {job}",
            exit_code=ExitCode.NO_SUCH_JOB,
            code="NO_SESSION",
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise bad_input("this is no terminal", f"follow its output with: tgpu logs -f {job}")
    os.execv(screen, [screen, "-x", found.address])
