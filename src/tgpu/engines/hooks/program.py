"""Runs a hook as the user of the service, with facts about the attempt and nothing of its
environment.

The facts have names of their own: a process with `TGPU_JOB_ID` is taken for one of that job.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOST_OUTPUT: Final = 256 * 1024  # that is kept
# A hook must not outlive a service that was killed: the next one runs it again.
_WITH_US: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9);"
    "os.getppid() == int(sys.argv[1]) or os._exit(1);"
    "os.execv(sys.argv[2], sys.argv[2:])"
)


@dataclass(frozen=True, slots=True)
class HookOutcome:
    problem: str | None  # None: it went well
    output: bytes = b""


async def run_hook(
    argv: Sequence[str], facts: Mapping[str, str], timeout_seconds: float
) -> HookOutcome:
    """Never raises but when it is cancelled, and ends what it started in any case."""
    words = [sys.executable, "-I", "-S", "-c", _WITH_US, str(os.getpid()), *argv]
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": _PATH, "LANG": "C.UTF-8", **facts},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        return HookOutcome(f"could not be started: {error.strerror}")
    output = bytearray()
    try:
        async with asyncio.timeout(timeout_seconds):
            await _read(process, output)
            code = await process.wait()
    except TimeoutError:
        return HookOutcome(f"did not finish within {timeout_seconds:g} s", bytes(output))
    finally:
        await _end(process)
    return HookOutcome(_told(code), bytes(output))


async def _read(process: asyncio.subprocess.Process, output: bytearray) -> None:
    assert process.stdout is not None
    while piece := await process.stdout.read(1 << 16):
        output += piece[: _MOST_OUTPUT - len(output)]


async def _end(process: asyncio.subprocess.Process) -> None:
    """With all that it started and left in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _told(code: int) -> str | None:
    if code == 0:
        return None
    return f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
