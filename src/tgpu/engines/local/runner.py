"""A runner: the parent of one attempt at a time, forked by the supervisor and used again.

It waits for the attempt's processes, all of them: as their subreaper it inherits what they leave
behind. It never signals anything (the supervisor does), so it can sit in wait4 and needs no loop.
When the supervisor dies it sees its job through, writes down how it ended, and then exits.
"""

import contextlib
import os
import resource
import signal
import socket
from typing import Any

from tgpu.engines.attempt_files import new_file
from tgpu.engines.local import (
    claiming,
    descriptors,
    record,
    runner_group,
    steady,
    switch,
)
from tgpu.engines.local.commands import (
    CommandFailed,
    NotStarted,
    find_program,
    no_directory,
    spawn_failure,
)
from tgpu.engines.local.descriptors import patiently
from tgpu.engines.local.device_fence import CannotFenceDevices, DeviceFence, make_fence
from tgpu.engines.local.launch_shape import read_launch
from tgpu.engines.local.log_limit import LogWatch
from tgpu.engines.local.memory_group import MemoryGroup, memory_group
from tgpu.engines.local.paths import JOBS, STDERR, STDOUT
from tgpu.engines.local.processes import (
    CannotTell,
    adopt_orphans,
    set_command_line,
    set_name,
    start_time,
)
from tgpu.engines.local.protocol import encode

_LOG = os.O_WRONLY | os.O_APPEND

# Longest sentence in a report. Reports share one pipe, where only writes of up to PIPE_BUF
# (4,096 bytes) are never mixed with others.
_CAUSE_CHARS = 500


def serve(root: str, commands: int, reports: int, boot: str) -> None:
    """The life of a runner. Knows no other descriptors than these two and the standard ones."""
    descriptors.restore()  # for the jobs: what they inherit is what we have
    set_name("tgpu-runner")
    set_command_line("tgpu-runner", f"--dir={root}")
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        # Whoever means to end the job tells the supervisor; a runner that died of a signal meant
        # for "everything of this user" would take the exit code with it.
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    _Runner(root, socket.socket(fileno=commands), reports, boot).loop()


