"""Commands about the settings: show values and their origin, check a file, set own defaults."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.config import own_settings
from tgpu.cli.options import DataDir, Json, examples
from tgpu.cli.serving.command import Config, Gpus, Host, Insecure, Level, Port, Socket, Style

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tgpu.cli.render.grid import Grid
    from tgpu.settings import LoadedSettings

EPILOG = examples(
    "tgpu config show",
    "tgpu config show --config tgpu.yaml --json",
    "tgpu config check tgpu.yaml",
    "tgpu config set tenant vision",
)
_SHOW_EPILOG = examples(
    "tgpu config show",
    "tgpu config show --config tgpu.yaml",
    "tgpu config show --json | jq '.settings[] | select(.source != \"default\")'",
)
_CHECK_EPILOG = examples("tgpu config check tgpu.yaml", "tgpu config check tgpu.yaml --json")

app = typer.Typer(
    name="config",
    help="The scheduler's settings (show, check), and your own choices (set, get, unset, list).",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.command("set", epilog=own_settings.SET_EPILOG)(own_settings.set_own)
app.command("get", epilog=own_settings.GET_EPILOG)(own_settings.get_own)
app.command("unset", epilog=own_settings.UNSET_EPILOG)(own_settings.unset_own)
app.command("list", epilog=own_settings.LIST_EPILOG)(own_settings.list_own)


@app.command("show", epilog=_SHOW_EPILOG)
def show(
    *,
    config: Config = None,
    host: Host = None,
    port: Port = None,
    socket: Socket = None,
    data_dir: DataDir = None,
    gpus: Gpus = None,
    insecure_listen: Insecure = False,
    log_level: Level = None,
    log_format: Style = None,
    as_json: Json = False,
) -> None:
    """Show every setting as `tgpu serve` with these options would use it, and where it came from.

    Secrets are masked.
    """
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out

    flags: dict[str, object] = {
        "api.host": host,
        "api.http_port": port,
        "api.socket": socket,
        "api.insecure_listen": insecure_listen or None,
        "data_dir": data_dir,
        "devices.gpus": gpus,
        "logging.level": log_level.value.upper() if log_level else None,
        "logging.format": log_format.value if log_format else None,
    }
    loaded = _load(config, flags, None)
    if as_json:
        show_json(_as_json(loaded))
        return
    show_lines(lay_out(_grid(loaded), width()))
    for line in _idle_lines(loaded):
        note(line)


@app.command("check", epilog=_CHECK_EPILOG)
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML, JSON or TOML.")],
    as_json: Json = False,
) -> None:
    """Check a settings file, without the environment; list every mistake with its line."""
    from tgpu.cli.environment import variables
    from tgpu.cli.failures import bad_input
    from tgpu.cli.output import note, say, show_json
    from tgpu.policies import load_policy

    mine = variables()
    home: dict[str, str] = {name: mine[name] for name in ("HOME", "XDG_DATA_HOME") if name in mine}
    loaded = _load(file, {}, home)
    scheduler = loaded.settings.scheduler
    try:
        load_policy(scheduler.policy, scheduler.aging_seconds)
    except ValueError as error:
        raise bad_input(f"{file}: scheduler.policy: {error}") from error
    if as_json:
        idle = _as_json(loaded)["without_effect"]
        show_json({"file": str(file), "valid": True, "without_effect": idle})
        return
    say(f"{file}: all right")
    for line in _idle_lines(loaded):
        note(line)


def _load(
    file: Path | None, flags: "Mapping[str, object]", environ: "Mapping[str, str] | None"
) -> "LoadedSettings":
    from tgpu.cli.failures import bad_input
    from tgpu.settings import SettingsError, load_with_origins

    try:
        return load_with_origins(file, flags, environ)
    except SettingsError as error:
        raise bad_input(str(error), "`tgpu config-sample` prints all settings") from error


def _as_json(loaded: "LoadedSettings") -> dict[str, object]:
    from tgpu.settings import NO_EFFECT, effective_values

    return {
        "settings": [
            {"key": found.key, "value": found.value, "source": found.source}
            for found in effective_values(loaded)
        ],
        "without_effect": [
            {"key": idle.name, "value": idle.value, "source": idle.origin, "note": NO_EFFECT}
            for idle in loaded.without_effect
        ],
    }


def _grid(loaded: "LoadedSettings") -> "Grid":
    from tgpu.cli.render.grid import Cell, Column, Grid, clean
    from tgpu.settings import effective_values

    columns = (Column("SETTING"), Column("VALUE", least=10), Column("FROM", least=10))
    rows = [
        (
            Cell(found.key),
            Cell(clean(_shown(found.value))),
            Cell(clean(found.source), "" if found.source == "default" else "bold"),
        )
        for found in effective_values(loaded)
    ]
    return Grid(columns, tuple(rows))


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


def _idle_lines(loaded: "LoadedSettings") -> list[str]:
    from tgpu.settings import NO_EFFECT

    idle = [f"{one.origin}: {one.name}: {NO_EFFECT}" for one in loaded.without_effect]
    return [*idle, *(f"{old.origin}: {old.sentence()}" for old in loaded.old_names)]
