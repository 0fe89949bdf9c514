"""JSON documents that must be parsed at once, within limits."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.bounds import has_too_many_values, too_many_values
from convmemory.conversations.importers.lines import unreadable
from convmemory.conversations.importers.payloads import value_without_payloads
from convmemory.core.errors import InvalidInput, TooLarge

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024


def load_json(path: Path, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> Any:
    """Return the file's value. Raises: TooLarge, InvalidInput with the position of the error."""
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise TooLarge(f"A JSON document of {size // 1024**2} MB is read only up to {max_bytes // 1024**2} MB.")
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise unreadable(path, error) from error
    if has_too_many_values(text):
        raise TooLarge(f"{too_many_values('The JSON document')}.")
    return parse_json(text)


def parse_json(text: str) -> Any:
    """Return the value of a text whose size has been checked. Raises: InvalidInput."""
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"Not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}. The file may be cut off."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"Not readable JSON: {error}.") from error


def column_json(text: object) -> Any:
    """Return the JSON value in a column of a database, None if it is not readable."""
    if not isinstance(text, str) or has_too_many_values(text):
        return None
    try:
        return parse_json(text)
    except InvalidInput:
        return None


def objects_in(value: object, what: str, report: FileReport) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; other items are reported as skipped."""
    for number, item in enumerate(value if isinstance(value, list) else [], 1):
        if isinstance(item, Mapping):
            yield item
        else:
            report.skip(f"{what} {number}", "not an object")


def dumped(value: object) -> bytes:
    """Return the value as JSON for storage, without payloads and levels that are nested too deeply."""
    return json.dumps(value_without_payloads(value), ensure_ascii=False).encode("utf-8", "replace")
