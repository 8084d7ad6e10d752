"""Structured logs: lines for people, or one JSON object per line for machines."""

import json
import logging
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Final

import msgspec
import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from tgpu.settings.model import LoggingSettings
from tgpu.text.masking import mask_argv, mask_text

# The request on whose behalf this task works, for every line that is logged meanwhile.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

_MIB: Final = 1024 * 1024

Renderer = Callable[[WrappedLogger, str, EventDict], str]


def set_up_logging(settings: LoggingSettings) -> None:
    """Send every log line, ours and the libraries', one way. OSError where the file cannot be."""
    handler = _handler(settings)
    render = _renderer(settings, colors=_is_terminal(handler))
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
            structlog.processors.format_exc_info,
            _hide_secrets,
            _ready(render),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler.setFormatter(
        _Formatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _hide_secrets,
                render,
            ],
        )
    )
    _record_less()
    root = logging.getLogger()
    for old in root.handlers:
        old.close()
    root.handlers = [handler]
    root.setLevel(settings.level)
    # uvicorn's own lines repeat ours; what it warns of is kept.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, root.level))
    # httpx writes the addresses it asks at INFO, and those of webhooks are as good as passwords.
    for library in ("httpx", "httpcore"):
        logging.getLogger(library).setLevel(max(logging.WARNING, root.level))
    # psycopg warns of a pipeline it had to give up with its connection; the store says it better.
    logging.getLogger("psycopg").setLevel(max(logging.ERROR, root.level))


def _record_less() -> None:
    """No line shows where in the code it was written, by which thread: do not find it out."""
    logging._srcfile = None  # so says the handbook of logging
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False


class _Rendered(str):
    """A line of ours, ready to be written."""

    __slots__ = ()


def _ready(render: Renderer) -> Processor:
    def rendered(logger: WrappedLogger, method: str, line: EventDict) -> str:
        return _Rendered(render(logger, method, line))

    return rendered


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Renders the lines of libraries. Ours are written beside every launch, and come rendered."""

    def format(self, record: logging.LogRecord) -> str:
        if type(record.msg) is _Rendered:
            return record.msg
        return super().format(record)


class _RotatingFile(RotatingFileHandler):
    """Looks at the size of the file alone; the inherited way renders every line twice.

    A file that it makes is its owner's alone: lines name commands, users and paths.
    """

    def _open(self) -> TextIOWrapper:
        return open(
            self.baseFilename,
            "a",
            encoding=self.encoding,
            errors=self.errors,
            opener=_for_the_owner,
        )

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        if self.stream is None:
            self.stream = self._open()
        return 0 < self.maxBytes <= self.stream.tell()


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _handler(settings: LoggingSettings) -> logging.Handler:
    if settings.file is None:
        return logging.StreamHandler(sys.stderr)
    return _RotatingFile(
        settings.file,
        maxBytes=settings.max_size_mb * _MIB,
        backupCount=settings.backup_count,
        encoding="utf-8",
        errors="backslashreplace",
    )


def _is_terminal(handler: logging.Handler) -> bool:
    return type(handler) is logging.StreamHandler and handler.stream.isatty()


def _renderer(settings: LoggingSettings, *, colors: bool) -> Renderer:
    """To text. Tracebacks are plain: richer ones print the values of variables, secrets too."""
    if settings.format == "json":
        return _to_json
    if colors:
        return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return _to_plain


def _add_request_id(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    ours = request_id.get()
    if ours is not None:
        line.setdefault("request_id", ours)
    return line


def _hide_secrets(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """Lines quote commands, addresses and what libraries say of them."""
    for name, value in line.items():
        if isinstance(value, str):
            line[name] = mask_text(value)
        elif isinstance(value, list | tuple) and any(isinstance(each, str) for each in value):
            line[name] = list(mask_argv([str(each) for each in value]))
    return line


def _to_json(_: WrappedLogger, __: str, line: EventDict) -> str:
    """What every line has comes first, under the names that collectors of logs expect."""
    ordered = {
        "timestamp": line.pop("timestamp", None),
        "level": str(line.pop("level", "")).upper(),
        "logger": line.pop("logger", None),
        "message": line.pop("event", ""),
        **line,
    }
    try:
        return msgspec.json.encode(ordered, enc_hook=repr).decode()
    except (UnicodeEncodeError, TypeError):  # half a surrogate pair, or a key that is no text
        return json.dumps(ordered, default=repr, skipkeys=True)


def _to_plain(_: WrappedLogger, __: str, line: EventDict) -> str:
    """As on a terminal, without its colours, in a fraction of the time."""
    timestamp, level = line.pop("timestamp", ""), line.pop("level", "")
    event, logger = str(line.pop("event", "")), line.pop("logger", "")
    trace = line.pop("exception", None)
    rest = " ".join([f"{name}={_word(line[name])}" for name in line])
    text = f"{timestamp} [{level:<9}] {event:<30} [{logger}] {rest}".rstrip()
    return text if trace is None else f"{text}\n{trace}"


def _word(value: object) -> str:
    # Quoted where it could be taken for several words, or for another line.
    if isinstance(value, str):
        return value if value.isprintable() and " " not in value and value else repr(value)
    return repr(value)
