"""`tgpu db backup`: a copy of the database to keep."""

from pathlib import Path
from typing import Annotated

import typer

from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.options import DataDir, Json, examples
from tgpu.cli.output import note, say, show_json

EPILOG = examples(
    "tgpu db backup /mnt/backups/tgpu.db",
    "tgpu db backup tgpu-$(date +%F).db --config tgpu.yaml",
)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")],
    *,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="ADDRESS",
            help="sqlite:PATH. Default: the database of the settings.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Settings file with the database."),
    ] = None,
    data_dir: DataDir = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Copy the database to a file that only you can read, also while the service runs.

    Job logs and the key of the secrets are not included.
    """
    from tgpu import database as databases
    from tgpu.cli.database.command import address_for
    from tgpu.core.errors import SchedulerError
    from tgpu.text.sizes import bytes_text

    address = address_for(database, "--database", config, data_dir)
    if not isinstance(address, databases.SqliteAddress):
        remedy = "pg_dump --format=custom --file=FILE DATABASE"
        raise bad_input("a PostgreSQL database is backed up with its own tools", remedy)
    try:
        written = databases.backup(address.path, file.expanduser().absolute(), replace=force)
    except SchedulerError as error:
        raise Failure(error.message, code="DATABASE", details=list(error.details)) from error
    if as_json:
        show_json({"file": str(file), "size_bytes": written})
        return
    say(f"{file}: {bytes_text(written)}")
    note("keep a copy of secret.key too, somewhere else: it encrypts the secrets of jobs")
