"""Finds the service a command talks to, and starts the user's own if needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tgpu.cli import environment
from tgpu.cli.exit_codes import ExitCode
from tgpu.cli.failures import Failure, bad_option
from tgpu.cli.output import note
from tgpu.cli.render.gpus import gpu_counts
from tgpu.client.autostart import ensure_running
from tgpu.client.errors import NoService, StartFailed
from tgpu.client.http import Client
from tgpu.client.personal import PersonalService
from tgpu.client.target import parse_target

_GPU_VARIABLES: Final = ("GPU_SCHEDULER_GPUS", "GPU_SCHEDULER_DEVICES_GPUS")
# `tgpu --api-url URL list`: given before the command, it holds where the command has none.
url_before_command: ContextVar[str | None] = ContextVar("url_before_command", default=None)


def personal_service() -> PersonalService:
    return PersonalService(environment.data_dir())


def open_client(api_url: str | None, timeout_seconds: float = 30.0) -> Client:
    """A client of the chosen service. Nothing is sent yet."""
    url = api_url or url_before_command.get()
    if url is None:
        target = personal_service().target()
    else:
        try:
            target = parse_target(url)
        except ValueError as error:
            raise bad_option("--api-url (or TGPU_URL)", error) from error
    mine = environment.variables()
    return Client(
        target,
        api_key=mine.get("TGPU_API_KEY") or None,
        verify=mine.get("TGPU_CA_FILE") or True,
        timeout_seconds=timeout_seconds,
    )


@contextmanager
def connected(api_url: str | None) -> Iterator[Client]:
    """A client; where nobody answers, the Failure says how to change that."""
    with open_client(api_url) as client:
        try:
            yield client
        except NoService as error:
            is_chosen = (api_url or url_before_command.get()) is not None
            raise _no_service(error, is_chosen) from error


def ensure_service(api_url: str | None) -> None:
    """Start this user's own service if that is the chosen one and nobody answers."""
    if api_url is None and url_before_command.get() is None:
        start_personal(personal_service(), ["--port", "0"])


def start_personal(service: PersonalService, serve_options: list[str]) -> bool:
    """False if it was running already. Says what it started."""
    try:
        started = ensure_running(service, serve_options)
    except StartFailed as error:
        raise start_failure(service, error) from error
    if started is None:
        return False
    where = environment.home_relative(service.data_dir)
    found = _gpus_found(service, is_auto=not {"--gpus", "--config"} & set(serve_options))
    note(f"started the scheduler in the background (data in {where}; {found})")
    return True


def start_failure(service: PersonalService, error: StartFailed) -> Failure:
    where = environment.home_relative(service.log_file)
    log = "\n".join(f"  {line}" for line in error.log_tail.splitlines()[-15:])
    return Failure(
        error.message + (f". Its log ends with:\n{log}" if log else ""),
        f"`tgpu doctor` checks for the cause; the whole log is {where}",
        code="START_FAILED",
    )


def _gpus_found(service: PersonalService, is_auto: bool) -> str:
    with Client(service.target()) as client:
        found = client.gpus()
    is_auto = is_auto and not any(name in environment.variables() for name in _GPU_VARIABLES)
    # Simulated without having been asked for: that must not come as a surprise.
    unasked = "no NVIDIA driver found" if found.simulated and is_auto else ""
    problem = found.problem or unasked
    return gpu_counts(found) + (f": {problem}" if problem else "")


def _no_service(error: NoService, is_chosen: bool) -> Failure:
    if is_chosen:
        return Failure(
            error.message,
            "check --api-url or TGPU_URL, and that the scheduler runs there",
            exit_code=ExitCode.NO_SERVICE,
            code=error.code,
        )
    return Failure(
        "no scheduler is running for you",
        "start it with: tgpu start (tgpu submit also starts it)",
        exit_code=ExitCode.NO_SERVICE,
        code=error.code,
    )
