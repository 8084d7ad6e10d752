"""Looks up the program of a command, and says why it cannot be started."""

import contextlib
import errno
import os

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

# What a shell answers: 127 for a command that is not there, 126 for one that cannot be run.
# Every other error is the machine's fault, and the attempt counts as not started.
_NOT_FOUND = {errno.ENOENT, errno.ENOTDIR}
_NOT_RUNNABLE = {
    errno.EACCES,
    errno.EPERM,
    errno.ENOEXEC,
    errno.E2BIG,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EINVAL,
}


class NotStarted(Exception):
    """The sentence to report, and whether another try could fare better."""

    def __init__(self, cause: str, *, retry: bool) -> None:
        super().__init__(cause)
        self.retry = retry


class CommandFailed(Exception):
    """The command could not be run, which counts as an exit, as in a shell."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def find_program(name: str, env: dict[str, str]) -> str:
    """The program, looked up in the job's own PATH and not in ours."""
    if "/" in name:
        return name
    candidates = [f"{part or '.'}/{name}" for part in env.get("PATH", DEFAULT_PATH).split(":")]
    present = [path for path in candidates if os.path.isfile(path)]
    for path in present:
        if os.access(path, os.X_OK):
            return path
    if present:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    raise FileNotFoundError(errno.ENOENT, "command not found")


def spawn_failure(name: str, stderr: int, error: OSError) -> Exception:
    if error.errno in _NOT_FOUND:
        code = 127
    elif error.errno in _NOT_RUNNABLE:
        code = 126
    else:
        return NotStarted(f"the command could not be started: {error.strerror}", retry=True)
    message = f"{name}: {_reason(name, error)}"
    with contextlib.suppress(OSError):
        os.write(stderr, f"{message}\n".encode(errors="surrogateescape"))
    return CommandFailed(code, message)


def _reason(name: str, error: OSError) -> str:
    words = name.split()
    if error.errno in _NOT_FOUND and len(words) > 1:
        return (
            "command not found: it was given as one word; write it without quotes around it all "
            f"(tgpu submit -- {name}), or have a shell take it apart (sh -c '...')"
        )
    return (error.strerror or "cannot be run").lower()


def no_directory(cwd: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no such directory: {cwd}"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot work in the directory {cwd}: {reason}"
