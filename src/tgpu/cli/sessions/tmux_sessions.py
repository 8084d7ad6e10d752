"""The tmux sessions that jobs run in: one server each, found by the sockets of the servers."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tgpu.cli.environment import variables
from tgpu.cli.sessions.screen_sessions import JobSession
from tgpu.text.session_name import job_of

_SECONDS: Final = 10.0
_ASKED: Final = "#{pid} #{session_attached}"


def tmux_sessions() -> Iterator[JobSession]:
    """Of this user, on this machine, of jobs alone. None where tmux is not installed."""
    tmux = shutil.which("tmux")
    folder = Path(variables().get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.geteuid()}")
    if tmux is None or not folder.is_dir():
        return
    for socket in sorted(folder.iterdir()):
        job_id = job_of(socket.name)
        if job_id is None:
            continue
        words = [tmux, "-L", socket.name, "list-sessions", "-F", _ASKED]
        ran = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace"
        )
        pid, _, attached = ran.stdout.partition(" ")
        if ran.returncode == 0 and pid.isdigit():  # else the socket of a server that is gone
            state = "detached" if attached.strip() == "0" else "attached"
            # It is the only session of its server, so that nothing else need be said.
            enter = (tmux, "-L", socket.name, "attach-session")
            yield JobSession(job_id, socket.name, int(pid), state, "tmux", enter)
