"""Commands about the state of the scheduler: status, metrics, health."""

from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli import environment
from tgpu.cli.options import ApiUrl, Json, examples

if TYPE_CHECKING:
    from tgpu.cli.render.grid import Line
    from tgpu.client.http import Client

STATUS_EPILOG = examples(
    "tgpu status",
    "tgpu status --watch",
    "tgpu status --detailed",
    "tgpu status --json | jq '.resources'",
)
METRICS_EPILOG = examples("tgpu metrics", "tgpu metrics --json | jq '.gpus[].mean_percent'")
HEALTH_EPILOG = examples("tgpu health", "tgpu health || tgpu doctor")

Interval = Annotated[str, typer.Option(metavar="SPAN", help="Refresh interval.")]

_LISTED = 20  # running jobs that --detailed names
_MOST = 1000  # … and that --json has


def status(
    detailed: Annotated[
        bool,
        typer.Option(
            "--detailed", "-d", help="Include the queue, running jobs, settings and processes."
        ),
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    interval: Interval = "2s",
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show the state of the scheduler: job counts and GPUs."""
    from tgpu.cli.connect import connected
    from tgpu.cli.live import Frame, repeat
    from tgpu.cli.options import read_option
    from tgpu.cli.output import show_json, show_lines, width
    from tgpu.text.durations import parse_duration

    seconds = read_option("--interval", parse_duration, interval)
    look = _detailed_lines if detailed else _status_lines
    with connected(api_url) as client:
        if as_json:
            show_json(_as_json(client))
        elif watch:
            repeat(lambda width: Frame(look(client, width), more="tgpu status"), seconds)
        else:
            show_lines(look(client, width()))


def metrics(as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show how long jobs ran and how busy the GPUs were.

    Run times of the last thousand finished jobs; utilization since the scheduler started.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.output import show_json, show_lines, width
    from tgpu.cli.render.status import metrics_lines

    with connected(api_url) as client:
        found = client.cluster_metrics()
    if as_json:
        show_json(found)
    else:
        show_lines(metrics_lines(found, width()))


def health(as_json: Json = False, api_url: ApiUrl = None) -> int:
    """Show whether the scheduler is healthy; exit code 1 if not."""
    from tgpu.cli.connect import connected
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.output import show_json, show_lines
    from tgpu.cli.render.status import health_lines

    with connected(api_url) as client:
        found = client.health()
    if as_json:
        show_json(found)
    else:
        show_lines(health_lines(found))
    return ExitCode.OK if found.status == "healthy" else ExitCode.FAILURE


def _status_lines(client: "Client", width: int | None) -> "list[Line]":
    from tgpu.cli.render.gpus import gpu_grid, status_facts
    from tgpu.cli.render.grid import Cell, lay_out

    found = client.gpus()
    blank: Line = (Cell(""),)
    lines = status_facts(client.cluster_status())
    return [*lines, blank, *lay_out(gpu_grid(found, environment.now_ms()), width)]


def _detailed_lines(client: "Client", width: int | None) -> "list[Line]":
    from tgpu.cli.render.status import StatusReading, detailed_lines

    active = client.list_jobs(states=["running", "scheduled"], limit=_LISTED, fold=True)
    look = StatusReading(
        client.cluster_status(),
        client.cluster_metrics(),
        client.gpus(),
        active.jobs,
        client.health(),
        active.next_cursor is None,
    )
    return detailed_lines(look, environment.now_ms(), width)


def _as_json(client: "Client") -> dict[str, object]:
    """The facts of the service, and what a script would otherwise ask for one by one."""
    found, gpus = client.cluster_status(), client.gpus()
    active = client.list_jobs(states=["running", "scheduled"], limit=_MOST).jobs
    measured = client.cluster_metrics()
    return {
        **found.model_dump(mode="json"),
        "status": "running",
        "jobs_processed": measured.ended_jobs,
        "queue": {"total": found.pending_jobs, **measured.waiting.model_dump()},
        "resources": {
            "total_gpus": found.total_gpus,
            "available_gpus": found.available_gpus,
            "gpus": [gpu.model_dump(mode="json") for gpu in gpus.gpus],
        },
        "active_jobs": [
            {
                "job_id": job.job_id,
                "name": job.name,
                "command": job.command,
                "gpus": job.gpus,
                "gpu_names": job.gpu_names,
            }
            for job in active
        ],
        "health": client.health().model_dump(mode="json"),
    }
