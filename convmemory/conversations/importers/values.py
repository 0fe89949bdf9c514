"""Reads single values from foreign JSON (times, texts, keys), and replaces payloads in base64. Nothing raises."""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from convmemory.conversations.messages.drafts import passed
from convmemory.core.text import storable

# Times before any chat program are defaults or wrong units.
EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)

_MAX_TIME_CHARS = 64
_EPOCH = re.compile(r"-?\d{9,}(\.\d+)?")
# As `toLocaleString` writes times in English, German, Chinese and other languages, and SillyTavern.
_CLOCK = (
    r"(?P<before>上午|下午)?(?P<hour>\d{1,2})[:h] ?(?P<minute>\d\d)(?:[:m] ?(?P<second_>\d\d)s?)?(?: ?\d{1,3}ms)?"
    r"\s?(?P<half>[AaPp])?(?:\.?\s?[Mm]\.?)?"
)
_SHOWN = re.compile(
    rf"(?P<first>\d{{1,4}})(?P<mark>[/.-])(?P<second>\d{{1,2}})[/.-](?P<third>\d{{1,4}})(?:,? | ?@){_CLOCK}"
)
_NAMED = re.compile(rf"(?P<month>[A-Z][a-z]{{2,8}}) (?P<second>\d{{1,2}}),? (?P<third>\d{{4}}),? (?:at )?{_CLOCK}")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SHOWN_DATE = re.compile(rb'(?:^|["\n>]|\*\* )(\d{1,2})/(\d{1,2})/\d{4},? \d{1,2}:\d\d')


DayOrder = Literal["day first", "month first", ""]
"""The order of day and month in dates such as 5/1/2026, "" if nothing tells."""

MIN_BASE64_CHARS = 1024
MAX_VALUE_DEPTH = 60
TOO_DEEP = f"[nested deeper than {MAX_VALUE_DEPTH} levels]"

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[\w.+-]*)*;base64,([A-Za-z0-9+/_%-]{64,}={0,2})")
_RUN = re.compile(rf"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{{{MIN_BASE64_CHARS},}}={{0,2}}")
_URL_SAFE_RUN = re.compile(rf"[A-Za-z0-9_-]{{{MIN_BASE64_CHARS},}}={{0,2}}")
_WRAPPED = re.compile(
    r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{60,128}(?:\r?\n|\\n)){12,}(?:[A-Za-z0-9+/]{0,128}={1,2})?", re.ASCII
)
_SAMPLE_CHARS = 4096  # of a run, to judge its alphabet
_MIN_DISTINCT = 20
_MAX_QUICK_CHARS = 1_000_000  # longer texts are searched without the quick check
_MIN_LINE_CHARS = 60


def time_of(value: object, order: DayOrder = "") -> datetime | None:
    """Return an ISO time, an epoch in seconds, milli-, micro- or nanoseconds, or a time as browsers show it.

    None if missing or implausible, or if day and month of 5/1/2026 can be either and no `order` is given.
    """
    try:
        time = _read_time(value, order)
    except (ValueError, OverflowError, OSError):
        return None
    return passed(time) if time and time >= EARLIEST else None


def seconds_of(value: object, order: DayOrder = "") -> float:
    """Return the same time in seconds since 1970, 0 if there is none: a key to sort by."""
    time = time_of(value, order)
    return time.timestamp() if time else 0.0


def _read_time(value: object, order: DayOrder = "") -> datetime | None:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, str):
        text = value[: _MAX_TIME_CHARS * 2].strip()
        if len(text) > _MAX_TIME_CHARS:
            return None
        if _EPOCH.fullmatch(text):
            return _epoch(float(text))
        try:
            return _read_time(datetime.fromisoformat(text))
        except ValueError:
            shown = _SHOWN.fullmatch(text) or _NAMED.fullmatch(text)
            return _shown_time(shown.groupdict(), order) if shown else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _epoch(float(value))
    return None


