"""`tgpu export`: the journal as a file, all of it or since a moment, or its jobs as a list."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from tgpu.cli.failures import bad_input
from tgpu.cli.journals import Config, Database, DataDir, JournalSource, opened, reading
from tgpu.cli.options import ApiUrl, Json, examples, read_option
from tgpu.text.past_instants import parse_past

if TYPE_CHECKING:
    from gzip import GzipFile

    from tgpu.journal.lines import Journal
    from tgpu.journal.rebuild import Tell

EPILOG = examples(
    "tgpu export journal.ndjson.gz",
    "tgpu export --since 7d week.ndjson.gz",
    "tgpu export --jobs jobs.csv",
    "tgpu export --data-dir /srv/tgpu journal.ndjson.gz",
)
_PIECE = 1 << 20


class ListFormat(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"


def export(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Output file, compressed if it ends in .gz. Default: stdout."
        ),
    ] = None,
    *,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start of the period: 7d (ago), tue 9:30, 2026-11-10."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="End of the period.")] = None,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Only the ended jobs, one per line.")
    ] = False,
    format: Annotated[
        ListFormat | None, typer.Option(help="Format of the job list. Default: by the file name.")
    ] = None,
    commands: Annotated[
        bool,
        typer.Option(
            "--commands", help="Include commands, directories and parameters of the jobs."
        ),
    ] = False,
    database: Database = None,
    config: Config = None,
    data_dir: DataDir = None,
    api_url: ApiUrl = None,
    as_json: Json = False,
) -> None:
    """Write the journal to a file: every event, one JSON object per line.

    `tgpu replay`, `tgpu whatif` and `tgpu sim run` read it. Needs the role admin. Environment
    variables are never included, commands only with --commands.
    """
    from tgpu.cli.environment import now_ms
    from tgpu.cli.output import note, show_json

    now = now_ms()
    bounds = tuple(
        None if text is None else read_option(name, lambda one: parse_past(one, now), text)
        for name, text in (("--since", since), ("--until", until))
    )
    if format is not None and not jobs:
        raise bad_input("--format goes with --jobs; the journal has only one format")
    if as_json and file is None:
        raise bad_input("--json reports what was written, so give a FILE")
    source = JournalSource(None, api_url, database, config, data_dir, commands)
    wants_csv = format is ListFormat.CSV or (format is None and ".csv" in _suffixes(file))
    with opened(source) as journal, reading(journal.header.last_seq) as tell, _target(file) as out:
        written = _Written()
        if jobs:
            lines = _job_lines(journal, bounds, written, wants_csv, tell)
        else:
            lines = _journal_lines(journal, bounds, written, tell)
        for line in lines:
            out.write(line)
    if not journal.is_whole and until is None:
        note("the journal was cut off: its last line is missing")
    where = "stdout" if file is None else str(file)
    if as_json:
        show_json({"file": where, **written.counts})
        return
    counts = written.counts.items()
    told = ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in counts if count)
    note(f"wrote {told or 'nothing (there is nothing)'} to {where}")


class _Stdout:
    """In large pieces: a million lines would each be pushed out by themselves."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        self._data += data
        if len(self._data) >= _PIECE:
            self.flush()

    def flush(self) -> None:
        from tgpu.cli.output import write_bytes

        write_bytes("stdout", bytes(self._data))
        self._data.clear()


class _Written:
    """What there is to say afterwards."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}


Bounds = tuple[int | None, ...]


def _journal_lines(
    journal: "Journal", bounds: Bounds, written: _Written, tell: "Tell | None"
) -> Iterator[bytes]:
    from tgpu.journal.excerpt import excerpt_lines

    written.counts["events"] = 0
    for line, events in excerpt_lines(journal, bounds[0], bounds[1], tell):
        written.counts["events"] += events
        yield line


def _job_lines(
    journal: "Journal", bounds: Bounds, written: _Written, is_csv: bool, tell: "Tell | None"
) -> Iterator[bytes]:
    from tgpu.journal.job_histories import JobHistory
    from tgpu.journal.trace import (
        Listing,
        csv_lines,
        ended_lives,
        ndjson_lines,
        records,
    )

    since, until = bounds

    def is_wanted(life: JobHistory) -> bool:
        came = life.job.submitted_at
        return (since is None or came >= since) and (until is None or came < until)

    listing = Listing()
    rows = records(ended_lives(journal, listing, is_wanted, tell), listing)
    yield from (csv_lines if is_csv else ndjson_lines)(rows)
    written.counts |= {
        "jobs": listing.jobs,
        "not_over_and_left_out": listing.not_over,
        "never_started_and_left_out": listing.never_ran,
    }


def _suffixes(file: Path | None) -> list[str]:
    return [] if file is None else [part.lower() for part in file.suffixes]


@contextmanager
def _target(file: Path | None) -> "Iterator[IO[bytes] | _Stdout | GzipFile]":
    """Nothing is left of a file that was not finished."""
    if file is None:
        out = _Stdout()
        yield out
        out.flush()
        return
    import gzip

    from tgpu.cli.own_files import for_the_owner

    part = file.with_name(file.name + ".part")
    try:
        part.unlink(missing_ok=True)  # of an export that was killed: whoever made it
        with open(part, "xb", opener=for_the_owner) as raw:
            if ".gz" in _suffixes(file):
                # No name and no time in it: the same journal gives the same file.
                with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                    yield packed
            else:
                yield raw
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
