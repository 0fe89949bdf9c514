"""Cursors that were not made by this server, or for another query: each is refused with a sentence."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from convmemory.core.cursors import decode_moment, decode_numbers, encode_cursor, fingerprint
from convmemory.core.errors import InvalidInput

QUERY = {"list": "conversations"}


def forged(*position: Any) -> str:
    """A cursor of the right query with a place that this server never gave."""
    return encode_cursor(QUERY, list(position))


def coded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_cursor_round_trips() -> None:
    at = datetime(2026, 3, 31, 12, 30, 0, 123, UTC)
    assert decode_moment(QUERY, encode_cursor(QUERY, [at.isoformat(), 7])) == (at, 7)
    assert decode_numbers(QUERY, encode_cursor(QUERY, [3, 0]), count=2) == [3, 0]


@pytest.mark.parametrize(
    "cursor",
    ["!", "é", "e30", "a", coded("[" * 50_000), coded("[]"), coded("7"), coded(json.dumps([fingerprint({}), 1, 2])),
     forged(), forged(1), forged(1, 2, 3), forged(-1, 2), forged("1", 2), forged(True, 1), forged(None, None),
     forged("2026-13-01", 1), forged("2026-01-01T00:00:00+00:00", "1"), forged("0001-01-01T00:00:00+14:00", 1)],
)  # fmt: skip
def test_forged_cursor_is_bad_input(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        decode_numbers(QUERY, cursor, count=2)
    with pytest.raises(InvalidInput, match="cursor"):
        decode_moment(QUERY, cursor)
