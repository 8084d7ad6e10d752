"""Starts what posix_spawn cannot: a command as another user, with limits, in a session; a gang.

Also one in a Python environment, or with a rule for where its script lies: both are looked up here.

Everything that concerns the user's files, the directory and the program, is done as that user: what
they may not open, their job does not open for them.
"""

import json
import os
import signal
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from tgpu.engines.local import environments, gang, limits, scripts, session
from tgpu.engines.local.commands import (
    NotStarted,
    find_program,
    no_directory,
    spawn_failure,
)
from tgpu.engines.local.descriptors import patiently
from tgpu.engines.local.memory_group import enter

# As a login sets it: ours may let nobody read what a user's job writes, or everybody.
_UMASK: Final = 0o022
# What in a command makes it one of ours.
NEEDS_FORK: Final = (
    *("user", "workers", "limits", "session", "environment", "script_folders", "doors"),
)
# What the child says before it becomes the command. One that dies before it did not start.
_SENTENCE_CHARS: Final = 500
_GO: Final = b"\n"
# What is done for the machine's sake before the command's own: another try may fare better.
_BEFORE: Final = {
    "fence": "it could not be isolated from other GPUs",
    "limits": "its limits could not be set",
}


def spawn(command: dict[str, Any], streams: tuple[int, int, int], ignored: Iterable[int]) -> int:
    """The pid of the command, in a session of its own. Raises NotStarted or CommandFailed."""
    if "user" in command:
        _give_logs(command["user"], streams[1:])
    if not command["cwd"].startswith("/"):
        raise NotStarted(f"not an absolute directory: {command['cwd']}", retry=False)
    told, tell = patiently(os.pipe)  # closed by a successful exec
    try:
        pid = os.fork()
        if pid == 0:
            _become(command, streams, ignored, tell)
    except OSError as error:
        os.close(told)
        raise NotStarted(
            f"the command could not be started: {error.strerror}", retry=True
        ) from error
    finally:
        os.close(tell)
    with os.fdopen(told, "rb") as pipe:
        failure = pipe.read()
    if failure == _GO:
        return pid
    os.waitpid(pid, 0)
    if not failure:
        raise NotStarted("it was ended before its command began", retry=True)
    raise _failure(command, streams[2], *json.loads(failure))


def _give_logs(user: tuple[int, int | None, list[int]], logs: Iterable[int]) -> None:
    uid, gid, _ = user
    if gid is None:
        raise NotStarted(f"there is no user {uid} on this machine", retry=False)
    try:
        # The files, not their directory: it stays ours, so that no link can be put in their place.
        for log in logs:
            os.fchown(log, uid, gid)
    except OSError as error:
        raise _cannot_be(uid, error) from error


def _become(
    command: dict[str, Any], streams: tuple[int, int, int], ignored: Iterable[int], tell: int
) -> NoReturn:
    """In the child. Never returns: two runners must not come of one."""
    step = "user"
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        for ignored_signal in ignored:
            signal.signal(ignored_signal, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        step = "fence"
        for door in command.get("doors", ()):
            enter(door)
        # Before the user changes: who is not root may lower a limit, and never raise it again.
        step = "limits"
        limits.apply(command.get("limits", {}), command.get("group"))
        step = "user"
        if "user" in command:
            uid, gid, groups = command["user"]
            os.umask(_UMASK)
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        step = "directory"
        os.chdir(command["cwd"])
        step = "command"
        command = environments.resolved(command)
        env, folders = command["env"], command.get("script_folders", ())
        scripts.check(command["argv"], command["cwd"], env, folders)
        os.write(tell, _GO)
        if "workers" in command:
            # Not a program of ours that is executed: other users may not be able to read it.
            gang.lead(command, tell)
        if "session" in command:
            session.lead(command, tell)
        os.execve(find_program(command["argv"][0], env), command["argv"], env)
    except OSError as error:
        os.write(tell, json.dumps([step, error.errno, error.strerror]).encode())
    except NotStarted as reason:
        os.write(tell, json.dumps(["refused", None, str(reason)[:_SENTENCE_CHARS]]).encode())
    except BaseException as error:  # a NUL in an argument, a variable without a name
        os.write(tell, json.dumps(["call", None, str(error)[:500]]).encode())
    finally:
        os._exit(127)


def _failure(
    command: dict[str, Any], stderr: int, step: str, number: int | None, text: str
) -> Exception:
    error = OSError(number, text)
    if step == "refused":
        return NotStarted(text, retry=False)
    if step in _BEFORE:
        return NotStarted(f"{_BEFORE[step]}: {text}", retry=True)
    if step == "user":
        return _cannot_be(command["user"][0], error)
    if step == "directory":
        return NotStarted(no_directory(command["cwd"], error), retry=False)
    if step == "call":
        return NotStarted(f"the command cannot be passed on: {text}", retry=False)
    return spawn_failure(command["argv"][0], stderr, error)


def _cannot_be(uid: int, error: OSError) -> NotStarted:
    return NotStarted(f"cannot run as user {uid}: {error.strerror}", retry=False)