class _Runner:
    def __init__(self, root: str, commands: socket.socket, reports: int, boot: str) -> None:
        self._root = root
        self._commands = commands
        self._reports = reports
        self._pid = os.getpid()
        self._name: dict[str, object] = {
            "runner": self._pid,
            "runner_start": _start_of(self._pid),
            "boot": boot,
        }
        self._name["group"] = runner_group.enter(_start_of(self._pid))
        self._null = patiently(lambda: os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        self._ignored = [
            number
            for number in signal.valid_signals()
            if signal.getsignal(number) is signal.SIG_IGN
        ]

    def loop(self) -> None:
        while line := self._next():
            try:
                head, command = read_launch(line)
            except ValueError as error:
                self._report("none", str(error), False)
            else:
                self._attempt(head, command)

    def _next(self) -> bytes:
        received = self._commands.recv(65536)
        while received and not received.endswith(b"\n"):
            more = self._commands.recv(1 << 20)
            if not more:
                return b""
            received += more
        return received

    def _attempt(self, head: list[Any], command: dict[str, Any]) -> None:
        _, job_id, attempt, identity, grace_ms, time_limit_ms = head
        command |= {"grace_ms": grace_ms, "time_limit_ms": time_limit_ms}
        command["name"] = f"{job_id}-{attempt}"
        command["identity"] = identity
        try:
            path = f"{self._root}/{JOBS}/{job_id}/{attempt}"
            boot = str(self._name["boot"])
            directory, paper = patiently(lambda: claiming.claim(path, identity, boot))
        except claiming.DirectoryTaken as error:
            self._report("none", str(error), True)
            return
        except OSError as error:
            self._report("none", f"its directory could not be made: {error.strerror}", True)
            return
        try:
            if paper is None:
                self._report("taken")
            else:
                self._in_directory(directory, paper, command)
        finally:
            os.close(directory)  # lets go of the lock: by now everything is written

    def _in_directory(self, directory: int, paper: int, command: dict[str, Any]) -> None:
        group = self._memory_group(command)
        if group is not None:
            command["group"] = group.procs
        fence: DeviceFence | None = None
        try:
            fence = self._fence(command)
            main = self._start(directory, paper, command)
        except CommandFailed as failure:
            self._close_groups(group, fence, directory)
            self._command_failed(paper, failure)
        except NotStarted as reason:
            self._close_groups(group, fence, directory)
            self._not_started(paper, reason)
        else:
            watch = LogWatch(directory, command.get("log_limit"))
            ended = self._wait(paper, main)
            watch.end()
            # Before the end is told: who hears of it looks why.
            self._close_groups(group, fence, directory)
            self._end(paper, ended)
        finally:
            os.close(paper)

    def _memory_group(self, command: dict[str, Any]) -> MemoryGroup | None:
        limit = command.get("limits", {}).get("memory_bytes")
        return None if limit is None else memory_group(command["name"], limit)

    def _fence(self, command: dict[str, Any]) -> DeviceFence | None:
        """What is said of it is in the attempt's record. Raises NotStarted where it must be."""
        wanted = command.get("fence")
        if wanted is None:
            return None
        groups = str(self._name["group"]), os.path.dirname(command.get("group", ""))
        try:
            fence = make_fence(wanted, command["name"], *groups)
        except CannotFenceDevices as problem:
            command["fenced"] = f"no: {problem}"
            if wanted["required"]:
                cause = f"it cannot be isolated from other GPUs: {problem}"
                raise NotStarted(f"{cause} (engine.fence_gpus is on)", retry=False) from None
            return None
        command["fenced"] = str(fence.kind)
        if fence.procs is not None:
            command["doors"] = [fence.procs]
        return fence

    def _close_groups(
        self, group: MemoryGroup | None, fence: DeviceFence | None, directory: int
    ) -> None:
        if fence is not None:
            fence.close()
        if group is not None:
            group.close(directory)

    def _start(self, directory: int, paper: int, command: dict[str, Any]) -> int:
        try:
            # Only the names of variables: values are secrets. So are some words of the command.
            spec = {key: value for key, value in command.items() if key != "shown"}
            spec |= {"argv": command.get("shown", command["argv"]), "env": sorted(command["env"])}
            name = self._name | {
                "identity": command["identity"],
                "memory_group": os.path.dirname(command.get("group", "")),
                "uid": command["user"][0] if "user" in command else os.geteuid(),
            }
            record.write_claim(paper, name, spec)
            stdout = patiently(lambda: new_file(STDOUT, _LOG, directory))
            stderr = patiently(lambda: new_file(STDERR, _LOG, directory))
        except OSError as error:
            cause = f"its files could not be made: {error.strerror}"
            raise NotStarted(cause, retry=True) from error
        try:
            main = self._spawn(command, stdout, stderr)
        finally:
            os.close(stdout)
            os.close(stderr)
            os.chdir("/")
        started_at = _now_ms()
        start = _start_of(main)
        with contextlib.suppress(OSError):  # a full disk must not disturb what already runs
            record.write_main(paper, main, start, started_at)
        self._report("started", main, start, started_at)
        return main

    def _spawn(self, command: dict[str, Any], stdout: int, stderr: int) -> int:
        argv, cwd, env = command["argv"], command["cwd"], command["env"]
        if not argv or not argv[0]:
            raise NotStarted("there is no command", retry=False)
        if any(name in command for name in switch.NEEDS_FORK):
            return switch.spawn(command, (self._null, stdout, stderr), self._ignored)
        # posix_spawn cannot change directory, so the runner goes there and comes back.
        try:
            if not cwd.startswith("/"):
                raise NotStarted(f"not an absolute directory: {cwd}", retry=False)
            os.chdir(cwd)
        except (OSError, ValueError) as error:
            raise NotStarted(no_directory(cwd, error), retry=False) from error
        try:
            program = find_program(argv[0], env)
            return patiently(
                lambda: os.posix_spawn(
                    program,
                    argv,
                    env,
                    file_actions=(
                        (os.POSIX_SPAWN_DUP2, self._null, 0),
                        (os.POSIX_SPAWN_DUP2, stdout, 1),
                        (os.POSIX_SPAWN_DUP2, stderr, 2),
                    ),
                    setsid=True,
                    setsigmask=(),
                    setsigdef=self._ignored,
                )
            )
        except ValueError as error:  # a NUL in an argument, a variable without a name
            raise NotStarted(f"the command cannot be passed on: {error}", retry=False) from error
        except OSError as error:
            raise spawn_failure(argv[0], stderr, error) from error

    def _wait(self, paper: int, main: int) -> record.Exit:
        """Until nothing of the attempt is left: how it ended. Reports the command's own end."""
        usage = _Usage()
        ended = self._wait_for_main(paper, main, usage)
        flags = os.WNOHANG
        while True:
            try:
                pid, _, used = os.wait4(-1, flags)
            except ChildProcessError:
                break
            if pid:
                usage.add(used)
            else:  # the command is over, others of its processes are not
                self._end(paper, usage.added_to(ended))
                flags = 0
        return usage.added_to(ended._replace(gone_at=_now_ms()))

    def _wait_for_main(self, paper: int, main: int, usage: "_Usage") -> record.Exit:
        while True:
            zombie = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            assert zombie is not None  # only WNOHANG returns without one
            if zombie.si_pid == main:
                break
            usage.add(os.wait4(zombie.si_pid, 0)[2])
        # Written before it is reaped: if we are killed in between, the code is in the record, and
        # before that the supervisor inherits the zombie.
        ended = _exit_of(zombie)
        with contextlib.suppress(OSError):
            record.write_exit_code(paper, ended)
        usage.add(os.wait4(main, 0)[2])
        return ended

    def _command_failed(self, paper: int, failure: CommandFailed) -> None:
        now = _now_ms()
        ended = record.Exit(exit_code=failure.exit_code, ended_at=now, gone_at=now)
        self._end(paper, ended)

    def _not_started(self, paper: int, reason: NotStarted) -> None:
        cause = str(reason)[:_CAUSE_CHARS]
        now = _now_ms()
        end = record.Exit(ended_at=now, gone_at=now, not_started=cause, retry=reason.retry)
        with contextlib.suppress(OSError):
            record.write_exit(paper, end)
        self._report("none", cause, reason.retry)

    def _end(self, paper: int, ended: record.Exit) -> None:
        # On a full disk the supervisor, which is told all the same, is the one to remember.
        with contextlib.suppress(OSError):
            record.write_exit(paper, ended)
        self._report("ended", *ended)

    def _report(self, *message: object) -> None:
        # Without a supervisor there is nobody to tell; the files say it all.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._reports, encode(self._pid, *message))


class _Usage:
    """What the processes reaped so far have used."""

    __slots__ = ("_rss", "_system", "_user")

    def __init__(self) -> None:
        self._user = self._system = 0.0
        self._rss = 0

    def add(self, used: resource.struct_rusage) -> None:
        self._user += used.ru_utime
        self._system += used.ru_stime
        self._rss = max(self._rss, used.ru_maxrss)

    def added_to(self, end: record.Exit) -> record.Exit:
        return end._replace(
            user_cpu_ms=round(self._user * 1000),
            system_cpu_ms=round(self._system * 1000),
            max_rss_kib=self._rss,
        )


def _exit_of(zombie: os.waitid_result) -> record.Exit:
    """With the exit code as a shell shows it."""
    status = zombie.si_status
    if zombie.si_code == os.CLD_EXITED:
        return record.Exit(exit_code=status, ended_at=_now_ms())
    return record.Exit(exit_code=128 + status, signal=status, ended_at=_now_ms())


def _start_of(pid: int) -> int:
    """Of ourselves or of a child not waited for yet: it is there, if only we may look."""

    def ask() -> int:
        try:
            return start_time(pid)
        except CannotTell as error:
            raise OSError(error.errno, str(error)) from error

    return patiently(ask)


def _now_ms() -> int:
    return steady.now_ms()
