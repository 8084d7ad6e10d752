"""The command `share`: fair shares, entitled and used."""

from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

EPILOG = examples(
    "tgpu share",
    "tgpu share vision",
    "tgpu share --json | jq '.tenants[] | {tenant_id, entitled, used}'",
)


def share(
    tenant: Annotated[
        str | None, typer.Argument(metavar="TENANT", help="Only this tenant, with its users.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show fair shares: entitled, used, and when they will be even.

    Even: if everybody keeps their current GPUs.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.share import share_grid, share_line

    with connected(api_url) as client:
        found = client.share(tenant)
    if as_json:
        show_json(found)
        return
    show_lines(lay_out(share_grid(found, with_users=tenant is not None), width()))
    note(share_line(found))
