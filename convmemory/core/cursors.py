"""Opaque cursors for pages of results: where the last page ended, bound to the query it was made for."""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from convmemory.core.errors import InvalidInput


def fingerprint(query: Mapping[str, Any]) -> str:
    """A short digest of the arguments that a cursor belongs to."""
    canonical = json.dumps(query, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def encode_cursor(query: Mapping[str, Any], place: list[Any]) -> str:
    """A cursor for `place`, valid for `query` only."""
    data = json.dumps([fingerprint(query), *place], default=str).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode_cursor(query: Mapping[str, Any], cursor: str) -> list[Any]:
    """The place that `encode_cursor` put in. Raises: InvalidInput if it is damaged or of another query."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, UnicodeDecodeError):
        raise InvalidInput("The cursor cannot be read: start again without one.") from None
    if not isinstance(values, list) or not values or values[0] != fingerprint(query):
        raise InvalidInput("The cursor belongs to another query: start again without one.")
    return values[1:]


def decode_numbers(query: Mapping[str, Any], cursor: str, *, count: int) -> list[int]:
    """The `count` numbers from 0 up that `encode_cursor` put in. Raises: InvalidInput."""
    place = decode_cursor(query, cursor)
    if len(place) != count or not all(type(number) is int and number >= 0 for number in place):
        raise InvalidInput("The cursor cannot be read: start again without one.")
    return place
