"""Commands about simulations: run one, compare several. They need no service."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.options import Json, examples
from tgpu.cli.simulation.pack import EPILOG as PACK_EPILOG
from tgpu.cli.simulation.pack import pack
from tgpu.text.json_words import json_words
from tgpu.text.system_words import system_words

if TYPE_CHECKING:
    from tgpu.simulate.problems import BadInput
    from tgpu.simulate.rows import TraceRows
    from tgpu.simulate.world import Cluster

EPILOG = examples(
    "tgpu sim run --trace jobs.csv --cluster 100x8 --policy fifo",
    "tgpu sim compare fifo.json fairshare.json",
    "tgpu sim pack --pods pods.csv --nodes 100x8xA100",
)
_RUN_EPILOG = examples(
    "tgpu sim run --trace jobs.csv --cluster 100x8 --policy fifo",
    "tgpu sim run --trace jobs.csv.gz --cluster a=20x8xA100,b=2x8xH100 --html out.html",
    "tgpu sim run --trace philly.csv.gz --cluster vcs.csv --nodes nodes_tight75 --backfill strict",
    "tgpu sim run --trace synthetic:10000 --cluster 50x8 --seed 7 --json > easy.json",
    "tgpu sim run --trace jobs.csv --cluster 100x8 --config gpu-scheduler.yaml",
)
_COMPARE_EPILOG = examples(
    "tgpu sim compare fifo.json easy.json fairshare.json",
    "tgpu sim compare *.json --json | jq '.runs[].summary.wait_s.mean'",
)

app = typer.Typer(
    name="sim",
    help="Simulate a cluster on a list of jobs, with the scheduler's own decisions.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("pack", epilog=PACK_EPILOG)(pack)


class SimulatedBackfill(StrEnum):
    GREEDY = "greedy"
    EASY = "easy"
    CONSERVATIVE = "conservative"
    STRICT = "strict"


# Its name in earlier versions.
OldBackfill = Annotated[SimulatedBackfill | None, typer.Option("--passing", hidden=True)]


class Placing(StrEnum):
    FRAGMENTATION = "fragmentation"
    CONSOLIDATED = "consolidated"


class Limited(StrEnum):
    GIVEN = "given"
    NONE = "none"
    TRUE = "true"


@app.command("run", epilog=_RUN_EPILOG)
def run(
    *,
    trace: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Jobs: CSV, NDJSON, SWF or a journal (tgpu export), also .gz; synthetic:N "
            "generates N.",
        ),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Nodes: CSV, JSON, YAML, or written as 100x8 or a=20x8xA100,b=2x8. Default: "
            "those of the journal.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Simulate the service of this settings file; default: the service's defaults. "
            "The options below override it.",
        ),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="Scheduling policy, as scheduler.policy.")
    ] = None,
    backfill: Annotated[
        SimulatedBackfill | None,
        typer.Option(help="Backfill mode, as scheduler.backfill."),
    ] = None,
    passing: OldBackfill = None,
    placement: Annotated[
        Placing | None, typer.Option(help="Placement strategy, as scheduler.placement.")
    ] = None,
    hold_after: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Jobs that have waited this long are no longer overtaken, as "
            "scheduler.hold_after_seconds; 0 for never.",
        ),
    ] = None,
    preemption: Annotated[
        bool | None,
        typer.Option(
            "--preemption/--no-preemption",
            help="Preempt running jobs for more important ones, or as the policy says, as "
            "scheduler.enable_preemption.",
        ),
    ] = None,
    keep_work: Annotated[
        bool,
        typer.Option(
            "--keep-work",
            help="Preempted jobs keep their work, at a cost of 40 s (60 s above 8 GPUs).",
        ),
    ] = False,
    limits: Annotated[
        Limited,
        typer.Option(
            help="Time limits: those given in the file, none, or the true durations (as if the "
            "future were known)."
        ),
    ] = Limited.GIVEN,
    predictor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What predicts run times for shortest and quickest, as prediction.predictor: "
            "history, gbm, limit, none or an installed one; truth knows the future, for "
            "comparison.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="Earlier jobs to learn from, as CSV."
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the cluster file with the node counts."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Format of the trace: csv, ndjson, swf, muri or openb."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of synthetic traces.")] = 0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip invalid lines, and count them.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write a page with plots to this file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the result as JSON to this file.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Partitions simulated in parallel. Default: one per processor."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate a list of jobs on a cluster.

    The service's own code decides which job starts when and where, with its defaults or with the
    settings of --config. The same input gives the same result.
    """
    from time import perf_counter

    from tgpu.cli.output import note, say, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.sim import headline, run_grid
    from tgpu.cli.simulation.journal import cluster_of
    from tgpu.cli.simulation.settings import simulated_service
    from tgpu.simulate.clusters import read_cluster
    from tgpu.simulate.jobs import Jobs, SimulatedLimits
    from tgpu.simulate.problems import BadInput
    from tgpu.simulate.report import SimulatedRun, report
    from tgpu.simulate.run import simulate

    backfill = backfill or passing
    service = simulated_service(
        config,
        {
            "scheduler.policy": policy,
            "scheduler.backfill": None if backfill is None else backfill.value,
            "scheduler.placement": None if placement is None else placement.value,
            "scheduler.hold_after_seconds": _hold_seconds(hold_after),
            "scheduler.enable_preemption": preemption,
            "prediction.predictor": predictor,
        },
        keep_work=keep_work,
    )
    if service.is_told_the_future:
        limits = Limited.TRUE
    if nodes is not None and (cluster is None or not Path(cluster).exists()):
        raise bad_input("--nodes names a column of a file, and --cluster names none")
    _check_place("--html", html)
    _check_place("--out", out)
    with sentences():
        setting = service.setting(history)
        machines = cluster_of(trace) if cluster is None else read_cluster(cluster, nodes)
        machines = service.with_tenants(machines)
        rows = _rows(trace, format, machines, seed)
        jobs = Jobs(rows, machines, SimulatedLimits(limits.value))
        if jobs.problems and not skip_bad:
            raise BadInput(rows.file, jobs.problems, may_skip=True)
    if jobs.problems:
        counted = BadInput(rows.file, jobs.problems).counts()
        told = ", ".join(f"{kind}: {count:,}" for kind, count in counted.items())
        note(f"left out {len(jobs.problems):,} invalid lines ({told})")
    if not jobs.arrivals:
        raise bad_input(f"{rows.file}: it has no jobs that could run")
    began = perf_counter()
    with _predicting(), progress(len(jobs.arrivals)) as tell:
        result = simulate(jobs.arrivals, machines, setting, tell=tell, processes=processes)
    took = perf_counter() - began
    what = SimulatedRun(
        trace=rows.file,
        cluster=_cluster_name(cluster, nodes),
        policy=service.policy,
        backfill=setting.scheduling.rules.backfill.value,
        placement=setting.scheduling.placement.value,
        limits=limits.value,
        seed=seed if rows.format == "synthetic" else None,
        skipped=len(jobs.problems),
        seconds=round(took, 3),
        **service.told(),
    )
    document = report(what, machines, result)
    if out is not None:
        _write(out, document)
    if html is not None:
        from tgpu.simulate.page import page

        html.write_text(page(document, result), encoding="utf-8")
        note(f"wrote {html}")
    if as_json:
        show_json(document)
        return
    say(headline(document))
    show_lines(lay_out(run_grid([document]), width()))


