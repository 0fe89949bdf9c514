"""Reads single values from foreign JSON: times, texts, keys. None of these functions raises."""

import hashlib
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from convmemory.core.text import storable

# Times before any chat program are defaults or wrong units.
EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
MAX_CLOCK_SKEW = timedelta(days=2)  # a later time is an error, not a clock that is ahead

_MAX_TIME_CHARS = 64
_EPOCH = re.compile(r"-?\d{9,}(\.\d+)?")


def time_of(value: object) -> datetime | None:
    """Return an ISO time or an epoch in seconds, milli-, micro- or nanoseconds; None if missing or implausible."""
    try:
        found = _read_time(value)
    except (ValueError, OverflowError, OSError):
        return None
    if found is None or not EARLIEST <= found <= datetime.now(UTC) + MAX_CLOCK_SKEW:
        return None
    return found


def _read_time(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, str):
        text = value[: _MAX_TIME_CHARS * 2].strip()
        if len(text) > _MAX_TIME_CHARS:
            return None
        if _EPOCH.fullmatch(text):
            return _epoch(float(text))
        return _read_time(datetime.fromisoformat(text))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _epoch(float(value))
    return None


def _epoch(number: float) -> datetime:
    while math.isfinite(number) and abs(number) >= 1e11:  # in seconds: the year 5138
        number /= 1000
    return datetime.fromtimestamp(number, UTC)


def clean(text: str) -> str:
    """Return `text` without characters that cannot be stored; plain ASCII needs only a quick check."""
    return text if text.isascii() and "\0" not in text else storable(text)


def text_of(value: object) -> str:
    """Return the value if it is a string, without characters that cannot be stored; else an empty string."""
    return clean(value) if isinstance(value, str) else ""


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def key_of(text: str, *, max_chars: int = 150) -> str:
    """Return `text` as a key of bounded length; long ones end in their hash, so that they stay different."""
    text = clean(text)
    return text if len(text) <= max_chars else f"{text[: max_chars - 41]}:{short_hash(text, 40)}"


def short_hash(text: str, chars: int = 12) -> str:
    """Return the first characters of a hash of the text, as a name; not for secrets."""
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:chars]
