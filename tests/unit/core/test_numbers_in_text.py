"""Whole numbers in text that a client sent."""

import pytest

from convmemory.core.errors import InvalidInput
from convmemory.core.numbers import MAX_BIGINT, MAX_INTEGER, number_or_refuse, parse_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        (str(MAX_BIGINT), MAX_BIGINT),
        (str(MAX_BIGINT + 1), None),
        ("9" * 10_000, None),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1.0", None),
        (" 1", None),
        ("1_000", None),
        ("٣", None),
        ("²", None),
    ],
)
def test_number_in_ascii_digits_is_parsed(text: str, number: int | None) -> None:
    assert parse_number(text) == number


def test_number_out_of_range_is_none() -> None:
    assert parse_number("0", minimum=1) is None
    assert parse_number(str(MAX_INTEGER + 1), maximum=MAX_INTEGER) is None


def test_empty_text_is_none_and_other_text_is_refused() -> None:
    assert number_or_refuse("", "no number") is None
    assert number_or_refuse("3", "no number") == 3
    with pytest.raises(InvalidInput, match="no number"):
        number_or_refuse("three", "no number")
