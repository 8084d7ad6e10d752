"""`tgpu service`: let systemd keep the scheduler running."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.options import DataDir, Json, examples
from tgpu.cli.serving.command import Config
from tgpu.text.system_words import system_words

if TYPE_CHECKING:
    from tgpu.cli.serving.install_checks import InstallObstacles
    from tgpu.cli.serving.systemd import Unit

EPILOG = examples("tgpu service install", "tgpu service install --dry-run")
_INSTALL_EPILOG = examples(
    "tgpu service install --dry-run",
    "tgpu service install --config ~/tgpu.yaml",
    "sudo tgpu service install --system --user-name gpu --config /etc/tgpu.yaml",
)

app = typer.Typer(
    name="service",
    help="The scheduler as a service of systemd.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("install", epilog=_INSTALL_EPILOG)
def install(
    *,
    system: Annotated[
        bool,
        typer.Option(
            "--system/--user", help="Install for the whole machine, or only for you (default)."
        ),
    ] = False,
    user_name: Annotated[
        str, typer.Option(metavar="USER", help="User that a system service runs as. Default: root.")
    ] = "",
    config: Config = None,
    data_dir: DataDir = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the unit, and write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a systemd unit for the scheduler, and say how to start it.

    Nothing is started. An existing unit is replaced.
    """
    from tgpu.cli.environment import config_home, home_relative
    from tgpu.cli.failures import bad_input
    from tgpu.cli.output import note, say, show_json
    from tgpu.cli.serving.install_checks import check_user
    from tgpu.cli.serving.systemd import unit_path, unit_text

    if user_name and not system:
        raise bad_input("--user-name needs --system", "a user's own service runs as that user")
    check_user(user_name)
    unit, found = _unit(system, user_name, config, data_dir)
    path = unit_path(system, config_home())
    text = unit_text(unit)
    if not dry_run:
        _write(path, text)
    steps = [f"{unit.systemctl} daemon-reload", f"{unit.systemctl} enable --now {path.name}"]
    steps = [*found.steps, *steps]
    if as_json:
        answer = {"path": str(path), "unit": text, "written": not dry_run, "next": steps}
        show_json({**answer, "notes": list(found.notes)})
        return
    if dry_run:
        say(text.rstrip("\n"))
        note("\n".join([f"would be written to {home_relative(path)}", *_noted(found)]))
        return
    say(f"wrote {home_relative(path)}")
    for line in _noted(found):
        note(line)
    note("\n".join(["start it now and at every boot with:", *(f"  {step}" for step in steps)]))
    if not system:
        note("  loginctl enable-linger    # to keep it running while you are logged out")


def _noted(found: "InstallObstacles") -> list[str]:
    return [f"note: {line}" for line in found.notes]


def _unit(
    system: bool, user_name: str, config: Path | None, data_dir: Path | None
) -> "tuple[Unit, InstallObstacles]":
    import sys

    from tgpu.cli.environment import data_dir as own_data_dir
    from tgpu.cli.failures import bad_input
    from tgpu.cli.serving.install_checks import in_the_way
    from tgpu.cli.serving.systemd import Unit
    from tgpu.settings import SettingsError, load_settings

    try:
        settings = load_settings(config)
    except SettingsError as error:
        raise bad_input(str(error), "`tgpu config-sample` prints all settings") from error
    engine = settings.engine
    needs_root = settings.auth.enabled and engine.kind != "none" and not engine.jobs_as_service_user
    if needs_root and (user_name not in ("", "root") or not system):
        raise bad_input(
            "with auth.enabled jobs run as other users, and only root can do that",
            "install it with --system and without --user-name, or see engine.jobs_as_service_user",
        )
    command = [sys.executable, "-m", "tgpu", "serve"]
    if config is not None:
        command += ["--config", str(config.expanduser().absolute())]
    if data_dir is not None:
        command += ["--data-dir", str(data_dir.expanduser().absolute())]
    if not system and config is None:
        command += _like_a_personal_service(data_dir)
    # A personal unit without a file lives where `tgpu start` would: on a socket, without a port.
    is_personal = not system and config is None
    place = data_dir.expanduser().absolute() if data_dir is not None else None
    place = place or (own_data_dir() if is_personal else settings.data_directory)
    found = in_the_way(settings, place, has_port=not is_personal)
    return Unit(command, system, settings.api.shutdown_seconds, user_name), found


def _like_a_personal_service(data_dir: Path | None) -> list[str]:
    """The socket that `tgpu` looks at by itself, and no port: as `tgpu start` does it."""
    from tgpu.cli.connect import personal_service
    from tgpu.client.personal import PersonalService

    service = (
        personal_service()
        if data_dir is None
        else PersonalService(data_dir.expanduser().absolute())
    )
    words = ["--port", "0", "--socket", str(service.socket)]
    return words if data_dir is not None else [*words, "--data-dir", str(service.data_dir)]


def _write(path: Path, text: str) -> None:
    from tgpu.cli.failures import Failure

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside it first: systemd must never read half a unit.
        beside = path.with_suffix(".service.new")
        beside.write_text(text)
        beside.chmod(0o644)
        beside.replace(path)
    except OSError as error:
        remedy = "run it as root (sudo), or without --system"
        raise Failure(
            f"cannot write {path}: {system_words(error)}", remedy, code="OS_ERROR"
        ) from error
