"""Refreshes a view: in place on a terminal, one after the other in a pipe."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tgpu.cli.environment import now_ms
from tgpu.cli.output import console, say, show_lines, styled
from tgpu.cli.render.grid import Cell, Line
from tgpu.client.errors import Lost, NoService

_LEAST: Final = 6  # lines from which on there is room for more than the table


@dataclass(frozen=True, slots=True)
class Frame:
    """One look. `body` is cut where the screen ends, `foot` stands below it."""

    body: list[Line]
    foot: tuple[Line, ...] = ()
    more: str = ""  # the command that shows what was cut
    is_part: bool = False  # there is more than the body has


View = Callable[[int | None], Frame]  # the width it may take


def repeat(view: View, seconds: float) -> None:
    """Until it is interrupted. The first look must succeed; later a restart is sat out."""
    screen = console()
    if screen is None or screen.is_dumb_terminal:
        width = None if screen is None else screen.width
        while True:
            frame = view(width)
            show_lines([_clock(seconds), *frame.body, *frame.foot])
            say("")
            time.sleep(seconds)
    from rich.console import Group
    from rich.live import Live

    frame = view(screen.width)
    with Live(console=screen, screen=True, auto_refresh=False, transient=True) as live:
        while True:
            due = time.monotonic() + seconds
            while True:  # once a second: the clock goes on, and another size is used at once
                shown = fitted(frame, _clock(seconds), screen.height)
                live.update(Group(*(styled(line) for line in shown)), refresh=True)
                if (left := due - time.monotonic()) <= 0:
                    break
                time.sleep(min(1.0, left))
            frame = _look(view, screen.width, frame)


def fitted(frame: Frame, clock: Line, height: int) -> list[Line]:
    """So much of it as the screen has lines for; what is cut is told, and how to see it."""
    if height < _LEAST:
        return frame.body[:height]
    room = height - 1 - len(frame.foot)
    shown = frame.body
    if len(shown) + frame.is_part > room:
        shown = shown[: room - 1]
    left_out = len(frame.body) - len(shown)
    if left_out or frame.is_part:
        count = f"{left_out} more" if left_out else "more"
        others = ", and others" if left_out and frame.is_part else ""
        shown = [*shown, (Cell(f"… {count}{others}: {frame.more}", "dim"),)]
    return [clock, *shown, *frame.foot]


def _clock(seconds: float) -> Line:
    now = datetime.fromtimestamp(now_ms() / 1000).astimezone()
    return (Cell(f"{now:%H:%M:%S}", "bold"), Cell(f"  every {seconds:g}s"))


def _look(view: View, width: int, before: Frame) -> Frame:
    try:
        return view(width)
    except (NoService, Lost):
        gone: Line = (Cell("the scheduler does not answer; showing the last known state", "red"),)
        rest = [line for line in before.body if line != gone]
        return replace(before, body=[gone, *rest])
