"""The cache whose entries belong to owners: no owner reads or evicts another owner's entries."""

import pytest

from convmemory.embeddings.cache import OwnerCache

ADA, BOB, EVE = 1, 2, 3


class Maker:
    """Makes values and notes for which keys it was asked."""

    def __init__(self, *, per_owner: int, total: int) -> None:
        self.cache: OwnerCache[str, str] = OwnerCache(per_owner=per_owner, total=total)
        self.made: list[tuple[int, str]] = []

    def get(self, archive_id: int, *keys: str) -> None:
        for key in keys:
            assert self.cache.get_or_make(archive_id, key, lambda: self._make(archive_id, key)) == f"{archive_id} {key}"  # noqa: B023

    def _make(self, archive_id: int, key: str) -> str:
        self.made.append((archive_id, key))
        return f"{archive_id} {key}"


def test_value_is_made_once_for_each_owner() -> None:
    maker = Maker(per_owner=4, total=8)
    maker.get(ADA, "a", "a")
    maker.get(BOB, "a", "a")
    maker.get(ADA, "a")
    assert maker.made == [(ADA, "a"), (BOB, "a")]


def test_full_cache_drops_owners_least_recently_used_entry() -> None:
    maker = Maker(per_owner=2, total=8)
    maker.get(ADA, "a", "b", "a", "c", "a", "b")
    assert maker.made == [(ADA, "a"), (ADA, "b"), (ADA, "c"), (ADA, "b")]


def test_busy_owner_does_not_evict_another_owners_entries() -> None:
    maker = Maker(per_owner=10, total=10)
    maker.get(BOB, "quiet")
    maker.get(ADA, *map(str, range(50)))
    maker.made.clear()
    maker.get(BOB, "quiet")
    assert maker.made == []


def test_full_cache_drops_least_recently_used_owners() -> None:
    maker = Maker(per_owner=2, total=3)
    for archive_id in range(100):
        maker.get(archive_id, "a")
    maker.made.clear()
    for archive_id in (97, 98, 99):
        maker.get(archive_id, "a")
    assert maker.made == []
    assert len(maker.cache._owners) == 3


def test_failure_is_not_remembered() -> None:
    maker = Maker(per_owner=2, total=2)

    def fail() -> str:
        raise ValueError("down")

    with pytest.raises(ValueError, match="down"):
        maker.cache.get_or_make(EVE, "a", fail)
    maker.get(EVE, "a")
    assert maker.made == [(EVE, "a")]
