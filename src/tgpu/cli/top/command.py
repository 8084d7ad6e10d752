"""The command `top`. Textual is imported only when it runs: other commands start without it."""

import sys
from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, examples

EPILOG = examples("tgpu top", "tgpu top --interval 5s")


def top(
    interval: Annotated[str, typer.Option(metavar="SPAN", help="Refresh interval.")] = "2s",
    api_url: ApiUrl = None,
) -> None:
    """Watch GPUs, queue and running jobs on the whole screen, and act on them with keys.

    Tab switches between GPUs and jobs, the arrow keys select; the log below belongs to the selected
    job.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.failures import bad_input
    from tgpu.cli.options import read_option
    from tgpu.cli.top.source import ScreenWish, look
    from tgpu.text.durations import parse_duration

    seconds = read_option("--interval", parse_duration, interval)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise bad_input("tgpu top needs a terminal", "in a pipe, use: tgpu status --watch")
    with connected(api_url) as client:
        # Before the screen is taken: who cannot be reached is told in a line.
        first = look(client, ScreenWish())
        from tgpu.cli.top.app import Top

        Top(client, seconds, first).run()
