"""Whole numbers in queries and forms, within what PostgreSQL's integers hold."""

from convmemory.core.errors import InvalidInput

MAX_BIGINT = 2**63 - 1  # of a bigint, as ids are
MAX_INTEGER = 2**31 - 1  # of an integer, as positions and numbers of turns are


def parse_number(text: str, *, minimum: int = 0, maximum: int = MAX_BIGINT) -> int | None:
    """Return the whole number in `text`; None if it is not one in ASCII digits, or out of range."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_BIGINT)):
        return None
    return number if minimum <= (number := int(text)) <= maximum else None


def space_number(name: str) -> int | None:
    """Return the number of a space from the name that the administration gives it, such as "space 7"; else None."""
    word, _, number = name.partition(" ")
    return parse_number(number, maximum=MAX_INTEGER) if word == "space" else None


def number_or_refuse(text: str, refusal: str, *, minimum: int = 0, maximum: int = MAX_BIGINT) -> int | None:
    """Return the whole number in `text`, None if it is empty. Raises: InvalidInput with the refusal."""
    number = parse_number(text, minimum=minimum, maximum=maximum)
    if text and number is None:
        raise InvalidInput(refusal)
    return number
