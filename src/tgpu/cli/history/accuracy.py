"""The command `accuracy`: how often jobs started within their estimate."""

from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

EPILOG = examples(
    "tgpu accuracy",
    "tgpu accuracy --days 7 --tenant vision",
    "tgpu accuracy --json | jq .total.before_p90",
)


def accuracy(
    days: Annotated[
        float, typer.Option("--days", metavar="N", help="Jobs that started in the last N days.")
    ] = 30,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="ID", help="Only this tenant.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show how often waiting jobs started when they were estimated to.

    Measured against the first estimate of each job.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.failures import bad_input
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.estimate import accuracy_grid, accuracy_line
    from tgpu.cli.render.grid import lay_out

    if not days > 0:
        raise bad_input(f"--days: must be above 0 (got {days:g})")
    with connected(api_url) as client:
        found = client.accuracy(days, tenant)
    if as_json:
        show_json(found)
        return
    if found.total.jobs:
        show_lines(lay_out(accuracy_grid(found), width()))
    note(accuracy_line(found))
