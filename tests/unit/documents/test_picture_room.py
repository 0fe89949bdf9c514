"""Pictures of pages are pruned within their owner's limit, the least recently viewed first."""

import os
import time
from pathlib import Path

import pytest
from pytest_django import Settings

from convmemory.documents.drawing import MB, picture_of, prune_all_pictures, prune_pictures, record_view
from convmemory.documents.models import Document
from convmemory.documents.storage import pictures_folder

DIGEST = "ab" * 32
LONG_AGO = 1_600_000_000
ADA, BOB = 1, 2


@pytest.fixture(autouse=True)
def _room_for_two(settings: Settings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path
    settings.MAX_PAGE_PICTURES_MB = 2


def keep(page: int, *, looked_at: int, archive_id: int = ADA, digest: str = DIGEST) -> Path:
    """The file of words of a page whose files take a MB."""
    folder = pictures_folder(archive_id=archive_id, digest=digest)
    folder.mkdir(parents=True, exist_ok=True)
    words, picture = folder / f"{page}.json", folder / f"{page}.webp"
    words.write_text('{"width": 3, "height": 4, "lines": []}')
    picture.write_bytes(b" " * (MB - words.stat().st_size))
    for file in (words, picture):
        os.utime(file, (looked_at, looked_at))
    return words


def kept(archive_id: int = ADA, digest: str = DIGEST) -> list[str]:
    return sorted(file.name for file in pictures_folder(archive_id=archive_id, digest=digest).iterdir())


def test_least_recently_viewed_pictures_are_pruned_first() -> None:
    for page, looked_at in ((1, 20), (2, 40), (3, 10), (4, 30)):
        keep(page, looked_at=LONG_AGO + looked_at)
    assert prune_pictures(archive_id=ADA) == 2
    assert kept() == ["2.json", "2.webp", "4.json", "4.webp"]


def test_pictures_within_limit_are_not_pruned() -> None:
    keep(1, looked_at=LONG_AGO)
    keep(2, looked_at=LONG_AGO, digest="cd" * 32)
    assert prune_all_pictures() == 0
    assert len(kept()) == 2


def test_picture_limit_is_shared_by_owners_documents_only() -> None:
    keep(1, looked_at=LONG_AGO, archive_id=BOB)
    keep(7, looked_at=LONG_AGO + 1)
    for page in (1, 2):
        keep(page, looked_at=LONG_AGO + 2, digest="cd" * 32)
    assert prune_all_pictures() == 1
    assert (kept(), len(kept(digest="cd" * 32)), len(kept(BOB))) == ([], 4, 2)


def test_draft_of_killed_worker_is_pruned_like_picture() -> None:
    draft = keep(1, looked_at=LONG_AGO).with_name(".9.webp.4711")
    draft.write_bytes(b" " * 2 * MB)
    os.utime(draft, (LONG_AGO - 1, LONG_AGO - 1))
    assert prune_pictures(archive_id=ADA) == 1
    assert kept() == ["1.json", "1.webp"]


def test_page_that_is_shown_counts_as_looked_at() -> None:
    words = keep(1, looked_at=LONG_AGO)
    keep(2, looked_at=LONG_AGO + 1)
    keep(3, looked_at=LONG_AGO + 2)
    assert picture_of(Document(archive_id=ADA, digest=DIGEST), 1) is not None
    assert words.stat().st_mtime > LONG_AGO + 2
    assert prune_pictures(archive_id=ADA) == 1
    assert "1.json" in kept()
    assert "2.json" not in kept()


def test_second_view_within_hour_is_not_recorded() -> None:
    lately = int(time.time()) - 60
    words = keep(1, looked_at=lately)
    record_view(words)
    assert words.stat().st_mtime == lately
    record_view(words.with_name("gone.json"))
