"""The record of one attempt: who runs it, its process, how it ended. Lines are only added.

A runner takes a lock on the attempt's directory, then creates the record, then starts the command.
So: a record without a held lock means that its runner is gone; no record means that nothing was
started, and whoever creates it decides whether anything ever will be.
"""

import fcntl
import json
import os
from typing import Any, NamedTuple

from tgpu.engines.attempt_files import (
    NotPlain,
    make_attempt,
    open_attempt,
    read_whole,
)
from tgpu.engines.local.paths import RECORD, aside
from tgpu.engines.local.processes import CannotTell

_CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
# The longest has a command line, of which the kernel takes 2 MiB, written as JSON.
_MOST_BYTES = 32 << 20


class Claim(NamedTuple):
    runner: int = 0  # 0: the claim is void, or its writer died before it could say
    runner_start: int = 0
    boot: str = ""
    void: bool = False
    main: int = 0  # the command's own process, 0 until it is known
    main_start: int = 0
    started_at: int = 0
    identity: str = ""  # of the job; "" also where an older version wrote it
    group: str = ""  # the runner's control group, where it has one
    memory_group: str = ""  # the attempt's, where its memory is limited by one
    uid: int = -1  # whom the command runs as

    def is_of(self, identity: str) -> bool:
        """Whether it is the claim of an attempt of this job. One that says nothing may be."""
        return self.identity == identity or (not self.runner and not self.void)


class Exit(NamedTuple):
    exit_code: int | None = None
    signal: int | None = None
    ended_at: int = 0
    gone_at: int | None = None  # None while processes it left behind may still run
    user_cpu_ms: int = 0
    system_cpu_ms: int = 0
    max_rss_kib: int = 0
    not_started: str | None = None  # why the command was never started
    retry: bool = True  # whether another try could fare better


def open_directory(path: str) -> int:
    """Make the attempt's directory where it is missing; a descriptor of it."""
    return make_attempt(path)


def create_claim(directory: int) -> int | None:
    """A descriptor of the new record, to add lines to; None where somebody else has it."""
    try:
        return os.open(RECORD, _CREATE, 0o600, dir_fd=directory)
    except FileExistsError:
        return None


def claim_void(path: str, identity: str = "") -> bool:
    """Make sure that an attempt that was not started never is. False: it is already claimed."""
    directory = open_directory(path)
    try:
        claim = create_claim(directory)
        if claim is None:
            return False
        try:
            os.write(claim, json.dumps({"void": True, "identity": identity}).encode() + b"\n")
        finally:
            os.close(claim)
        return True
    finally:
        os.close(directory)


def is_locked(path: str) -> bool:
    """Whether a live runner has this attempt. Not fooled by pids that are used again.

    Raises CannotTell.
    """
    try:
        directory = open_attempt(path)
    except (FileNotFoundError, NotPlain):  # no runner of ours is in that
        return False
    except OSError as error:
        raise CannotTell(f"the lock of {path} cannot be looked at", error) from error
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        raise CannotTell(f"the lock of {path} cannot be looked at", error) from error
    finally:
        os.close(directory)
    return False


def read_claim(path: str, identity: str) -> Claim | None:
    """None where nobody claimed the attempt for this job: a record of another is not believed.

    Raises CannotTell.
    """
    found = _own(path, identity)
    return None if found is None else found[0]


def read_any_claim(path: str) -> Claim | None:
    """Whoever's it is. A line cut short counts as not written. Raises CannotTell."""
    lines = _lines(path)
    return None if lines is None else _claim(lines)


def read_exit(path: str, identity: str) -> Exit | None:
    """The last word on how the attempt ended, if there is one. Raises CannotTell."""
    found = _own(path, identity)
    ends = [line["exit"] for line in found[1] if "exit" in line] if found is not None else []
    if not ends:
        return None
    return Exit(**{name: ends[-1][name] for name in Exit._fields if name in ends[-1]})


def read_starts(path: str) -> list[int]:
    """When its command was started, each time. Raises CannotTell."""
    return [line["started_at"] for line in _lines(path) or () if "started_at" in line]


def read_log_limit(path: str) -> int | None:
    """The limit in bytes that the attempt's logs were given."""
    for line in _lines(path) or ():
        spec = line.get("spec")
        limit = spec.get("log_limit") if isinstance(spec, dict) else None
        if isinstance(limit, int):
            return limit
    return None


def write_claim(record: int, runner: dict[str, object], spec: dict[str, object]) -> None:
    os.write(record, json.dumps(runner | {"spec": spec}).encode() + b"\n")


def write_main(record: int, main: int, main_start: int, started_at: int) -> None:
    line = b'{"main":%d,"main_start":%d,"started_at":%d}\n' % (main, main_start, started_at)
    os.write(record, line)


def write_exit_code(record: int, end: Exit) -> None:
    """The least that must be known; `write_exit` says it all a moment later."""
    bare = {"exit_code": end.exit_code, "signal": end.signal, "ended_at": end.ended_at}
    os.write(record, b"\n" + json.dumps({"exit": bare}).encode() + b"\n")


def write_exit(record: int, end: Exit) -> None:
    # On a line of its own also where an earlier one was cut short by a full disk.
    os.write(record, b"\n" + json.dumps({"exit": end._asdict()}).encode() + b"\n")


def _own(path: str, identity: str) -> tuple[Claim, list[dict[str, Any]]] | None:
    for place in (path, aside(path, identity)):
        lines = _lines(place)
        if lines is not None and (claim := _claim(lines)).is_of(identity):
            return claim, lines
    return None


def _claim(lines: list[dict[str, Any]]) -> Claim:
    fields: dict[str, Any] = {}
    for line in lines:
        fields.update(line)
    return Claim(**{name: fields[name] for name in Claim._fields if name in fields})


def _lines(path: str) -> list[dict[str, Any]] | None:
    """None where there is no record. One that is no file of ours tells nothing, but it is there."""
    try:
        whole = read_whole(path, RECORD, _MOST_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    except NotPlain:
        return []
    except OSError as error:
        raise CannotTell(f"{path}/{RECORD} cannot be read", error) from error
    return [_object(line) for line in whole]


def _object(text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
