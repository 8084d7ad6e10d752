"""Where commands get a journal from: a file, the running scheduler, or a database."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.options import DataDir

if TYPE_CHECKING:
    from tgpu.database import Address
    from tgpu.journal.lines import Journal

__all__ = ["Config", "DataDir", "Database", "JournalFile", "JournalSource", "opened", "reading"]

JournalFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="JOURNAL", help="A file from `tgpu export`. Default: the running scheduler."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Read the database of these settings, without the scheduler.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="ADDRESS",
        help="Read this database, without the scheduler: sqlite:PATH or postgresql://…",
    ),
]


@dataclass(frozen=True, slots=True)
class JournalSource:
    """At most one of file and database; neither: the scheduler that runs."""

    file: Path | None = None
    api_url: str | None = None
    database: str | None = None
    config: Path | None = None
    data_dir: Path | None = None
    commands: bool = False

    @property
    def is_database(self) -> bool:
        return any(one is not None for one in (self.database, self.config, self.data_dir))


@contextmanager
def opened(source: JournalSource) -> "Iterator[Journal]":
    """The journal, its header read. What is wrong with it becomes a sentence."""
    from tgpu.journal.lines import Journal, open_journal, split_lines

    with ExitStack() as stack:
        stack.enter_context(sentences())
        if source.file is not None:
            if source.is_database:
                raise bad_input("give a file or a database, not both")
            if not source.file.is_file():
                raise bad_input(
                    f"there is no file {source.file}", "`tgpu export FILE` writes a journal"
                )
            yield stack.enter_context(open_journal(source.file))
        elif source.is_database:
            yield Journal("database", _database_lines(source))
        else:
            from tgpu.cli.connect import connected

            client = stack.enter_context(connected(source.api_url))
            pieces = client.journal(commands=source.commands)
            stack.callback(pieces.close)
            yield Journal("journal of the scheduler", split_lines(pieces))


def _database_lines(source: JournalSource) -> Iterator[bytes]:
    from tgpu.app.journals import database_lines
    from tgpu.cli.environment import now_ms

    return database_lines(_address(source), now_ms(), commands=source.commands)


def _address(source: JournalSource) -> "Address":
    from tgpu import database as databases
    from tgpu.cli.options import read_option
    from tgpu.settings import SettingsError, load_settings

    if source.database is not None:
        return read_option("--database", databases.parse_address, source.database)
    directory = source.data_dir
    flags = {"data_dir": None if directory is None else directory.expanduser().absolute()}
    try:
        address = databases.address_of(load_settings(source.config, flags))
    except SettingsError as error:
        raise bad_input(str(error), "`tgpu config-sample` prints all settings") from error
    if address is None:
        raise bad_input("the settings keep jobs in memory, so there is no database")
    return address


@contextmanager
def sentences() -> Iterator[None]:
    from tgpu.core.errors import SchedulerError
    from tgpu.simulate.problems import BadInput

    try:
        yield
    except BadInput as error:
        failure = bad_input(str(error))
        failure.details = [
            {"line": one.line, "column": one.column, "problem": one.text, "kind": one.kind}
            for one in error.problems
        ]
        raise failure from error
    except SchedulerError as error:
        raise Failure(error.message, code="DATABASE", details=list(error.details)) from error


@contextmanager
def reading(events: int, *, is_shown: bool = True) -> Iterator[Callable[[int], None] | None]:
    """A bar of the events that were read, on standard error, where somebody looks."""
    import sys

    if not is_shown or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress("events", *columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("events", total=events or None)
        yield lambda more: bar.advance(task, more)
