"""Small helpers for untrusted text: storable text, cutting, hashing."""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from convmemory.core.errors import InvalidInput

MAX_BIGINT = 2**63 - 1  # of a bigint, as ids are
MAX_INTEGER = 2**31 - 1  # of an integer, as positions and numbers of turns are
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def parse_number(text: str, *, minimum: int = 0, maximum: int = MAX_BIGINT) -> int | None:
    """Return the whole number in `text`; None if it is not one in ASCII digits, or out of range."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_BIGINT)):
        return None
    return number if minimum <= (number := int(text)) <= maximum else None


def number_or_refuse(text: str, refusal: str, *, minimum: int = 0, maximum: int = MAX_BIGINT) -> int | None:
    """Return the whole number in `text`, None if it is empty. Raises: InvalidInput with the refusal."""
    number = parse_number(text, minimum=minimum, maximum=maximum)
    if text and number is None:
        raise InvalidInput(refusal)
    return number


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
