"""`tgpu shell`: a shell, or a command, in the environment of a running job."""

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tgpu.cli.options import ApiUrl, JobId, examples
from tgpu.text.system_words import system_words

if TYPE_CHECKING:
    from tgpu.host.job_process import ProcessSurroundings
    from tgpu.wire.v1 import JobModel

EPILOG = examples("tgpu shell 12", "tgpu shell last -- nvidia-smi", "tgpu shell 12 --worker 3")


def shell(
    job: JobId,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]", help="Command to run instead of a shell."),
    ] = None,
    worker: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Rank of the worker, for jobs with several."),
    ] = None,
    api_url: ApiUrl = None,
) -> None:
    """Open a shell in the directory and the environment of a running job.

    It sees the job's GPUs and has its variables and its conda or virtual environment, and runs as
    the job's user. It is not part of the job: neither ends the other. For a lease it is a shell
    here that sees the GPUs of the lease.
    """
    import os

    from tgpu.cli.failures import Failure
    from tgpu.host.job_process import NotTheirs, surroundings

    model, variables = _running_job(job, api_url)
    if variables:
        _into_lease(model, variables, command)
    assert model.pid is not None
    rank = worker if worker is not None or model.workers == 1 else 0
    try:
        found = surroundings(model.job_id, model.pid, rank)
    except NotTheirs as error:
        raise Failure(
            f"job {model.job_id} runs as {error}",
            f"only {error} and root may enter its environment",
            code="FORBIDDEN",
        ) from None
    if found is None:
        which = f"worker {worker} of job" if worker is not None else "job"
        raise _not_here(model, f"{which} {model.job_id} has no process on this machine")
    env = _with_my_terminal(found.env)
    words = command or [env.get("SHELL") or "/bin/sh"]
    if command is None:
        _say_where(model, found)
    _become(found)
    try:
        os.execvpe(words[0], words, env)
    except OSError as error:
        raise Failure(
            f"{words[0]}: {system_words(error)}", "name a program on the job's PATH"
        ) from None


def _into_lease(job: "JobModel", variables: dict[str, str], command: list[str] | None) -> NoReturn:
    """A lease has no process: this shell, here and as this user, with its GPUs."""
    import os

    from tgpu.cli import environment
    from tgpu.cli.failures import Failure
    from tgpu.cli.output import note

    env = {**environment.variables(), **variables}
    words = command or [env.get("SHELL") or "/bin/sh"]
    if command is None:
        gpus, back = variables["TGPU_GPUS"], f"tgpu complete {job.job_id}"
        note(
            f"lease {job.job_id}: GPUs {gpus}; `exit` leaves and keeps them, `{back}` releases them"
        )
    try:
        os.execvpe(words[0], words, env)
    except OSError as error:
        raise Failure(f"{words[0]}: {system_words(error)}", "name a program on your PATH") from None


def _running_job(job: str, api_url: str | None) -> "tuple[JobModel, dict[str, str]]":
    """The job; and for a lease, the variables that stand for its GPUs."""
    from tgpu.cli.connect import connected
    from tgpu.cli.failures import Failure
    from tgpu.cli.sessions.leasing import lease_variables

    with connected(api_url) as client:
        if client.target.socket is None:
            raise Failure(
                f"{client.target} is reached over the network",
                "run this on the job's own machine, without --api-url or with unix:/path.sock",
                code="NOT_LOCAL",
            )
        model = client.get_job(job, to="shell")
        if model.state != "running":
            raise _not_here(model, f"job {model.job_id} is {model.state}, not running")
        if not model.command:
            return model, lease_variables(model, client.gpus())
    if model.pid is None:
        raise _not_here(model, f"job {model.job_id} has no process on this machine")
    return model, {}


def _not_here(job: "JobModel", problem: str) -> Exception:
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.failures import Failure

    remedy = f"see: tgpu show {job.job_id}"
    return Failure(problem, remedy, exit_code=ExitCode.NO_SUCH_JOB, code="NOT_RUNNING")


def _with_my_terminal(env: dict[str, str]) -> dict[str, str]:
    """The job's variables, but for what tells of the terminal that somebody sits at."""
    from tgpu.cli.environment import variables

    mine = variables()
    for name in ("TERM", "COLORTERM", "LINES", "COLUMNS"):
        env.pop(name, None)
        if name in mine:
            env[name] = mine[name]
    return env


def _say_where(job: "JobModel", found: "ProcessSurroundings") -> None:
    from tgpu.cli.output import note
    from tgpu.cli.render.grid import clean

    gpus = found.env.get("CUDA_VISIBLE_DEVICES") or "none"
    note(f"job {job.job_id}: GPUs {clean(gpus)}, in {clean(found.cwd)}; `exit` leaves")


def _become(found: "ProcessSurroundings") -> None:
    """Where the job is, as whom it runs: root must not do in a user's name what only root may."""
    import os

    from tgpu.cli.failures import Failure
    from tgpu.devices.control_groups import fence_doors

    try:
        if os.geteuid() == 0:  # nobody else may; a login of theirs opens what their user may
            for door in fence_doors(found.pid):
                door.write_text("0")
        if os.geteuid() == 0 and found.uid != 0:
            os.setgroups(found.groups)
            os.setresgid(found.gid, found.gid, found.gid)
            os.setresuid(found.uid, found.uid, found.uid)
        os.chdir(found.cwd)
    except OSError as error:
        raise Failure(
            f"{found.cwd}: {system_words(error)}", "the job's directory is gone"
        ) from None