def _shown_time(fields: Mapping[str, str | None], order: DayOrder) -> datetime | None:
    """Return the time that the parts of a shown date give; None if its day and month are not certain."""
    first, second, third = (int(fields.get(name) or 0) for name in ("first", "second", "third"))
    if fields.get("month"):
        year, month, day = third, _MONTHS.index(str(fields["month"])[:3].lower()) + 1, second
    elif first > 31:
        year, month, day = first, second, third
    else:
        order = day_order_of(first, second, str(fields["mark"])) or order
        if not order:
            return None
        year, month, day = (third, second, first) if order == "day first" else (third, first, second)
    hour, half = int(fields["hour"] or 0), (fields["half"] or fields.get("before") or "").lower()
    if half and hour <= 12:
        hour = hour % 12 + (12 if half.startswith(("p", "下")) else 0)
    return datetime(year, month, day, hour, int(fields["minute"] or 0), int(fields["second_"] or 0), tzinfo=UTC)


def day_order_of(first: int, second: int, mark: str = "/") -> DayOrder:
    """Return the order that a date shows by itself: no month is above 12, and dots are written after days."""
    if mark == "." or (first > 12 >= second):
        return "day first"
    return "month first" if second > 12 >= first else ""


def day_order(chunks: Iterable[bytes]) -> DayOrder:
    """Return the order of day and month that all shown dates of a file agree on."""
    orders: set[DayOrder] = set()
    end = b""
    for chunk in chunks:
        for match in SHOWN_DATE.finditer(end + chunk):
            orders.add(day_order_of(int(match[1]), int(match[2])))
        end = chunk[-_MAX_TIME_CHARS:]
    orders.discard("")
    return next(iter(orders)) if len(orders) == 1 else ""


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


def list_of(value: object) -> list[Any]:
    """Return the value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def key_of(text: str, *, max_chars: int = 150) -> str:
    """Return `text` as a key of bounded length; long ones end in their hash, so that they stay different."""
    text = clean(text)
    return text if len(text) <= max_chars else f"{text[: max_chars - 41]}:{short_hash(text, 40)}"


def short_hash(text: str, chars: int = 12) -> str:
    """Return the first characters of a hash of the text, as a name; not for secrets."""
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:chars]


def base64_size(payload: str) -> int:
    """Return the number of bytes that the base64 text encodes."""
    length = len(payload) - payload.count("\n") - payload.count("\r")
    return max(0, length * 3 // 4 - payload[-2:].count("="))


def marker(media_type: str, size_bytes: int) -> str:
    """Return the replacement of a payload."""
    return f"[{media_type or 'base64 data'}, {size_bytes} bytes]"


def without_payloads(text: str) -> str:
    """Return `text` with data: URLs and long base64 replaced by markers; the raw line keeps the bytes."""
    if "base64," in text:
        text = _DATA_URL.sub(lambda match: marker(match[1] or "", base64_size(match[2])), text)
    if len(text) < MIN_BASE64_CHARS:
        return text
    if _URL_SAFE_RUN.fullmatch(text):
        return _replaced(text)
    if not _may_contain_runs(text):
        return text
    text = _RUN.sub(lambda match: _replaced(match[0]), text)
    return _WRAPPED.sub(lambda match: _replaced(match[0]), text)


def _may_contain_runs(text: str) -> bool:
    """Return whether the text has words as long as encoded lines: a quick check that spares most texts the search."""
    if len(text) > _MAX_QUICK_CHARS:
        return True
    lengths = list(map(len, text.split()))
    longest = max(lengths, default=0)
    if longest < _MIN_LINE_CHARS:
        return False
    # Twelve lines, as in `_WRAPPED`.
    return longest >= MIN_BASE64_CHARS or sum(length >= _MIN_LINE_CHARS for length in lengths) >= 12


def _replaced(run: str) -> str:
    # Encoded bytes have a mixed alphabet, unlike long words and hex dumps.
    sample = run[:_SAMPLE_CHARS]
    kinds = (any(map(str.isupper, sample)), any(map(str.islower, sample)), any(map(str.isdigit, sample)))
    return marker("", base64_size(run)) if all(kinds) and len(set(sample)) >= _MIN_DISTINCT else run


def value_without_payloads(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with payloads replaced in all texts, to a bounded depth."""
    if isinstance(value, str):
        return without_payloads(value)
    if depth >= MAX_VALUE_DEPTH and isinstance(value, (Mapping, list, tuple)):
        return TOO_DEEP
    if isinstance(value, Mapping):
        return {str(key): value_without_payloads(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [value_without_payloads(item, depth + 1) for item in value]
    return value
