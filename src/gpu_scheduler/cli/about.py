"""Commands that need no service: version, config-sample."""

from enum import StrEnum
from typing import Annotated

import typer

from gpu_scheduler import __version__
from gpu_scheduler.cli.options import Json, examples

VERSION_EPILOG = examples("tgpu version", "tgpu version --json")
CONFIG_EPILOG = examples(
    "tgpu config-sample > tgpu.yaml",
    "tgpu serve --config tgpu.yaml",
    "tgpu config-sample --format toml",
)


class Format(StrEnum):
    YAML = "yaml"
    JSON = "json"
    TOML = "toml"


def version(as_json: Json = False) -> None:
    """Print the version."""
    typer.echo(f'{{"version": "{__version__}"}}' if as_json else f"tgpu {__version__}")


def config_sample(
    format: Annotated[
        Format, typer.Option("--format", case_sensitive=False, help="Of the file.")
    ] = Format.YAML,
) -> None:
    """Print a settings file with every key, its default and what it means."""
    from gpu_scheduler.cli.output import say
    from gpu_scheduler.settings import sample

    say(sample(format.value).rstrip("\n"))
