"""`tgpu budget`: how much of their budgets tenants have spent, and when they run out."""

from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

EPILOG = examples(
    "tgpu budget",
    "tgpu budget vision",
    "tgpu budget --json | jq '.budgets[] | select(.used_up) | .tenant_id'",
    "tgpu tenants change vision --budget-hours 500 --budget-action hold",
)


def budget(
    tenant: Annotated[
        str | None, typer.Argument(metavar="[TENANT]", help="Id of a tenant; all by default.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show the budgets of tenants: spent, left, and when they run out."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.budgets import budget_grid
    from tgpu.cli.render.grid import lay_out

    with connected(api_url) as client:
        found = client.budgets(tenant)
    if as_json:
        show_json(found)
    elif not found.budgets:
        who = "no tenant has a budget" if tenant is None else f"tenant {tenant} has no budget"
        name = tenant or "TENANT"
        note(f"{who}; to set one: tgpu tenants change {name} --budget-hours 500")
    else:
        show_lines(lay_out(budget_grid(found), width()))
        note("hours are GPU-hours; windows begin at midnight UTC")
