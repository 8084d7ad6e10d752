"""`tgpu db pair`: shows and repairs the pairing of a database and a data directory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.options import DataDir, Json, examples
from tgpu.cli.output import say, show_json
from tgpu.cli.render.words import plural

if TYPE_CHECKING:
    from tgpu.app.pairing import Paired
    from tgpu.settings import Settings

EPILOG = examples(
    "tgpu db pair",
    "tgpu db pair --keep-unknown",
    "tgpu db pair --config tgpu.yaml --take-over",
)

KeepUnknown = Annotated[
    bool,
    typer.Option(
        "--keep-unknown",
        help="Use this database with this data directory; jobs that it does not know run to their "
        "end.",
    ),
]
EndUnknown = Annotated[
    bool, typer.Option("--end-unknown", help="The same, but kill jobs that it does not know.")
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Take over the database from another data directory or machine: its running jobs are "
        "declared lost, and requeued here if they were submitted with --requeue.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings file of the service."),
]


def pair(
    *,
    keep_unknown: KeepUnknown = False,
    end_unknown: EndUnknown = False,
    take_over: TakeOver = False,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show or restore the pairing of database and data directory.

    A service does not start on a database that was restored, deleted, replaced or copied, because
    it would kill jobs or run them twice. Stop the service first.
    """
    from tgpu import app
    from tgpu.app import pairing

    if keep_unknown and end_unknown:
        raise bad_input("--keep-unknown and --end-unknown exclude each other", "give one of them")
    try:
        orders = pairing.Orders(keep_unknown, end_unknown, take_over)
        done = pairing.pair(settings_of(config, data_dir), orders)
    except app.CannotServe as error:
        raise Failure(str(error), code="NOT_PAIRED") from error
    if as_json:
        show_json(_as_json(done))
        return
    _say(done)


def settings_of(config: Path | None, data_dir: Path | None) -> "Settings":
    from tgpu.settings import SettingsError, load_settings

    flags = {"data_dir": None if data_dir is None else data_dir.expanduser().absolute()}
    try:
        return load_settings(config, flags)
    except SettingsError as error:
        raise bad_input(str(error), "`tgpu config-sample` prints all settings") from error


def _as_json(done: "Paired") -> dict[str, object]:
    return {
        "store": done.store,
        "directory": done.directory,
        "engine": done.engine,
        "was_paired": done.was_paired,
        "is_paired": done.is_paired,
        "unknown_jobs": [seen.key.job_id for seen in done.unknown],
        "ended": done.ended,
        "given_up": list(done.given_up),
    }


def _say(done: "Paired") -> None:
    belong = "belong together" if done.is_paired else "do not belong together"
    say(f"{done.store} and {done.directory} (engine {done.engine}) {belong}")
    for seen in () if done.ended else done.unknown:
        say(f"  job {seen.key.job_id} runs (process {seen.pid}) but is not in the database")
    if done.ended:
        say(f"  ended {plural(done.ended, 'job')} that the database does not know")
    if done.given_up:
        say(f"  declared lost at the next start: {', '.join(done.given_up)}")
