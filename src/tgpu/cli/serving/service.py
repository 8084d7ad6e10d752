"""What `serve`, `start` and `stop` do, apart from reading their options."""

from collections.abc import Mapping
from pathlib import Path

from tgpu.cli import environment
from tgpu.cli.connect import personal_service, start_failure, start_personal
from tgpu.cli.exit_codes import ExitCode
from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.output import note, say, show_json
from tgpu.cli.render.words import plural
from tgpu.client.autostart import find_running, stop_running
from tgpu.client.errors import ClientError, NoService, StartFailed
from tgpu.client.http import Client
from tgpu.client.personal import PersonalService


def run_service(config: Path | None, flags: Mapping[str, object]) -> None:
    """Run the service in this process until it is told to end."""
    from tgpu.settings import SettingsError, load_with_origins

    try:
        loaded = load_with_origins(config, flags)
    except SettingsError as error:
        raise bad_input(str(error), "`tgpu config-sample` prints all settings") from error
    from tgpu import app

    try:
        if config is not None:
            app.check_secret_files(loaded.settings, config, loaded.secrets_from(config))
        app.serve(loaded.settings, loaded.without_effect, loaded.old_names)
    except app.CannotServeYet as error:
        # Not the code of bad input, after which systemd would not try again.
        raise Failure(str(error), exit_code=ExitCode.NO_SERVICE, code="UNAVAILABLE") from error
    except app.CannotServe as error:
        raise bad_input(str(error)) from error
    except app.EndedItself as error:
        raise Failure(
            f"the scheduler exited to restart from its database: {error}",
            "start it again, as systemd does; running jobs continue",
            exit_code=ExitCode.MUST_RESTART,
            code="MUST_RESTART",
        ) from error


def start_service(data_dir: Path | None, serve_options: list[str], as_json: bool) -> None:
    service = _service(data_dir)
    is_new = start_personal(service, serve_options)
    health = find_running(service)
    if health is None:
        raise NoService(str(service.target()))
    if as_json:
        show_json(health)
    elif not is_new:
        where = environment.home_relative(service.data_dir)
        say(f"the scheduler is already running (pid {health.pid}, data in {where})")
        if [word for word in serve_options if word not in ("--port", "0")]:
            note("its options were not changed; `tgpu stop` first to start it with others")


def stop_service(data_dir: Path | None, as_json: bool) -> None:
    service = _service(data_dir)
    running = _running_jobs(service)
    try:
        stopped = stop_running(service)
    except StartFailed as error:
        raise start_failure(service, error) from error
    if stopped is None:
        raise Failure(
            "no scheduler is running for you, so there is none to stop",
            exit_code=ExitCode.NO_SERVICE,
            code="NO_SERVICE",
        )
    if as_json:
        show_json(stopped)
        return
    jobs = (
        f"; {plural(running, 'running job')} {'continues' if running == 1 else 'continue'}"
        if running
        else ""
    )
    say(f"stopped the scheduler (pid {stopped.pid}){jobs}")


def _service(data_dir: Path | None) -> PersonalService:
    return personal_service() if data_dir is None else PersonalService(data_dir)


def _running_jobs(service: PersonalService) -> int:
    with Client(service.target(), timeout_seconds=5) as client:
        try:
            return client.cluster_status().running_jobs
        except ClientError:
            return 0
