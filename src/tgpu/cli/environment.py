"""What the command line reads from its environment: variables, user, working directory, clock.

Here the environment is data: what a job inherits from its submitter, and which service this user
talks to.
"""

import os
import time
from pathlib import Path


def variables() -> dict[str, str]:
    from tgpu.settings import process_environ

    return process_environ()


def data_dir() -> Path:
    """Where this user's own service lives; always absolute."""
    from tgpu.client import surroundings

    return surroundings.data_dir(variables())


def config_home() -> Path:
    """Where this user's programs keep their settings."""
    told = variables().get("XDG_CONFIG_HOME", "")
    return Path(told) if told.startswith("/") else Path.home() / ".config"


def working_dir(named: str | None) -> str:
    """Absolute. The path that the shell shows is kept: behind a link it may mean another place."""
    shown = variables().get("PWD", "")
    here = shown if os.path.isabs(shown) and _is_here(shown) else os.getcwd()
    return os.path.normpath(os.path.join(here, os.path.expanduser(named))) if named else here


def user_name() -> str:
    """As the service sees it at the other end of a connection."""
    from tgpu.peers import users

    return users.user_name(os.getuid())


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def home_relative(path: Path | str) -> str:
    """A path as a person would write it: ~/.local/share/tgpu."""
    try:
        return f"~/{Path(path).relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def _is_here(path: str) -> bool:
    try:
        return os.path.samefile(path, ".")
    except OSError:
        return False
