"""Where the local engine keeps things. Pure: nothing here touches the disk."""

from pathlib import Path

from gpu_scheduler.engines.api import AttemptKey

SOCKET = "supervisor.sock"
LOCK = "supervisor.lock"
LOG = "supervisor.log"
JOURNAL = "attempts.log"
JOBS = "jobs"

# In an attempt's directory:
STDOUT = "stdout.log"
STDERR = "stderr.log"
SPEC = "spec.json"  # argv, cwd, limits and the names of the environment variables, no values
CLAIM = "pid"  # who runs it; its creation is the claim that makes a second start impossible
EXIT = "exit.json"  # how it ended


def attempt_dir(directory: Path, key: AttemptKey) -> Path:
    """The directory of one attempt: its logs, its spec and its exit record."""
    return directory / attempt_path(key.job_id, key.attempt)


def attempt_path(job_id: str, attempt: int) -> str:
    """The same, relative to the engine's directory. Raises ValueError for an unsafe job id."""
    check_job_id(job_id)
    return f"{JOBS}/{job_id}/{attempt:d}"


def check_job_id(job_id: str) -> None:
    # Ids are validated where they enter the product; this is the last line before the disk.
    if not job_id or "/" in job_id or ".." in job_id or "\0" in job_id or job_id[0] == ".":
        raise ValueError(f"not usable as a directory name: job id {job_id!r}")
