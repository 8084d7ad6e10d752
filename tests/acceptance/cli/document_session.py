"""A document's session run for real: its commands in a terminal, its output compared with theirs.

What changes from run to run (times, process ids, how far things have got) counts for nothing.
"""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.cli.conftest import Box

_SECONDS = 60.0
_COLUMNS = 220  # nothing is cut
_READS = ("tgpu list", "tgpu why")  # asked again until they show what the document shows
_MASKS = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE"),
    (r"^( *starts +).*", r"\1ESTIMATE"),
    (r"--cwd \S+", "--cwd HERE"),
    (r"[<>]?\b\d+[dhms](?:\d+[hms])*(?:-\d+[dhms](?:\d+[hms])*)?(?![\w.])", "TIME"),
    (r"\(pid \d+\)", "(pid N)"),
    (r"\d+/(\d+) done(?:, \d+ running)?", r"N/\1 done"),
    (r"\d+ running, \d+ waiting, \d+ over; \d+ of (\d+)", r"counts of \1"),
    (r"cancelled by \w+", "cancelled by USER"),
    (r"(job \d+ +)\w+( +\d+  GPU )", r"\1USER\2"),
    (r" +", " "),
)


@dataclass(frozen=True, slots=True)
class Step:
    """Commands for a shell, and what a document shows of their output; "" where nothing."""

    commands: tuple[str, ...]
    shown: str


def prompted(text: str) -> list[Step]:
    """The steps of a block with a prompt: `$ command`, then its output."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    cut = (part.partition("\n") for part in parts)
    return [Step((command,), shown.strip("\n")) for command, _, shown in cut]


def blocks(text: str, language: str = "[a-z]*") -> list[tuple[str, str]]:
    """(language, content) of every fenced block."""
    return re.findall(rf"^```({language})\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def masked(text: str) -> list[str]:
    """Its lines without what differs from run to run."""
    for pattern, instead in _MASKS:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return [line.strip() for line in text.splitlines() if line.strip()]


def follow(box: Box, steps: list[Step], cwd: Path) -> None:
    """Run them all. Fails where what is shown does not stand, line after line, in the output."""
    for step in steps:
        outputs = {command: _run(box, command, cwd) for command in step.commands}
        wanted = masked(step.shown)
        reads = [command for command in step.commands if command.startswith(_READS)]
        deadline = time.monotonic() + _SECONDS
        while not _is_in(wanted, masked("".join(outputs.values()))):
            if not reads or time.monotonic() > deadline:
                break
            outputs |= {command: _run(box, command, cwd) for command in reads}
        printed = "".join(outputs.values())
        assert _is_in(wanted, masked(printed)), (
            f"{step.commands} print something else than the document shows.\n"
            f"-- shown --\n{step.shown}\n-- printed --\n{printed}"
        )


def _is_in(wanted: list[str], found: list[str]) -> bool:
    last = len(found) - len(wanted)
    return any(found[at : at + len(wanted)] == wanted for at in range(last + 1))


def _run(box: Box, command: str, cwd: Path) -> str:
    """What a command prints to a wide terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, _COLUMNS, 0, 0))
    environ = box.environ | {"NO_COLOR": "1", "TERM": "xterm", "COLUMNS": str(_COLUMNS)}
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    found = bytearray()
    with contextlib.suppress(OSError):  # EIO: the last writer is gone
        while piece := os.read(ours, 1 << 16):
            found += piece
    os.close(ours)
    process.wait(_SECONDS)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", found.decode())
    return text.replace("\r\n", "\n")
