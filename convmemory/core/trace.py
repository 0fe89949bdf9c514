"""The ids of the request or task that the running code works for, so that every log line can name it."""

import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
task_id: ContextVar[str] = ContextVar("task_id", default="")

_VALID = re.compile(r"[A-Za-z0-9._-]{8,64}")


def accepted_request_id(given: str) -> str:
    """Return `given` if it is fit for a log, else a new id."""
    return given if _VALID.fullmatch(given) else secrets.token_hex(8)


def current() -> Mapping[str, str]:
    """Return the ids that are set now."""
    ids = {"request_id": request_id.get(), "task_id": task_id.get()}
    return {name: value for name, value in ids.items() if value}
