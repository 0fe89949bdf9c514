"""Reads the files of evaluation sets; errors name the expected format."""

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from convmemory.core.errors import InvalidInput


def read_json(path: Path) -> Any:
    """Return the value of a JSON file. Raises: InvalidInput if the file cannot be read or is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON: {error}") from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines file, gzipped or not. Raises: InvalidInput."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield json.loads(line)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON lines: {error}") from error


def moment(text: str, *formats: str) -> datetime | None:
    """Return `text` as a moment in UTC by the first format that fits; None if none fits."""
    for pattern in formats:
        try:
            return datetime.strptime(text.strip(), pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
