"""`--secret NAME`: where the value comes from. Never from the command line itself, which every user
of the machine can read in the process list, and which the shell keeps."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tgpu.text.system_words import system_words

Ask = Callable[[str], str]  # by a variable's name

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES: Final = 65_536


def read_secrets(words: Sequence[str], mine: Mapping[str, str], ask: Ask | None) -> dict[str, str]:
    """NAME is taken from `mine`, or asked for where it is not there; NAME=@FILE from a file.
    ValueError says what to write, and never what was written."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, source = word.partition("=")
        if not _NAME.fullmatch(name):
            raise ValueError("the name of a secret has only letters, digits and _")
        value = _value(name, source if equals else None, mine, ask)
        if not value:
            raise ValueError(f"{name} is empty")
        if "\0" in value:
            raise ValueError(f"{name} has a NUL character in it, which no variable can have")
        found[name] = value
    return found


def _value(name: str, source: str | None, mine: Mapping[str, str], ask: Ask | None) -> str:
    if source is None:
        if name in mine:
            return mine[name]
        if ask is not None:
            return ask(name)
        raise ValueError(
            f"{name} is not set here: export it first, or read it from a file with {name}=@FILE"
        )
    if not source.startswith("@"):
        raise ValueError(
            f"others can read the value here: write {name}, which takes it from your "
            f"environment, or {name}=@FILE"
        )
    return _of_file(name, Path(source[1:]).expanduser())


def _of_file(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{name} cannot be read from {path}: {system_words(error)}") from None
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{path} has more than {_MOST_BYTES} bytes, too many for {name}")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8, so {name} cannot be read from it") from None
    return text.removesuffix("\n").removesuffix("\r")


def terminal() -> Ask | None:
    """Asks whoever sits at the terminal, if somebody does."""
    import sys

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    from getpass import getpass

    return lambda name: getpass(f"{name}: ")
