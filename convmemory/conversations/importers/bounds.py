"""Limits the amount of JSON that is parsed at once.

A parsed value can take 70 bytes of memory where its text takes two, so values are counted before anything is parsed:
`{},{},…` would cost an empty object for every three bytes.
"""

import re
from itertools import islice

MAX_VALUES = 1_000_000
"""Values in one piece of JSON: about 100 MB once it is parsed."""

_STRING_OR_SEPARATOR = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[,\[{]', re.DOTALL)


def has_too_many_values(text: str) -> bool:
    """Return whether `text` contains more than `MAX_VALUES` JSON values, in linear time."""
    # One of these precedes every value except the outermost; inside strings they separate nothing.
    if text.count(",") + text.count("[") + text.count("{") <= MAX_VALUES:
        return False
    separators = (match for match in _STRING_OR_SEPARATOR.finditer(text) if text[match.start()] != '"')
    return next(islice(separators, MAX_VALUES, None), None) is not None


def too_many_values(what: str) -> str:
    """Return the reason for not parsing `what`."""
    return f"{what} holds more than {MAX_VALUES:,} values: write one message or conversation a line"
