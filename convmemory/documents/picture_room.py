"""Limits the space for pictures of a user's pages: those not opened for longest are deleted first.

The modification time of a picture's file records when its page was last opened, to the hour. A page whose picture was
deleted is drawn again when a user opens it. The limit is per user, so that no user's reading deletes another's
pictures.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from convmemory.core.config import config
from convmemory.core.numbers import parse_number
from convmemory.documents.storage import pictures_of_everybody, pictures_of_owner

MB = 1024**2
# Pages are deleted in the order of their last view, for which an hour is exact enough.
TOUCHED_EVERY_S = 3_600


@dataclass(frozen=True, slots=True)
class _KeptPage:
    """The files of one page, its words before its picture; their size in bytes, and when it was last opened."""

    files: tuple[Path, ...]
    size: int
    looked_at: float


def record_view(words: Path) -> None:
    """Record that the page with this file of words was opened. Writes at most once an hour."""
    with suppress(OSError):  # deleted meanwhile, or on a read-only disk
        if time.time() - words.stat().st_mtime > TOUCHED_EVERY_S:
            os.utime(words)


def prune_all_pictures() -> int:
    """Delete pictures over the limit for all owners; return the number of deleted pages."""
    folder = pictures_of_everybody()
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    owners = (owner for name in names if (owner := parse_number(name)) is not None)
    return sum(prune_pictures(owner_id=owner) for owner in owners)


def prune_pictures(*, owner_id: int) -> int:
    """Delete pictures of this owner's pages until they fit the limit; return the number of deleted pages.

    The words of a page are deleted first: without them it counts as not drawn.
    """
    pages = sorted(_kept_pages(pictures_of_owner(owner_id)), key=lambda page: page.looked_at)
    too_much = sum(page.size for page in pages) - config.max_page_pictures_mb * MB
    gone = 0
    for page in pages:
        if too_much <= 0:
            break
        for file in page.files:
            file.unlink(missing_ok=True)
        too_much -= page.size
        gone += 1
    return gone


def _kept_pages(folder: Path) -> Iterator[_KeptPage]:
    files_of: dict[Path, list[Path]] = defaultdict(list)
    for file in sorted(folder.glob("*/*/*")):
        files_of[file.with_suffix("")].append(file)
    for files in files_of.values():
        with suppress(FileNotFoundError):  # deleted meanwhile
            found = [file.stat() for file in files]
            yield _KeptPage(tuple(files), sum(each.st_size for each in found), max(each.st_mtime for each in found))
