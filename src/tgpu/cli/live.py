"""Shows a view again and again: in place on a terminal, one after the other in a pipe."""

import time
from collections.abc import Callable

from tgpu.cli.output import console, say, show_lines, styled
from tgpu.cli.render.grid import Cell, Line
from tgpu.client.errors import Lost, NoService

View = Callable[[int | None], list[Line]]  # the width it may take


def repeat(view: View, seconds: float) -> None:
    """Until it is interrupted. The first look must succeed; later a restart is sat out."""
    screen = console()
    if screen is None:
        while True:
            show_lines(view(None))
            say("")
            time.sleep(seconds)
    from rich.console import Group
    from rich.live import Live

    lines = view(screen.width)
    with Live(console=screen, screen=True, auto_refresh=False, transient=True) as live:
        while True:
            shown = lines[: screen.height - 1]
            live.update(Group(*(styled(line) for line in shown)), refresh=True)
            time.sleep(seconds)
            lines = _look(view, screen.width, lines)


def _look(view: View, width: int, before: list[Line]) -> list[Line]:
    try:
        return view(width)
    except (NoService, Lost):
        gone: Line = (Cell("the scheduler does not answer; this is how it was before", "red"),)
        return [gone, *(line for line in before if line != gone)]
