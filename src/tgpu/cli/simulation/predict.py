"""The command `predict evaluate`: how well run times are predicted, measured on past jobs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.options import Json, examples

if TYPE_CHECKING:
    from tgpu.cli.render.grid import Grid
    from tgpu.core.prediction.calibration import PastJob, Score

EPILOG = examples("tgpu predict evaluate --history july.csv --test august.csv")
_EVALUATE_EPILOG = examples(
    "tgpu predict evaluate --history july.csv --test august.csv",
    "tgpu predict evaluate --test jobs.csv.gz --predictor limit --json",
)

app = typer.Typer(
    name="predict",
    help="Measure the accuracy of run-time predictions.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def predict() -> None:
    """Measure the accuracy of run-time predictions."""


@app.command("evaluate", epilog=_EVALUATE_EPILOG)
def evaluate(
    test: Annotated[
        Path,
        typer.Option(
            "--test", metavar="FILE", exists=True, dir_okay=False, help="Jobs to predict."
        ),
    ],
    history: Annotated[
        Path | None,
        typer.Option(
            "--history",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Earlier jobs, for learning only.",
        ),
    ] = None,
    predictor: Annotated[
        str,
        typer.Option(
            "--predictor", metavar="NAME", help="history, limit, none, gbm or an installed one."
        ),
    ] = "history",
    as_json: Json = False,
) -> None:
    """Predict each job of a list at its submission, from the jobs that had ended by then.

    Lists are CSV, plain or gzip, with the columns submit_s, duration_s and gpu_num; user, name,
    command, gpu_type, vc or tenant, time_limit_s and end_s are used if present.
    """
    from tgpu.cli.failures import bad_input
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.simulation.command import sentences
    from tgpu.core.prediction.calibration import LastTwo, outcomes, score
    from tgpu.predictors import Gbm, load_predictor
    from tgpu.simulate.past_jobs import read_past_jobs

    try:
        made = load_predictor(predictor)()
    except (ValueError, ImportError) as error:
        raise bad_input(f"--predictor: {error}") from error
    if isinstance(made, Gbm):
        made.in_background = False  # the same result each time, however busy the machine is
    jobs: list[PastJob] = []
    with sentences():
        if history is not None:
            jobs += read_past_jobs(history)
        jobs += read_past_jobs(test, scored=True)
    try:
        found = score(outcomes(jobs, made))
    except ValueError as error:
        raise bad_input(f"{test}: {error}", "give earlier jobs with --history") from error
    try:
        baseline = score(outcomes(jobs, LastTwo()))
    except ValueError:
        baseline = None
    if as_json:
        show_json(
            {
                "predictor": {"name": predictor, **_as_json(found)},
                "last_two": None if baseline is None else _as_json(baseline),
            }
        )
        return
    scores = {predictor: found} if baseline is None else {predictor: found, "last two": baseline}
    show_lines(lay_out(_grid(scores), width()))
    note(_levels_line(found))


def _as_json(score: "Score") -> dict[str, object]:
    return {
        "jobs": score.jobs,
        "unpredicted": score.unpredicted,
        "under_p50": round(score.under_p50, 4),
        "under_p90": round(score.under_p90, 4),
        "median_error_seconds": score.median_error_ms / 1000,
        "mean_error_seconds": score.mean_error_ms / 1000,
        "rank_correlation": round(score.rank_correlation, 4),
        "levels": dict(score.levels),
    }


def _grid(scores: "dict[str, Score]") -> "Grid":
    from tgpu.cli.render.grid import Cell, Column, Grid

    titles = ("JOBS", "UNDER P50", "UNDER P90", "MEDIAN ERROR", "MEAN ERROR", "RANK CORRELATION")
    return Grid(
        (Column("PREDICTOR"), *(Column(title, right=True) for title in titles)),
        tuple(
            tuple(
                Cell(text)
                for text in (
                    name,
                    f"{score.jobs:,}",
                    f"{score.under_p50:.1%}",
                    f"{score.under_p90:.1%}",
                    f"{score.median_error_ms / 1000:,.0f}s",
                    f"{score.mean_error_ms / 1000:,.0f}s",
                    f"{score.rank_correlation:.3f}",
                )
            )
            for name, score in scores.items()
        ),
    )


def _levels_line(score: "Score") -> str:
    told = [f"{level} {count / score.jobs:.0%}" for level, count in score.levels]
    untold = f"; no prediction for {score.unpredicted:,}" if score.unpredicted else ""
    return f"predicted from similar jobs, by level: {', '.join(told)}{untold}"
