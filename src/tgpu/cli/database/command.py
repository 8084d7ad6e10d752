"""Commands about the database itself: what is in it, upgrade it, copy it to another."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgpu.cli.database import backup as backing
from tgpu.cli.database import pair as pairing
from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.options import DataDir, Json, examples, read_option
from tgpu.cli.output import note, say, show_json
from tgpu.text.plurals import plural
from tgpu.text.sizes import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tgpu.database import Address

EPILOG = examples(
    "tgpu db status",
    "tgpu db backup /mnt/backups/tgpu.db",
    "tgpu db upgrade --config tgpu.yaml",
    "tgpu db copy --to postgresql://tgpu@db.example.org/gpu_scheduler",
)
_STATUS_EPILOG = examples("tgpu db status", "tgpu db status --database sqlite:/srv/tgpu/tgpu.db")
_UPGRADE_EPILOG = examples("tgpu db upgrade", "tgpu db upgrade --config tgpu.yaml")
_COPY_EPILOG = examples(
    "tgpu db copy --to postgresql://tgpu@db.example.org/gpu_scheduler",
    "tgpu db copy --from sqlite:/srv/tgpu/tgpu.db --to postgresql:///gpu_scheduler",
)
_ROTATE_EPILOG = examples("tgpu db rotate-key", "tgpu db rotate-key --config tgpu.yaml")

app = typer.Typer(
    name="db",
    help="Look after the database: status, backup, upgrade, copy, new key, its data directory.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings file with the database."),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="ADDRESS",
        help="sqlite:PATH or postgresql://user@host/database. Default: the database of the "
        "settings.",
    ),
]


@app.command("status", epilog=_STATUS_EPILOG)
def status(
    database: Database = None,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show the database: which, its version, contents and size."""
    from tgpu import database as databases

    with _sentences():
        found = databases.status(address_for(database, "--database", config, data_dir))
    if as_json:
        show_json(
            {
                "store": found.name,
                "schema_version": found.version,
                "newest_version": found.newest,
                "rows": dict(found.counts),
                "size_bytes": found.size_bytes,
            }
        )
        return
    say(found.name)
    say(f"  schema version  {_version(found.version, found.newest)}")
    for table, count in found.counts.items():
        say(f"  {table:<14}  {count:,}")
    say(f"  size            {bytes_text(found.size_bytes)}")


app.command("pair", epilog=pairing.EPILOG)(pairing.pair)
app.command("backup", epilog=backing.EPILOG)(backing.backup)


@app.command("upgrade", epilog=_UPGRADE_EPILOG)
def upgrade(
    database: Database = None,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Upgrade or create the tables. The service also does this when it starts."""
    from tgpu import database as databases

    with _sentences():
        done = databases.upgrade(address_for(database, "--database", config, data_dir))
    if as_json:
        show_json({"store": done.name, "from_version": done.before, "to_version": done.after})
    elif done.before == done.after:
        say(f"{done.name} has schema version {done.after} already")
    else:
        say(f"{done.name}: schema version {done.before} → {done.after}")


@app.command("copy", epilog=_COPY_EPILOG)
def copy(
    to: Annotated[
        str,
        typer.Option("--to", metavar="ADDRESS", help="Target: an empty database."),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="ADDRESS", help="Source. Default: the database of the settings."
        ),
    ] = None,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Copy everything to another database: all of it, or nothing if anything goes wrong.

    Stop the service first, and set the new database in its settings afterwards. The password need
    not be on the command line: ~/.pgpass and PGPASSWORD are read.
    """
    from tgpu import database as databases

    with _sentences(), _progress(is_shown=not as_json) as progress:
        origin = address_for(source, "--from", config, data_dir)
        target = read_option("--to", databases.parse_address, to)
        counts = databases.copy(origin, target, progress)
    if as_json:
        show_json({"rows": dict(counts)})
        return
    rows = ", ".join(f"{count:,} in {table}" for table, count in counts.items() if count)
    say(f"copied and counted: {rows or 'nothing, there were no rows'}")
    note("to use it, set it in the settings: database.url, or GPU_SCHEDULER_DATABASE_URL")


@app.command("rotate-key", epilog=_ROTATE_EPILOG)
def rotate_key(
    config: Config = None,
    data_dir: DataDir = None,
    lost_key: Annotated[
        bool,
        typer.Option("--lost-key", help="Give up secrets whose old key is missing."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Encrypt the secrets in the database with a new key. Stop the service first.

    Environments that an earlier version stored in clear text are encrypted too.
    """
    from tgpu.app import CannotServe
    from tgpu.app.rotate_key import rotate_key as rotate

    settings = pairing.settings_of(config, data_dir)
    try:
        with _sentences():
            done = rotate(settings, settings.data_directory, lost_key=lost_key)
    except CannotServe as error:
        raise Failure(str(error), code="DATABASE") from error
    if as_json:
        file = str(done.file)
        show_json({"key": done.key_name, "file": file, "rows": done.rows, "lost": done.lost})
        return
    say(f"encrypted {plural(f'{done.rows:,}', 'row')} with key {done.key_name}")
    if done.lost:
        note(f"lost {plural(f'{done.lost:,}', 'text')}; jobs that need them fail when they start")
    note(f"keep a copy of {done.file} apart from copies of the database")


def address_for(
    text: str | None, option: str, config: Path | None, data_dir: Path | None
) -> "Address":
    from tgpu import database as databases

    if text is not None:
        return read_option(option, databases.parse_address, text)
    address = databases.address_of(pairing.settings_of(config, data_dir))
    if address is None:
        raise bad_input(
            "the settings keep jobs in memory, so there is no database", f"name one with {option}"
        )
    return address


@contextmanager
def _sentences() -> Iterator[None]:
    """What is wrong with a database is said as a failure of the command."""
    from tgpu.core.errors import SchedulerError

    try:
        yield
    except SchedulerError as error:
        raise Failure(error.message, code="DATABASE", details=list(error.details)) from error


@contextmanager
def _progress(is_shown: bool) -> "Iterator[Callable[[str, int, int], None]]":
    """A bar on standard error, where that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not is_shown or not console.is_terminal:
        yield lambda table, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bars: dict[str, Any] = {}
    columns = (TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console) as screen:

        def show(table: str, done: int, total: int) -> None:
            if table not in bars:
                bars[table] = screen.add_task(table, total=total)
            screen.update(bars[table], completed=done)

        yield show


def _version(version: int, newest: int) -> str:
    if version == newest:
        return f"{version}"
    if version > newest:
        return f"{version} (newer than this tgpu, which knows {newest})"
    return f"{version} (`tgpu db upgrade` brings it to {newest})"
