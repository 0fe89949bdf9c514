"""Opaque cursors for pages of results: the position at which the last page ended, bound to one query."""

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from convmemory.core.errors import InvalidInput

UNREADABLE = "The cursor cannot be read: start again without one."


def fingerprint(query: Mapping[str, Any]) -> str:
    """Return a short digest of the arguments that a cursor belongs to."""
    canonical = json.dumps(query, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def encode_cursor(query: Mapping[str, Any], position: list[Any]) -> str:
    """Return a cursor for `position`, valid for `query` only."""
    data = json.dumps([fingerprint(query), *position], default=str).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode_cursor(query: Mapping[str, Any], cursor: str) -> list[Any]:
    """Return the place that was given to `encode_cursor`.

    Raises: InvalidInput if the cursor is damaged or belongs to another query.
    """
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):  # binascii's and Unicode's errors are ValueErrors
        raise InvalidInput(UNREADABLE) from None
    if not isinstance(values, list) or not values or values[0] != fingerprint(query):
        raise InvalidInput("The cursor belongs to another query: start again without one.")
    return values[1:]


def decode_numbers(query: Mapping[str, Any], cursor: str, *, count: int, at_most: int = 0) -> list[int]:
    """Return the `count` numbers, 0 or greater and at most `at_most`, that were given to `encode_cursor`.

    Raises: InvalidInput.
    """
    position = decode_cursor(query, cursor)
    if not count <= len(position) <= max(count, at_most) or not all(map(_is_number, position)):
        raise InvalidInput(UNREADABLE)
    return position


def decode_moment(query: Mapping[str, Any], cursor: str) -> tuple[datetime, int]:
    """Return the aware time (as ISO 8601) and the id that were given to `encode_cursor`. Raises: InvalidInput."""
    position = decode_cursor(query, cursor)
    if len(position) != 2 or not isinstance(position[0], str) or not _is_number(position[1]):
        raise InvalidInput(UNREADABLE)
    try:
        at = datetime.fromisoformat(position[0]).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(UNREADABLE) from None
    return at, position[1]


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0  # not isinstance: JSON's true is an int in Python
