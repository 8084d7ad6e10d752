"""Where the local engine keeps things. Pure: nothing here touches the disk."""

import re
from pathlib import Path
from typing import Final

_IDENTITY: Final = re.compile("[0-9a-f]{0,64}")

SOCKET = "supervisor.sock"
LOCK = "supervisor.lock"
LOG = "supervisor.log"
JOURNAL = "attempts.log"
JOBS = "jobs"

# In an attempt's directory:
STDOUT = "stdout.log"
STDERR = "stderr.log"
# One JSON object a line: who runs it and what (names of environment variables, no values), its
# process, how it ended. One file and not three, because making a file can cost more than all else
# we do for a short job. Its creation is the claim that makes a second start impossible.
RECORD = "attempt.jsonl"


def attempt_dir(directory: Path, key: tuple[str, int, str]) -> Path:
    """The directory of one attempt: its logs, its spec and its exit record."""
    return directory / attempt_path(*key)


def attempt_path(job_id: str, attempt: int, identity: str = "") -> str:
    """The same, relative to the engine's directory. Raises ValueError for what is unsafe there.

    Short, because people type it; the record in it says whose it is. See `aside`.
    """
    check_job_id(job_id)
    if not _IDENTITY.fullmatch(identity):
        raise ValueError(f"not an identity: {identity!r}")
    return f"{JOBS}/{job_id}/{attempt:d}"


def aside(path: str, identity: str) -> str:
    """Where an attempt's directory is moved to when another job of its id needs the place."""
    return f"{path}.{identity or 'earlier'}"


def check_job_id(job_id: str) -> None:
    # Ids are validated where they enter the product; this is the last line before the disk.
    if not job_id or "/" in job_id or ".." in job_id or "\0" in job_id or job_id[0] == ".":
        raise ValueError(f"not usable as a directory name: job id {job_id!r}")
