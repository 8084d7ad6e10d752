"""Files of other queues as jobs: a command on each line, or the list of task-spooler. Pure."""

import io
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

# What a shell would act on; quoted, it is nothing special.
_SHELL: Final = frozenset("|&;<>()$`*?[]{}")
_AT_A_WORD: Final = frozenset("~#")  # special only where a word begins
_OURS: Final = ("gpus", "name", "time", "priority")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

_LISTING: Final = re.compile(r"\s*ID\s+State\s+Output\s+E-Level\s+Time")
_ROW: Final = re.compile(r"\s*(\d+)\s+([a-z]+)\s+(\S+)\s+(.*)")
_WAITING: Final = frozenset({"queued", "allocating"})
_DEPENDS: Final = re.compile(r"(?:\[(\d+(?:,\d+)*)\])?&& (.*)")
_LABEL: Final = re.compile(r"\[([^\]\s]+)\](.*)")


@dataclass(frozen=True, slots=True)
class ImportedJob:
    line: int
    command: tuple[str, ...]
    gpus: str | None = None
    name: str = ""
    time: str | None = None
    priority: int | None = None
    env: tuple[str, ...] = ()  # NAME=VALUE
    old_id: str = ""  # what the other queue called it
    after: tuple[str, ...] = ()  # jobs of the other queue that must complete first


@dataclass(slots=True)
class Imported:
    """What was found, what is wrong, and what is worth knowing."""

    jobs: list[ImportedJob] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def is_listing(text: str) -> bool:
    """Whether it is what task-spooler prints, and not commands."""
    return any(_LISTING.match(line) for line in text.splitlines()[:5])


def read_commands(text: str, *, by_shell: bool) -> Imported:
    """One command a line, after gpus=, name=, time=, priority= and variables for it."""
    found = Imported()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            found.jobs.append(_command(number, stripped, by_shell))
        except ValueError as error:
            found.mistakes.append(_mistake(number, error))
    return found


def read_listing(text: str, *, by_shell: bool) -> Imported:
    """The jobs that wait in the list of task-spooler; those that run or are over are not taken."""
    found = Imported()
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if _LISTING.match(line))
    has_gpus = "GPU" in lines[head]
    left: dict[str, int] = {}
    for number, line in enumerate(lines[head + 1 :], head + 2):
        row = _ROW.match(line)
        if row is None:
            if line.strip():
                found.mistakes.append(f"line {number}: is not a line of task-spooler's list")
            continue
        if row[2] not in _WAITING:
            left[row[2]] = left.get(row[2], 0) + 1
            continue
        try:
            found.jobs.append(_waiting(number, row, has_gpus, by_shell))
        except ValueError as error:
            found.mistakes.append(_mistake(number, error))
    found.notes += [f"{count} {state} left there" for state, count in left.items()]
    if found.jobs:
        found.notes.append(
            "task-spooler's list has neither quotes nor directories: look with --dry-run first"
        )
    return _with_known_dependencies(found)


def _mistake(number: int, error: ValueError) -> str:
    # Python's own complaint about quotes begins with a capital.
    return f"line {number}: {error}".replace("No closing", "no closing")


def _command(number: int, line: str, by_shell: bool) -> ImportedJob:
    ours, env, rest = _taken_off(line)
    command = _words(rest, by_shell)
    try:
        priority = int(ours["priority"]) if "priority" in ours else None
    except ValueError:
        raise ValueError(f"priority={ours['priority']}: must be a whole number") from None
    return ImportedJob(
        number,
        command,
        gpus=ours.get("gpus"),
        name=ours.get("name", ""),
        time=ours.get("time"),
        priority=priority,
        env=tuple(env),
    )


def _taken_off(line: str) -> tuple[dict[str, str], list[str], str]:
    """Our own words and variables before the command, and the command as it stands there."""
    ours: dict[str, str] = {}
    env: list[str] = []
    rest = line
    while True:
        word, after = _first_word(rest)
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            return ours, env, rest
        if not after:
            raise ValueError(f"there is no command after {word}")
        if match[1] in _OURS:
            ours[match[1]] = match[2]
        else:
            env.append(word)
        rest = after


def _first_word(text: str) -> tuple[str, str]:
    """The first word without its quotes, and the text behind it."""
    stream = io.StringIO(text)
    lexer = shlex.shlex(stream, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    return lexer.get_token() or "", stream.read().lstrip()


def _words(text: str, by_shell: bool) -> tuple[str, ...]:
    if by_shell:
        return ("sh", "-c", text)
    special = shell_character(text)
    if special:
        raise ValueError(f"{special} needs a shell: quote it, or import with --shell")
    words = tuple(shlex.split(text))
    if not words:
        raise ValueError("there is no command")
    return words


def shell_character(text: str) -> str:
    """The first that a shell would act on; nothing where there is none."""
    quote = ""
    escaped = False
    for before, character in zip(" " + text, text, strict=False):
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            if character == quote:
                quote = ""
            elif quote == '"' and character in "$`":
                return character
        elif character in "'\"":
            quote = character
        elif character in _SHELL or (character in _AT_A_WORD and before.isspace()):
            return character
    return ""


def _waiting(number: int, row: re.Match[str], has_gpus: bool, by_shell: bool) -> ImportedJob:
    text, gpus = row[4], None
    if has_gpus:
        gpus, _, text = text.partition(" ")
        if not gpus.isdigit():
            raise ValueError(f"{gpus!r} is not a number of GPUs")
    text = text.strip()
    depends = _DEPENDS.fullmatch(text)
    after: tuple[str, ...] = ()
    if depends is not None:
        # Without a number: after the job before it.
        after = tuple((depends[1] or str(int(row[1]) - 1)).split(","))
        text = depends[2]
    label = _LABEL.fullmatch(text)
    name = ""
    if label is not None:
        name, text = label[1], label[2]
    command = _words(text, by_shell)
    return ImportedJob(number, command, gpus=gpus, name=name, old_id=row[1], after=after)


def _with_known_dependencies(found: Imported) -> Imported:
    known = {job.old_id for job in found.jobs}
    for job in found.jobs:
        strangers = [old_id for old_id in job.after if old_id not in known]
        if strangers:
            found.notes.append(
                f"line {job.line}: will not depend on {_list(strangers)}, which is not imported"
            )
    return found


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)
