"""Small helpers for untrusted text: storable text, cutting, hashing."""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def storable(text: str) -> str:
    """Return `text` without the characters that PostgreSQL cannot store: NUL and lone surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.isascii():
        return text
    return _LONE_SURROGATES.sub("\ufffd", text)


def json_storable(value: Any) -> Any:
    """Return `value` as JSON that PostgreSQL's jsonb accepts: no NUL, no lone surrogates, no NaN."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Mapping):
        return {storable(str(key)): json_storable(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [json_storable(item) for item in value]
    return storable(str(value))


def cut(text: str, max_chars: int) -> str:
    """Return `text` in at most `max_chars` characters, ending in an ellipsis if it was cut."""
    return text if len(text) <= max_chars else text[: max_chars - 1].rstrip() + "…"


def one_line(text: str, max_chars: int) -> str:
    """Return `text` with white space folded, cut to `max_chars` characters."""
    # Only the beginning is split, so that a text of many megabytes costs no more than a short one.
    return cut(" ".join(text[: max_chars * 4].split()), max_chars)


def content_hash(text: str) -> bytes:
    """Return the SHA-256 of the text, 32 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
