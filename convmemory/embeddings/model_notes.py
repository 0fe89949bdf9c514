"""Caches facts found by reading a model's large files, so that each is read once and not at every start.

The notes are JSON files in the folder of the built graphs. A note names its files with their sizes and times, and is
valid as long as these stay the same; a damaged note is written again.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.private_files import written_whole

Note = dict[str, Any]


def noted(cache_folder: Path, kind: str, files: Sequence[Path], make: Callable[[], Mapping[str, Any]]) -> Note:
    """Return the note of this kind about exactly these files; written now if there is none.

    Raises:
        EmbedderUnavailable: a file or the note cannot be read or written.
    """
    try:
        about = {"kind": kind, "files": [_fingerprint(path.resolve()) for path in files]}
        key = hashlib.sha256("\n".join([kind, *(str(path.resolve()) for path in files)]).encode()).hexdigest()
        place = cache_folder / f"{key[:16]}.json"
        found = _read(place, about)
        if found is None:
            found = dict(make())
            with written_whole(place, mode=0o644) as file:
                file.write(json.dumps({"about": about, "note": found}).encode())
    except OSError as error:
        raise EmbedderUnavailable(f"{error.filename or cache_folder}: {error.strerror}.") from error
    return found


def _fingerprint(path: Path) -> dict[str, Any]:
    """Return the path, size and time of a file, which identify it without reading it."""
    stat = path.stat()
    return {"path": str(path), "size": stat.st_size, "modified_ns": stat.st_mtime_ns}


def _read(place: Path, about: Note) -> Note | None:
    """Return the note; None if it is missing, damaged or about other files."""
    try:
        value = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(value, dict) or value.get("about") != about or not isinstance(value.get("note"), dict):
        return None
    return dict(value["note"])
