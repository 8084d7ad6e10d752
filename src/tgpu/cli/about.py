"""Commands that need no service: version, config-sample, config-schema, job-schema."""

from enum import StrEnum
from typing import Annotated

import typer

from tgpu import __version__
from tgpu.cli.options import Json, examples

VERSION_EPILOG = examples("tgpu version", "tgpu version --json")
CONFIG_EPILOG = examples(
    "tgpu config-sample > tgpu.yaml",
    "tgpu serve --config tgpu.yaml",
    "tgpu config-sample --format toml",
)
SCHEMA_EPILOG = examples(
    "tgpu config-schema > tgpu.schema.json", "check-jsonschema --schemafile tgpu.schema.json x.yaml"
)

JOB_SCHEMA_EPILOG = examples(
    "tgpu job-schema > job.schema.json", "check-jsonschema --schemafile job.schema.json job.yaml"
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
        Format, typer.Option("--format", case_sensitive=False, help="Format of the file.")
    ] = Format.YAML,
) -> None:
    """Print a sample settings file: every key with its default and meaning."""
    from tgpu.cli.output import say
    from tgpu.settings import sample

    say(sample(format.value).rstrip("\n"))


def config_schema() -> None:
    """Print the JSON schema of a settings file, for editors and for checks by other programs.

    `tgpu config check` knows more: rules between keys, and which line is wrong.
    """
    from tgpu.cli.output import show_json
    from tgpu.settings import json_schema

    show_json(json_schema())


def job_schema() -> None:
    """Print the JSON schema of a job file (`tgpu submit job.yaml`), for editors."""
    from tgpu.cli.output import show_json
    from tgpu.cli.submit.job_schema import job_file_schema

    show_json(job_file_schema())
