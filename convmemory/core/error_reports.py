"""Sends errors that are logged to Sentry, with `SENTRY_DSN`: their class, their place in the code, and a safe message.

No integration of the SDK is used: they would add requests, SQL, local variables and arguments, which contain texts of
people. What is sent is built here from what the log shows (`logs.py`).
"""

import atexit
import logging
import os
import socket
from traceback import walk_tb
from types import TracebackType
from typing import Any

import convmemory
from convmemory.core.logs import chain_of, current, discreet, safe_message
from convmemory.core.text import masked

FLUSH_S = 2.0


class SentryHandler(logging.Handler):
    """Sends each record; the SDK is loaded, and its thread started, at the first one of a process."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn, self._process = dsn, 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(("sentry_sdk", "urllib3")):
            return
        try:
            import sentry_sdk

            if self._process != os.getpid():
                sentry_sdk.init(
                    self._dsn,
                    default_integrations=False,
                    auto_enabling_integrations=False,
                    max_breadcrumbs=0,
                    release=f"convmemory@{convmemory.__version__}",
                    server_name=socket.gethostname(),
                )
                atexit.register(sentry_sdk.flush, FLUSH_S)
                self._process = os.getpid()
            sentry_sdk.capture_event(event_of(record))
        except Exception:  # the boundary of logging: what logs an error must not fail for it
            self.handleError(record)


def event_of(record: logging.LogRecord) -> Any:
    """Return the event that is sent for a log record."""
    safe = discreet(record)
    event: dict[str, Any] = {
        "level": record.levelname.lower(),
        "logger": record.name,
        "logentry": {"message": safe.getMessage()},
        "tags": dict(current()),
        "platform": "python",
    }
    if record.exc_info and record.exc_info[1] is not None:
        errors = list(chain_of(record.exc_info[1]))
        event["exception"] = {
            "values": [
                {
                    "type": type(error).__name__,
                    "value": masked(safe_message(error).partition(": ")[2]),
                    "module": type(error).__module__,
                    "stacktrace": {"frames": _frames(error.__traceback__)},
                }
                for error in reversed(errors)
            ]
        }
    return event


def _frames(stack: TracebackType | None) -> list[dict[str, Any]]:
    """Return the frames of a stack without their variables, the innermost last."""
    frames = []
    for frame, line in walk_tb(stack):
        module = str(frame.f_globals.get("__name__", ""))
        frames.append(
            {
                "function": frame.f_code.co_name,
                "module": module,
                "filename": frame.f_code.co_filename,
                "lineno": line,
                "in_app": module.partition(".")[0] in ("convmemory", "memory", "search", "summaries"),
            }
        )
    return frames
