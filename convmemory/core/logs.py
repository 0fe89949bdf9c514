"""How log lines are written: plain for people, or one JSON object a line (LOG_FORMAT=json) for programs.

Both say which request or task a line belongs to. Neither holds private text: what PostgreSQL adds to an error
about the values of a row is left out, and so are the secrets in addresses.
"""

import json
import logging
import re
from datetime import UTC, datetime
from types import TracebackType

from convmemory.core import trace
from convmemory.core.masking import masked

FORMATS = ("plain", "json")
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_ROW_VALUES = re.compile(r"^(DETAIL|CONTEXT|LINE \d+):.*\n?(^\s+\^.*\n?)?", re.MULTILINE)


class PlainFormatter(logging.Formatter):
    """`LEVEL logger: message [request_id=...]`."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return masked(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{name}={value}" for name, value in trace.current().items())
        line = super().formatMessage(record)
        return f"{line} [{ids}]" if ids else line

    def formatException(self, ei: ExcInfo) -> str:
        return _ROW_VALUES.sub("", super().formatException(ei))


class JsonFormatter(logging.Formatter):
    """One JSON object: time, level, logger, message, the ids of `trace`, and an exception's stack."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": masked(_ROW_VALUES.sub("", record.getMessage())),
            "process": record.process,
            **trace.current(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)

    def formatException(self, ei: ExcInfo) -> str:
        return masked(_ROW_VALUES.sub("", super().formatException(ei)))
