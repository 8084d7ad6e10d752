"""Commands about the machine: gpus, adopt."""

from typing import Annotated

import typer

from tgpu.cli import environment
from tgpu.cli.options import ApiUrl, Json, examples

GPUS_EPILOG = examples("tgpu gpus", "tgpu gpus --json | jq '.gpus[] | select(.status==\"free\")'")
ADOPT_EPILOG = examples("tgpu adopt 4711", "tgpu adopt 4711 --tenant vision --name notebook")


def gpus(as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show the GPUs: memory, temperature, utilization, jobs and other processes."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.gpus import gpu_grid, provider_line
    from tgpu.cli.render.grid import lay_out

    with connected(api_url) as client:
        found = client.gpus()
    if as_json:
        show_json(found)
    else:
        show_lines(lay_out(gpu_grid(found, environment.now_ms()), width()))
        note(provider_line(found))


def adopt(
    pid: Annotated[
        int, typer.Argument(metavar="PID", min=1, help="A process that `tgpu gpus` shows.")
    ],
    *,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="Tenant of the lease.")
    ] = None,
    queue: Annotated[str, typer.Option(metavar="QUEUE", help="Queue of that tenant.")] = "default",
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="Name of the lease. Default: the command's.")
    ] = "",
    node: Annotated[
        str | None, typer.Option(metavar="NODE", help="Node it runs on, where several are seen.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Turn a process that was started by hand into a lease on its GPUs.

    The lease ends when the process does. Cancelling the lease leaves the process running.
    """
    from tgpu.cli import own_config
    from tgpu.cli.connect import connected
    from tgpu.cli.output import note, say, show_json

    with connected(api_url) as client:
        chosen = own_config.chosen("tenant", tenant)
        tenant_id = None if chosen is None else chosen.value
        found = client.adopt(pid, tenant_id=tenant_id, queue=queue, name=name, node=node)
    if as_json:
        show_json(found)
        return
    say(f"process {pid} is job {found.job_id} now")
    note(f"the lease ends when the process does; see it with: tgpu show {found.job_id}")
