"""The real log in a file, for tests that look at its lines."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog

from tgpu.log import set_up_logging
from tgpu.settings.model import LoggingSettings

_FLAGS = ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing")


@contextmanager
def the_log(settings: LoggingSettings) -> Iterator[None]:
    """Logging as the service sets it up, and as it was before afterwards."""
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    handlers, level, uvicorn_level = root.handlers, root.level, uvicorn.level
    flags = {name: getattr(logging, name) for name in _FLAGS}
    root.handlers = []  # set_up_logging closes those it replaces
    try:
        set_up_logging(settings)
        # A module keeps the logger of its first line: those that logged before must look again.
        structlog.configure(cache_logger_on_first_use=False)
        yield
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers, root.level = handlers, level
        uvicorn.setLevel(uvicorn_level)
        for name, value in flags.items():
            setattr(logging, name, value)
        structlog.reset_defaults()


@contextmanager
def log_lines(
    path: Path, settings: LoggingSettings
) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    def read() -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text().splitlines()]

    with the_log(settings):
        yield read
