"""Structured logs: lines for people, or one JSON object a line for machines."""

import json
import logging
import sys
from contextvars import ContextVar
from logging.handlers import RotatingFileHandler
from typing import Any, Final

import msgspec
import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from gpu_scheduler.settings.model import LoggingSettings

# The request on whose behalf this task works, for every line that is logged meanwhile.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

_MIB: Final = 1024 * 1024


def set_up_logging(settings: LoggingSettings) -> None:
    """Send every log line, ours and the libraries', one way. OSError where the file cannot be."""
    handler = _handler(settings)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_request_id,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,  # first: a line that is not written costs nothing
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(settings, colors=_is_terminal(handler)),
            ],
        )
    )
    root = logging.getLogger()
    for old in root.handlers:
        old.close()
    root.handlers = [handler]
    root.setLevel(settings.level)
    # uvicorn's own lines repeat ours; what it warns of is kept.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, root.level))


def _handler(settings: LoggingSettings) -> logging.Handler:
    if settings.file is None:
        return logging.StreamHandler(sys.stderr)
    return RotatingFileHandler(
        settings.file,
        maxBytes=settings.max_size_mb * _MIB,
        backupCount=settings.backup_count,
        encoding="utf-8",
        errors="backslashreplace",
    )


def _is_terminal(handler: logging.Handler) -> bool:
    return type(handler) is logging.StreamHandler and handler.stream.isatty()


def _rendering(settings: LoggingSettings, *, colors: bool) -> list[Processor]:
    if settings.format == "json":
        return [
            structlog.processors.format_exc_info,
            _in_order,
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
    # Plain tracebacks: the richer ones print the values of variables, secrets among them.
    return [
        structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
    ]


def _add_request_id(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    ours = request_id.get()
    if ours is not None:
        line.setdefault("request_id", ours)
    return line


def _in_order(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """What every line has comes first, under the names that collectors of logs expect."""
    return {
        "timestamp": line.pop("timestamp", None),
        "level": str(line.pop("level", "")).upper(),
        "logger": line.pop("logger", None),
        "message": line.pop("event", ""),
        **line,
    }


def _to_json(line: EventDict, **_: Any) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=repr).decode()
    except (UnicodeEncodeError, TypeError):  # half a surrogate pair, or a key that is no text
        return json.dumps(line, default=repr, skipkeys=True)
