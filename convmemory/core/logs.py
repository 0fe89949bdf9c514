"""Formats log lines, as text or as JSON (LOG_FORMAT), names their request or task, and leaves private text out.

Both name the request or task of a line. Neither contains private text: of an error they show its place and its class,
and the parts of its message that quote no text of people (`logs.py`); of a request its route, not its path
or query. Secrets in addresses are masked.
"""

import copy
import json
import logging
import re
import secrets
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import psycopg

from convmemory.core.errors import ConvMemoryError, InvalidInput, NotFound
from convmemory.core.text import masked

FORMATS = ("plain", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_ROW_VALUES = re.compile(r"^(DETAIL|CONTEXT|LINE \d+):.*\n?(^\s+\^.*\n?)?", re.MULTILINE)

request_id: ContextVar[str] = ContextVar("request_id", default="")
task_id: ContextVar[str] = ContextVar("task_id", default="")

_VALID_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")

STACK = "Traceback (most recent call last):\n"
LEFT_OUT = "(message left out)"
SPEAK_OF_CODE = (AttributeError, ImportError, MemoryError, NameError, NotImplementedError, RecursionError, TypeError)
QUOTE_CALLERS = (InvalidInput, NotFound)
_QUOTED = re.compile("“.*”", re.DOTALL)
MAX_CHAIN = 5
"""The most errors in a chain of causes that are shown."""


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
        ids = " ".join(f"{name}={value}" for name, value in current().items())
        line = super().formatMessage(record)
        return f"{line} [{ids}]" if ids else line


class JsonFormatter(_DiscreetFormatter):
    """One JSON object: time, level, logger, message, the id of the request or task, and an exception's stack."""

    def format(self, record: logging.LogRecord) -> str:
        record = discreet(record)
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **current(),
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


def logging_config(*, level: str, format: str, sentry_dsn: str = "") -> dict[str, Any]:
    """Return Django's `LOGGING`: this program's loggers at `level`, those of libraries at WARNING; all to standard
    error, and errors to Sentry, if there is a DSN.

    Requests are logged line by line only in the format for programs.
    """

    def logger(**options: str) -> dict[str, Any]:
        return {"handlers": names, "propagate": False, **options}

    handlers: dict[str, Any] = {"stderr": {"class": "logging.StreamHandler", "formatter": format}}
    if sentry_dsn:
        handler_class = "convmemory.core.error_reports.SentryHandler"
        handlers["sentry"] = {"class": handler_class, "level": "ERROR", "dsn": sentry_dsn}
    names = list(handlers)

    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"()": PlainFormatter}, "json": {"()": JsonFormatter}},
        "filters": {"unless_discarded": {"()": lambda: _is_no_discarding}},
        "handlers": handlers,
        "root": {"handlers": names, "level": "WARNING"},
        "loggers": {
            **{name: logger(level=level) for name in ("convmemory", "memory", "search", "summaries")},
            "convmemory.requests": logger(level=level if format == "json" else "WARNING"),
            "django-q": logger(level="WARNING"),
            # The program closes a pooled connection on purpose after an error, which the pool takes for a mistake.
            "psycopg.pool": {"filters": ["unless_discarded"]},
            "uvicorn": logger(),
            "uvicorn.access": {
                "handlers": [],
                "propagate": False,
            },  # logs queries; dictConfig resets what it does not name
        },
    }


def _is_no_discarding(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("discarding closed connection")


def accepted_request_id(header: str) -> str:
    """Return the header's value if it is fit for a log, else a new id."""
    return header if _VALID_ID.fullmatch(header) else secrets.token_hex(8)


def current() -> Mapping[str, str]:
    """Return the ids that are set now."""
    ids = {"request_id": request_id.get(), "task_id": task_id.get()}
    return {name: value for name, value in ids.items() if value}


def safe_message(error: BaseException) -> str:
    """Return the error's class and the parts of its message that quote no text of people.

    Messages of foreign errors quote values: a text that is not a number, a row that violates a constraint. Only
    messages that this program writes itself are kept, except those that explain a caller's own input, and those of
    errors about code; of a PostgreSQL error its class, its code, and the names of constraint, table and column; of a
    lost or missing connection its first line.
    """
    name = type(error).__name__
    # SQLSTATE and names from a PostgreSQL error, wrapped by Django or not; empty for any other error.
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if not isinstance(cause, psycopg.Error) or not cause.sqlstate:
        facts = ""
    else:
        diagnostic = cause.diag
        names = (diagnostic.constraint_name, diagnostic.table_name, diagnostic.column_name)
        facts = " ".join([f"SQLSTATE {cause.sqlstate}", *(name for name in names if name)])
    if facts:
        return f"{name}: {facts}"
    if isinstance(cause, psycopg.OperationalError):  # of the connection or its pool: no statement has an answer
        return f"{name}: {without_quotes(str(cause).partition(chr(10))[0])}"
    if isinstance(error, (ConvMemoryError, *SPEAK_OF_CODE)) and not isinstance(error, QUOTE_CALLERS):
        return f"{name}: {without_quotes(str(error))}" if str(error) else name
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    return f"{name}: {LEFT_OUT}" if str(error) else name


def quoted(text: str) -> str:
    """Mark foreign words inside a message of this program, so that `without_quotes` can remove them."""
    return f"“{text}”"


def without_quotes(message: str) -> str:
    """Return the message without foreign words."""
    return _QUOTED.sub("“…”", message)


def safe_traceback(error: BaseException, stack: TracebackType | None = None) -> str:
    """Return the stack of the error and of its causes, oldest first, with `safe_message` for each."""
    texts = []
    for number, link in enumerate(chain_of(error)):
        frames = traceback.format_tb(link.__traceback__ or (stack if number == 0 else None))
        texts.append(f"{STACK}{''.join(frames)}{safe_message(link)}")
    return "\n\n".join(reversed(texts))


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its cause, the cause of that, and so on."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < MAX_CHAIN:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
