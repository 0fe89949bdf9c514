"""Formats log lines: plain text for people, or one JSON object per line (LOG_FORMAT=json) for programs.

Both name the request or task of a line. Neither contains private text: of an error they show its place and its class,
and the parts of its message that quote no text of people (`safe_tracebacks.py`); of a request its route, not its path
or query. Secrets in addresses are masked.
"""

import copy
import json
import logging
import re
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from convmemory.core import trace
from convmemory.core.masking import masked
from convmemory.core.safe_tracebacks import safe_message, safe_traceback, without_quotes

FORMATS = ("plain", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_ROW_VALUES = re.compile(r"^(DETAIL|CONTEXT|LINE \d+):.*\n?(^\s+\^.*\n?)?", re.MULTILINE)


class _DiscreetFormatter(logging.Formatter):
    """Formats errors, among a message's arguments or as its exception, without the text that they quote."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(discreet(record))

    def formatException(self, ei: ExcInfo) -> str:
        return safe_traceback(ei[1], ei[2]) if ei[1] is not None else ""


class PlainFormatter(_DiscreetFormatter):
    """`LEVEL logger: message [request_id=...]`."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return masked(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{name}={value}" for name, value in trace.current().items())
        line = super().formatMessage(record)
        return f"{line} [{ids}]" if ids else line


class JsonFormatter(_DiscreetFormatter):
    """One JSON object: time, level, logger, message, the ids of `trace`, and an exception's stack."""

    def format(self, record: logging.LogRecord) -> str:
        record = discreet(record)
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **trace.current(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = masked(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


def discreet(record: logging.LogRecord) -> logging.LogRecord:
    """Return a copy of the record whose message contains nothing quoted by errors among its arguments."""
    copied = copy.copy(record)
    copied.exc_text = None  # another handler may have written it in full
    request = getattr(record, "request", None)  # added by Django, which logs the path of refused requests
    if isinstance(record.msg, BaseException):
        copied.msg = safe_message(record.msg)
    if isinstance(record.args, tuple):
        copied.args = tuple(_safe_argument(arg, request) for arg in record.args)
    if record.name.startswith("django.security.Suspicious"):
        copied.msg, copied.args = record.name, ()  # the message is the error's, which quotes file names
    message = copied.getMessage()
    if record.name == "asyncio":  # further lines quote the exception of a task that was never awaited
        message = message.partition("\n")[0]
    copied.msg, copied.args = masked(without_quotes(_ROW_VALUES.sub("", message))), ()
    return copied


def _safe_argument(argument: object, request: Any) -> object:
    if isinstance(argument, BaseException):
        return safe_message(argument)
    return route_of(request) if request is not None and argument == getattr(request, "path", None) else argument


def route_of(request: Any) -> str:
    """Return the pattern of the request's path, without the values in it."""
    match = getattr(request, "resolver_match", None)
    return f"/{match.route if match else '(no route)'}"


def logging_config(*, level: str, format: str) -> dict[str, Any]:
    """Return Django's `LOGGING`: this program's loggers at `level`, those of libraries at WARNING; all to standard
    error.

    Requests are logged line by line only in the format for programs.
    """

    def logger(**options: str) -> dict[str, Any]:
        return {"handlers": ["stderr"], "propagate": False, **options}

    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"()": PlainFormatter}, "json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": format}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            **{name: logger(level=level) for name in ("convmemory", "memory", "search", "summaries")},
            "convmemory.requests": logger(level=level if format == "json" else "WARNING"),
            "django-q": logger(level="WARNING"),
            "uvicorn": logger(),
            "uvicorn.access": {
                "handlers": [],
                "propagate": False,
            },  # logs queries; dictConfig resets what it does not name
        },
    }
