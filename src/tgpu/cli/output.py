"""Writes to the terminal or a pipe: coloured and fitted there, plain and whole here."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from tgpu.cli.render.grid import Line

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console
    from rich.text import Text


class OutputClosed(Exception):
    """Whoever read our output has gone, as in `tgpu list | head -1`."""


def say(text: str) -> None:
    """A line on standard output."""
    _write(sys.stdout, text + "\n")


def note(text: str) -> None:
    """A line on standard error: what is not the answer itself."""
    _write(sys.stderr, text + "\n")


def show_json(
    value: "BaseModel | Sequence[BaseModel | dict[str, object]] | dict[str, object]",
) -> None:
    say(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def show_lines(lines: Iterable[Line], *, crop: bool = True) -> None:
    """`crop`: a line that is too long for the terminal is cut, and does not go on below."""
    screen = console()
    if screen is None:
        for line in lines:
            say("".join(cell.text for cell in line).rstrip())
        return
    for line in lines:
        text = styled(line)
        if crop:
            screen.print(text, no_wrap=True, overflow="ellipsis", crop=True, highlight=False)
        else:
            screen.print(text, soft_wrap=True, highlight=False)


def width() -> int | None:
    """Columns of the terminal; None where the output is no terminal, and may be of any width."""
    screen = console()
    return None if screen is None else screen.width


def write_bytes(stream: str, data: bytes) -> None:
    """Pass on a job's output as it is: `stream` is stdout or stderr."""
    file = sys.stdout if stream == "stdout" else sys.stderr
    try:
        file.flush()
        file.buffer.write(data)
        file.buffer.flush()
    except BrokenPipeError as error:
        raise OutputClosed from error


def styled(line: Line) -> "Text":
    from rich.text import Text

    text = Text()
    for cell in line:
        text.append(cell.text, style=cell.style or None)
    text.rstrip()
    return text


def console() -> "Console | None":
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console(file=sys.stdout, soft_wrap=False)


def _plain(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _write(file: TextIO, text: str) -> None:
    try:
        file.write(text)
        file.flush()
    except BrokenPipeError as error:
        raise OutputClosed from error
