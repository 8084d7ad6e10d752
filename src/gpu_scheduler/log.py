"""Structured logs: lines for people, or one JSON object a line for machines."""

import logging
import sys
from typing import TextIO

import structlog

from gpu_scheduler.settings.model import LoggingSettings


def set_up_logging(settings: LoggingSettings) -> None:
    """Send every log line, ours and the libraries', one way."""
    stream: TextIO = sys.stderr
    if settings.file is not None:
        stream = settings.file.open("a", buffering=1)
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    renderer: structlog.types.Processor = structlog.dev.ConsoleRenderer(colors=stream.isatty())
    if settings.format == "json":
        renderer = structlog.processors.JSONRenderer()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level)
    # uvicorn's own lines repeat ours; what it warns of is kept.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, root.level))
