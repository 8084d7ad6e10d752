"""`tgpu notices`: the targets of notices, and a test."""

from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

if TYPE_CHECKING:
    from tgpu.cli.render.grid import Grid
    from tgpu.wire.notices_v1 import NoticeList

_LIST_EPILOG = examples("tgpu notices list", "tgpu notices list --json | jq '.notices[].problem'")
_TEST_EPILOG = examples(
    "tgpu notices test", "tgpu notices test ops-mail", "tgpu notices test --json"
)

app = typer.Typer(
    help="Notifications by mail, webhook, Slack or on the desktop.",
    epilog=examples("tgpu notices list", "tgpu notices test"),
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("list", epilog=_LIST_EPILOG)
def list_notices(as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show who is notified of what, and whether it works."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out

    with connected(api_url) as client:
        found = client.list_notices()
    if as_json:
        show_json(found)
    elif found.notices:
        show_lines(lay_out(_grid(found), width()))
    else:
        note("no notices are configured in the settings of the service")


@app.command("test", epilog=_TEST_EPILOG)
def try_out(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of a target. Default: all.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Send a test notification. Exit code 1 if one was not delivered."""
    from tgpu.cli.connect import connected
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.failures import bad_input
    from tgpu.cli.output import say, show_json
    from tgpu.cli.render.grid import clean

    with connected(api_url) as client:
        names = [name] if name else [each.name for each in client.list_notices().notices]
        if not names:
            raise bad_input("no notices are configured in the settings of the service")
        tried = [client.try_notice(each) for each in names]
    if as_json:
        show_json(tried)
    else:
        for each in tried:
            what = f"sent in {each.seconds:g} s" if each.ok else f"not sent: {each.problem}"
            say(clean(f"{each.name}: {what} ({each.where})"))
    return ExitCode.OK if all(each.ok for each in tried) else ExitCode.FAILURE


def _grid(found: "NoticeList") -> "Grid":
    from tgpu.cli.render.grid import Cell, Column, Grid, clean

    columns = (
        Column("NAME"),
        Column("KIND"),
        Column("SENT", right=True),
        Column("DROPPED", right=True, leave_out=2),
        Column("EVENTS", least=12),
        Column("WHERE", least=16, leave_out=1),
        Column("PROBLEM", least=8),
    )
    rows = tuple(
        (
            Cell(clean(each.name)),
            Cell(each.kind),
            Cell(str(each.sent)),
            Cell(str(each.dropped)),
            Cell(clean(", ".join(each.events))),
            Cell(clean(each.where)),
            Cell(clean(each.problem or "-"), "red" if each.problem else ""),
        )
        for each in found.notices
    )
    return Grid(columns, rows)