@app.command("compare", epilog=_COMPARE_EPILOG)
def compare(
    results: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Results of `tgpu sim run --json`.")
    ],
    as_json: Json = False,
) -> None:
    """Show the results of several simulations side by side."""
    from tgpu.cli.output import show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.sim import run_grid

    documents = [_read(path) for path in results]
    if as_json:
        runs = [
            {"file": str(path), "run": one["run"], "summary": one["summary"]}
            for path, one in zip(results, documents, strict=True)
        ]
        show_json({"runs": runs})
        return
    names = [path.name.removesuffix(".json") for path in results]
    show_lines(lay_out(run_grid(documents, names), width()))


def _hold_seconds(text: str | None) -> int | None:
    from math import ceil

    from tgpu.cli.options import read_option
    from tgpu.text.durations import parse_duration

    if text in (None, "0"):
        return None if text is None else 0
    return ceil(read_option("--hold-after", parse_duration, text or ""))


@contextmanager
def _predicting() -> Iterator[None]:
    from tgpu.cli.simulation.predictor import PredictorFailed

    try:
        yield
    except PredictorFailed as error:
        raise bad_input(f"--predictor: {error}") from error


def _check_place(option: str, path: Path | None) -> None:
    """Before the simulation, which may take long."""
    if path is None:
        return
    if path.is_dir():
        raise bad_input(f"{option}: {path} is a directory; the name of a file is right")
    if not path.parent.is_dir():
        raise bad_input(f"{option}: there is no directory {path.parent}")


def _cluster_name(cluster: str | None, nodes: str | None) -> str:
    if cluster is None:
        return "its own cluster"
    return Path(cluster).name + (f" ({nodes})" if nodes else "")


def _rows(trace: str, format: str | None, cluster: "Cluster", seed: int) -> "TraceRows":
    from tgpu.cli.simulation.journal import is_journal, rows_of
    from tgpu.simulate.synthetic import PREFIX, synthetic
    from tgpu.simulate.traces import read_trace

    if trace.startswith(PREFIX):
        count = trace.removeprefix(PREFIX)
        if not count.isdecimal() or not int(count):
            raise bad_input(f"--trace: {trace} has no number of jobs; write synthetic:1000")
        return synthetic(int(count), cluster, seed)
    if format is None and is_journal(trace):
        return rows_of(trace)
    path = Path(trace)
    if not path.is_file():
        raise bad_input(f"--trace: there is no file {trace}", "synthetic:1000 generates 1,000 jobs")
    try:
        return read_trace(path, format)
    except OSError as error:
        raise bad_input(f"--trace: {trace} cannot be read: {system_words(error)}") from error


@contextmanager
def sentences() -> Iterator[None]:
    from tgpu.simulate.problems import BadInput

    try:
        yield
    except BadInput as error:
        raise _refused(error) from error
    except ValueError as error:
        raise bad_input(str(error)) from error


def _refused(error: "BadInput") -> Failure:
    details: list[object] = [
        {"line": one.line, "column": one.column, "problem": one.text, "kind": one.kind}
        for one in error.problems[:1000]
    ]
    failure = bad_input(str(error), "--skip-bad leaves such lines out" if error.may_skip else "")
    failure.details = details
    return failure


@contextmanager
def progress(jobs: int, what: str = "jobs") -> Iterator[Callable[[int], None] | None]:
    """A bar on standard error, where somebody looks."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(what, *columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=jobs)
        yield lambda more: bar.advance(task, more)


def _write(path: Path, document: dict[str, Any]) -> None:
    import json

    path.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    import json

    from tgpu.simulate.report import is_report

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise bad_input(f"{path} cannot be read: {system_words(error)}") from error
    except ValueError as error:
        raise bad_input(f"{path} is not JSON: {json_words(str(error))}") from error
    if not is_report(found):
        raise bad_input(f"{path} is not a result of a simulation", "tgpu sim run … --json > FILE")
    assert isinstance(found, dict)
    run = found["run"]
    run.setdefault("backfill", run.pop("passing", ""))  # its name in earlier versions
    return found
