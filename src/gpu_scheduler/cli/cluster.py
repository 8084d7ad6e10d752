"""Commands about the machine: status, gpus, pause-gpu, resume-gpu."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpu_scheduler.cli import environment
from gpu_scheduler.cli.options import ApiUrl, Json, examples

if TYPE_CHECKING:
    from gpu_scheduler.cli.render.grid import Line
    from gpu_scheduler.client.http import Client

STATUS_EPILOG = examples("tgpu status", "tgpu status --watch", "tgpu status --detailed --json")
GPUS_EPILOG = examples("tgpu gpus", "tgpu gpus --json | jq '.gpus[] | select(.status==\"free\")'")
PAUSE_EPILOG = examples('tgpu pause-gpu 3 --reason "fan is loud"', "tgpu resume-gpu 3")
RESUME_EPILOG = examples("tgpu resume-gpu 3")

ADOPT_EPILOG = examples("tgpu adopt 4711", "tgpu adopt 4711 --tenant vision --name notebook")

Interval = Annotated[str, typer.Option(metavar="SPAN", help="Pause between two looks.")]
GpuIndex = Annotated[
    int, typer.Argument(metavar="GPU", min=0, help="Index, as `tgpu gpus` has it.")
]


def status(
    detailed: Annotated[
        bool, typer.Option("--detailed", "-d", help="Also settings and GPU processes.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again and again.")] = False,
    interval: Interval = "2s",
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show the scheduler, its jobs in numbers, and the GPUs."""
    from gpu_scheduler.cli.connect import connected
    from gpu_scheduler.cli.durations import parse_duration
    from gpu_scheduler.cli.live import repeat
    from gpu_scheduler.cli.options import read_option
    from gpu_scheduler.cli.output import show_json, show_lines, width

    seconds = read_option("--interval", parse_duration, interval)
    with connected(api_url) as client:
        if as_json:
            show_json(client.cluster_status())
        elif watch:
            repeat(lambda width: _status_lines(client, detailed, width), seconds)
        else:
            show_lines(_status_lines(client, detailed, width()))


def gpus(as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show the GPUs: memory, heat, use, the jobs on them, and who else uses them."""
    from gpu_scheduler.cli.connect import connected
    from gpu_scheduler.cli.output import note, show_json, show_lines, width
    from gpu_scheduler.cli.render.gpus import gpu_grid, provider_line
    from gpu_scheduler.cli.render.grid import lay_out

    with connected(api_url) as client:
        found = client.gpus()
    if as_json:
        show_json(found)
    else:
        show_lines(lay_out(gpu_grid(found, environment.now_ms()), width()))
        note(provider_line(found))


def pause_gpu(
    gpu: GpuIndex,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Shown to all who ask why jobs wait.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Start no further jobs on a GPU. What runs there goes on."""
    from gpu_scheduler.cli.connect import connected
    from gpu_scheduler.cli.output import note, say, show_json

    with connected(api_url) as client:
        found = client.pause_gpu(gpu, reason)
    if as_json:
        show_json(found)
        return
    say(f"GPU {found.index} is paused: {found.paused}")
    if found.jobs:
        note(f"still running there: job {', '.join(found.jobs)}")
    note(f"use it again with: tgpu resume-gpu {found.index}")


def resume_gpu(gpu: GpuIndex, as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Let jobs start on a paused GPU again."""
    from gpu_scheduler.cli.connect import connected
    from gpu_scheduler.cli.output import say, show_json

    with connected(api_url) as client:
        found = client.resume_gpu(gpu)
    if as_json:
        show_json(found)
    else:
        say(f"GPU {found.index} takes jobs again (now {found.status})")


def adopt(
    pid: Annotated[
        int, typer.Argument(metavar="PID", min=1, help="A process that `tgpu gpus` shows.")
    ],
    *,
    tenant: Annotated[
        str, typer.Option("--tenant", metavar="TENANT", help="Whose lease it becomes.")
    ] = "default",
    queue: Annotated[
        str, typer.Option(metavar="QUEUE", help="In which of its queues.")
    ] = "default",
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="Name of the lease; the command's by default.")
    ] = "",
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Make a process that was started by hand a lease of the GPUs it is on.

    The lease ends when the process does. Cancelling it leaves the process alone.
    """
    from gpu_scheduler.cli.connect import connected
    from gpu_scheduler.cli.output import note, say, show_json

    with connected(api_url) as client:
        found = client.adopt(pid, tenant_id=tenant, queue=queue, name=name)
    if as_json:
        show_json(found)
        return
    say(f"process {pid} is job {found.job_id} now")
    note(f"the lease ends when the process does; see it with: tgpu show {found.job_id}")


def _status_lines(client: "Client", detailed: bool, width: int | None) -> "list[Line]":
    from gpu_scheduler.cli.render.gpus import (
        gpu_grid,
        process_lines,
        status_details,
        status_facts,
    )
    from gpu_scheduler.cli.render.grid import Cell, lay_out

    blank: Line = (Cell(""),)
    found = client.gpus()
    status = client.cluster_status()
    lines = status_facts(status)
    lines += status_details(status) if detailed else []
    lines += [blank, *lay_out(gpu_grid(found, environment.now_ms()), width)]
    processes = process_lines(found) if detailed else []
    return [*lines, blank, *processes] if processes else lines
