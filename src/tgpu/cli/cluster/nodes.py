"""The command `nodes`: the machines, also those that only report."""

from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

EPILOG = examples(
    "tgpu nodes",
    "tgpu nodes --json | jq '.nodes[] | select(.state==\"offline\") | .name'",
    "tgpu nodes --forget gpu-box-3",
)


def nodes(
    forget: Annotated[
        str | None,
        typer.Option(metavar="NODE", help="Remove an offline node for good."),
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show the nodes: online or not, their GPUs and their health."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import say, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.nodes import node_grid

    with connected(api_url) as client:
        if forget is not None:
            client.forget_node(forget)
        found = client.nodes()
    if as_json:
        show_json(found)
    elif forget is not None:
        say(f"node {forget} is forgotten")
    else:
        show_lines(lay_out(node_grid(found), width()))
