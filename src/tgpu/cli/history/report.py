"""`tgpu report`: a report of a period, as a page with plots."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.failures import bad_input, bad_option
from tgpu.cli.journals import Config, Database, DataDir, JournalSource, opened, reading
from tgpu.cli.options import ApiUrl, Json, examples, read_option
from tgpu.text.past_instants import parse_past

if TYPE_CHECKING:
    from collections.abc import Callable

    from tgpu.report.page import ReportPicture
    from tgpu.report.prices import Prices

EPILOG = examples(
    "tgpu report",
    "tgpu report --since 30d --out november",
    "tgpu report --since 2026-11-01 --until 2026-12-01 --tenant vision",
    "tgpu report journal.ndjson.gz --since 7d",
    "tgpu report --price A100=1.80 --price H100=3.20 --currency €",
    "tgpu report --json | jq .idle_percent",
)


def report(
    journal: Annotated[
        Path | None,
        typer.Argument(
            metavar="[JOURNAL]", help="A file from `tgpu export`. Default: the running scheduler."
        ),
    ] = None,
    *,
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Start of the period: 7d (ago), tue 9:30, 2026-11-10."),
    ] = "7d",
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="End of the period. Default: now.")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory for the page and the pictures.")
    ] = Path("tgpu-report"),
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="ID", help="Only the jobs of this tenant.")
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE=]N",
            help="Price of a GPU-hour: 2.5, or H100=4 for one type. Repeatable. Default: "
            "billing.cost_per_gpu_hour.",
        ),
    ] = None,
    currency: Annotated[
        str, typer.Option(metavar="SIGN", help="Currency of the prices: €, $, EUR, …")
    ] = "",
    database: Database = None,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Write a report page: use by tenant and user, waiting times, jobs on GPUs, failures.

    The page is self-contained and can be mailed. Each plot is also written as a PNG file if the
    extra `report` is installed. With --json the numbers are printed and no files are written. Needs
    the role admin.
    """
    from tgpu.cli.environment import now_ms
    from tgpu.cli.output import show_json
    from tgpu.report.collect import collect
    from tgpu.report.document import document
    from tgpu.report.figures import figures
    from tgpu.report.page import page, pictures

    prices = _prices(price or [], currency)
    source = JournalSource(journal, api_url, database, config, data_dir)
    with opened(source) as found, reading(found.header.last_seq, is_shown=not as_json) as tell:
        # A file is about the time before it was written, and a manual clock has its own.
        now = found.header.exported_at or now_ms()
        begin = read_option("--since", lambda text: parse_past(text, now), since)
        end = now if until is None else read_option("--until", lambda t: parse_past(t, now), until)
        if begin >= end:
            raise bad_input("--since is not before --until", "turn them around")
        collected = collect(found, begin, end, tenant, tell)
    numbers = figures(collected, prices(collected.price))
    if as_json:
        show_json(document(numbers))
        return
    drawn = pictures(collected, numbers)
    _write(out, page(collected, numbers, drawn), drawn)


def _prices(texts: list[str], currency: str) -> "Callable[[float], Prices]":
    """By the price that was set. What is wrong is said before a long journal is read."""
    from tgpu.report.prices import parse_prices

    try:
        parse_prices(texts, currency, 0.0)
    except ValueError as error:
        raise bad_option("--price", error) from error
    return lambda usual: parse_prices(texts, currency, usual)


def _write(folder: Path, text: str, drawn: "list[ReportPicture]") -> None:
    from tgpu.cli.output import note, say
    from tgpu.cli.own_files import write_own
    from tgpu.cli.render.words import plural
    from tgpu.drawing.plots import framed
    from tgpu.report.png import HOW_TO_INSTALL, NoLibrary, has_fonts, png

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "report.html"
    write_own(target, text.encode())
    made = 0
    for picture in drawn:
        file = folder / f"{picture.name}.png"
        if not picture.svg:
            file.unlink(missing_ok=True)  # one of before would be about another time
            continue
        try:
            write_own(file, png(framed(picture.svg, picture.title, picture.keys)))
        except NoLibrary:
            note(f"no pictures were written; to get them: {HOW_TO_INSTALL}")
            break
        made += 1
    say(str(target))
    if made:
        note(f"and {plural(made, 'picture')} in {folder}")
        if not has_fonts():
            note("this machine has no fonts, so they have no text: apt install fonts-dejavu-core")
