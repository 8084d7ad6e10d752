"""Real processes for tests that look at who is on a GPU."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True)\n"
_SLEEPY = "import time; print(flush=True)\n"


@contextmanager
def a_process(
    env: Mapping[str, str] | None = None, *, stubborn: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps until it is ended; a `stubborn` one only by KILL."""
    program = (_STUBBORN if stubborn else _SLEEPY) + "time.sleep(600)"
    command = [sys.executable, "-IS", "-c", program]
    with subprocess.Popen(
        command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it runs, and has its signals as it wants them
            yield process
        finally:
            process.kill()
            process.wait()
