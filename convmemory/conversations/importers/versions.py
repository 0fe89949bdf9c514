"""Compares versions of the programs that wrote the files."""

import re

_NUMBER = re.compile(r"\d{1,9}")
_MAX_CHARS = 60
_PARTS = 3


def is_newer(found: str, known: str) -> bool:
    """Return whether version `found` ("0.153.0-alpha.2", "2026-11") is newer than `known`.

    False if either is not a version.
    """
    numbers = _numbers(found), _numbers(known)
    return all(numbers) and numbers[0] > numbers[1]


def _numbers(version: str) -> list[int]:
    return [int(match[0]) for match in _NUMBER.finditer(version[:_MAX_CHARS])][:_PARTS]
