"""Packs the postings of items whose words a transaction has stored.

Source: docs/adr/0097-pack-postings-in-the-worker.md.
"""

import time
from collections.abc import Collection

from django.db import connection, transaction

from convmemory.core.sql import load_sql
from search.models import PostingBlock, Source
from search.postings.cached import HOMES, ITEM, ITEMS_PER_BLOCK, pack_postings
from search.vectors.locking import lock_for_writing, locked

# Items in a transaction: a conversation is locked for milliseconds at a time.
PACKED_AT_ONCE = 8 * ITEMS_PER_BLOCK
SOURCES_READ = 100


def pack_source(source: Source) -> None:
    """Pack the postings of the source's items that have none, so many in a transaction."""
    while True:
        with transaction.atomic():
            lock_for_writing(source.pk)
            current = locked(source)
            if current is None or current.unpacked_from is None:
                return
            first = current.unpacked_from
            until = min(first + PACKED_AT_ONCE, current.item_count)
            pack_postings(current, range(first, until))
            rest = until if until < current.item_count else None
            Source.objects.filter(pk=source.pk).update(unpacked_from=rest)
            if rest is None:
                return


def pack_owner(archive_id: int, *, deadline: float) -> None:
    """Pack the postings of the owner's sources, the last used first, until `time.monotonic()` passes `deadline`."""
    waiting = Source.objects.filter(archive_id=archive_id, unpacked_from__isnull=False).order_by("-updated_at")
    for source in waiting.only("pk").iterator(chunk_size=SOURCES_READ):
        if time.monotonic() > deadline:
            return
        pack_source(source)


def pack_again(source_ids: Collection[int]) -> int:
    """Delete the postings of these sources, so that the sweep has them packed again; return the number of sources."""
    if not source_ids:
        return 0
    with transaction.atomic():
        PostingBlock.objects.filter(source__in=source_ids).delete()
        return Source.objects.filter(pk__in=source_ids).update(unpacked_from=0)


def find_lost_postings() -> list[int]:
    """Return the sources whose blocks of postings do not match their items. Reads all items and blocks."""
    parameters = {
        "items": ITEMS_PER_BLOCK,
        "item_bytes": ITEM.itemsize,
        "homes": len(HOMES),
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "postings_lost"), parameters)
        return [row[0] for row in cursor.fetchall()]
