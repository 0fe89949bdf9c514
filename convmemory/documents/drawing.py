"""Pictures of a PDF's pages: a worker's child process draws them when a user opens them, and they are kept.

They are stored under `MEDIA_ROOT`, by owner and digest, and are deleted with the file or to make room for others
(`drawing.py`). A page that cannot be drawn gets a file with the reason, and is not tried again. See
docs/adr/0030-converters-in-a-confined-process.md.
"""

import json
import os
import shutil
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from convmemory.core.config import config
from convmemory.core.files.private_files import written_whole
from convmemory.core.files.work_folders import work_folder
from convmemory.core.numbers import parse_number
from convmemory.core.processes import child_process
from convmemory.core.processes.child_process import ChildLimits, Ending, plain_environment
from convmemory.documents.models import Document
from convmemory.documents.storage import pictures_folder, pictures_of_everybody, pictures_of_owner

# The number of pages that one task draws.
PAGES_AT_ONCE = 8
DRAWING_TIMEOUT_S = 60
NOT_DRAWN = json.dumps({"width": 0, "height": 0, "lines": []})

MB = 1024**2
# Pages are deleted in the order of their last view, for which an hour is exact enough.
TOUCHED_EVERY_S = 3_600


@dataclass(frozen=True, slots=True)
class Picture:
    """A page: its size in pixels, and its lines of words in the format of `draw_child.py`.

    A page without a size was not drawn.
    """

    width: int
    height: int
    lines: tuple[tuple[tuple[str, int, int, int, int], ...], ...]

    @property
    def is_drawn(self) -> bool:
        return self.width > 0


def first_of_batch(page: int) -> int:
    """Return the first of the pages that are drawn together with this one."""
    return (page - 1) // PAGES_AT_ONCE * PAGES_AT_ONCE + 1


def draw_pages(*, archive_id: int, document_id: int, first: int) -> int:
    """Draw a batch of pages of the owner's PDF, from `first` on; return how many were drawn."""
    rows = Document.objects.filter(archive_id=archive_id, pk=document_id)
    document = rows.filter(format="pdf", status=Document.Status.READY).first()
    if document is None or not document.file.storage.exists(str(document.file)):
        return 0
    last = min(first + PAGES_AT_ONCE - 1, document.page_count or 0)
    with work_folder("drawing", archive_id=document.archive_id, claim=document.pk) as folder:
        ending = child_process.run_child(
            "convmemory.documents.draw_child",
            [document.file.path, str(first), str(PAGES_AT_ONCE), str(folder)],
            limits=ChildLimits(
                memory_mb=config.document_memory_mb, timeout_s=DRAWING_TIMEOUT_S, stall_s=config.document_stall_s
            ),
            environment=plain_environment() | {"TMPDIR": str(folder)},
            is_wanted=rows.filter(digest=document.digest).exists,
            progress=lambda: child_process.touched_at(folder),
        )
        if ending is Ending.DISK_FULL:
            return 0  # not recorded as pages that cannot be drawn
        drawn = [_keep(document, folder, number) for number in range(first, last + 1)]
    if not rows.filter(digest=document.digest).exists():
        drop_pictures(archive_id=document.archive_id, digest=document.digest)  # deleted or replaced meanwhile
    prune_pictures(archive_id=document.archive_id)
    return sum(drawn)


def _keep(document: Document, folder: Path, number: int) -> bool:
    """Move a page to its place, the words last, because they mark it as present."""
    target = pictures_folder(archive_id=document.archive_id, digest=document.digest)
    words, picture = folder / f"{number}.json", folder / f"{number}.webp"
    is_drawn = words.exists() and picture.exists()
    if is_drawn:
        _move(picture, target / picture.name)
    else:
        words.write_text(NOT_DRAWN, encoding="utf-8")
    _move(words, target / words.name)
    return is_drawn


def _move(source: Path, target: Path) -> None:
    """Move the file in one step, readable by the server's user alone.

    A plain rename fails if the two places are on different disks.
    """
    with source.open("rb") as file, written_whole(target) as copy:
        shutil.copyfileobj(file, copy)


def picture_of(document: Document, page: int) -> Picture | None:
    """Return the page as drawn, or without a size if it cannot be drawn; None if no worker has tried yet."""
    path = pictures_folder(archive_id=document.archive_id, digest=document.digest) / f"{page}.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # an earlier version left half a file on a full disk
        return None
    record_view(path)
    lines = tuple(tuple(tuple(word) for word in line) for line in facts["lines"])
    return Picture(facts["width"], facts["height"], lines)


def picture_file(document: Document, page: int) -> Path | None:
    """Return the file of the page's picture, if it has been drawn."""
    path = pictures_folder(archive_id=document.archive_id, digest=document.digest) / f"{page}.webp"
    return path if path.is_file() else None


def drop_pictures(*, archive_id: int, digest: str) -> None:
    """Delete the pictures of one file."""
    with suppress(FileNotFoundError):
        shutil.rmtree(pictures_folder(archive_id=archive_id, digest=digest))


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
    return sum(prune_pictures(archive_id=owner) for owner in owners)


def prune_pictures(*, archive_id: int) -> int:
    """Delete pictures of this owner's pages until they fit the limit; return the number of deleted pages.

    Those not opened for longest go first: the modification time of a page's file records when it was last opened, to
    the hour. A deleted page is drawn again when a user opens it. The limit is per user, so that no user's reading
    deletes another's pictures. The words of a page are deleted first: without them it counts as not drawn.
    """
    files_of: dict[Path, list[Path]] = defaultdict(list)
    for file in sorted(pictures_of_owner(archive_id).glob("*/*/*")):
        files_of[file.with_suffix("")].append(file)
    pages: list[tuple[float, int, list[Path]]] = []  # when it was last opened, its bytes, its words before its picture
    for files in files_of.values():
        with suppress(FileNotFoundError):  # deleted meanwhile
            stats = [file.stat() for file in files]
            looked_at = max(each.st_mtime for each in stats)
            pages.append((looked_at, sum(each.st_size for each in stats), files))
    too_much = sum(size for _, size, _ in pages) - config.max_page_pictures_mb * MB
    gone = 0
    for _, size, files in sorted(pages, key=lambda page: page[0]):
        if too_much <= 0:
            break
        for file in files:
            file.unlink(missing_ok=True)
        too_much -= size
        gone += 1
    return gone
