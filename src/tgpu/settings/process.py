"""The environment of this process: the only place in the package that reads it."""

import os
from collections.abc import Mapping
from pathlib import Path


def process_environ() -> dict[str, str]:
    """A copy of this process's environment."""
    return dict(os.environ)  # noqa: TID251 -- this is the reader that all others ask


def default_data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """`$XDG_DATA_HOME/tgpu`, else `~/.local/share/tgpu`."""
    environ = process_environ() if environ is None else environ
    base = environ.get("XDG_DATA_HOME", "")
    # The XDG specification: a relative path there is invalid and must be ignored.
    if base and Path(base).is_absolute():
        return Path(base) / "tgpu"
    home = environ.get("HOME", "")
    return (Path(home) if home else Path.home()) / ".local" / "share" / "tgpu"
