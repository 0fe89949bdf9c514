"""What is derived from a source's items beside passages and vectors, in a form that changes between versions.

Reads items through the source's adapter, writes blocks of postings, whether passages ask, and lexical documents of
other languages than English. A source of an older layout is searched all the same; the sweep has it brought up to the
newest.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction

from convmemory.core.sql import load_sql
from search.indexing.batches import batches_of_items
from search.indexing.documents import store_documents
from search.models import PostingBlock, Source
from search.postings.packing import HOMES, ITEM, ITEMS_PER_BLOCK, pack_postings
from search.sources import ItemText
from search.vectors.locking import lock_for_writing
from search.vectors.passages import asking_places
from search.vectors.texts import item_texts


def bring_up_layout(source: Source) -> None:
    """Make what the newest layout has and this source has not. By the one worker that indexes the source."""
    if source.layout >= Source.LAYOUT:
        return
    for batch in batches_of_items(source, 0):
        _index_in_languages(source, batch.items)
        if source.layout < Source.PACKED:
            _mark_asking(source, batch.items)
    with transaction.atomic():
        lock_for_writing(source.pk)
        if source.layout < Source.PACKED:
            PostingBlock.objects.filter(source=source).delete()
            pack_postings(source, range(0, source.item_count, ITEMS_PER_BLOCK))
        Source.objects.filter(pk=source.pk).update(layout=Source.LAYOUT)


def _index_in_languages(source: Source, items: Sequence[ItemText]) -> None:
    """Index the words of those items anew that are not in English alone. Nothing is embedded for it."""
    texts = {item.number: item_texts(item) for item in items}
    store_documents(source, {number: text for number, text in texts.items() if text.languages or text.has_pairs})


def _mark_asking(source: Source, items: list[ItemText]) -> None:
    if not items:
        return
    places = asking_places(element for item in items for element in item.elements)
    parameters: dict[str, Any] = {
        "owner": source.owner_id,
        "source": source.pk,
        "first": items[0].number,
        "last": items[-1].number,
        "elements": [place[0] for place in places],
        "parts": [place[1] for place in places],
        "starts": [place[2] for place in places],
        "ends": [place[3] for place in places],
    }
    with transaction.atomic(), connection.cursor() as cursor:
        lock_for_writing(source.pk)
        cursor.execute(load_sql("search", "mark_asking"), parameters)


def find_lost_postings() -> list[int]:
    """Sources whose blocks of postings are not what their items ask for. Reads every item and every block."""
    parameters = {
        "items": ITEMS_PER_BLOCK,
        "item_bytes": ITEM.itemsize,
        "homes": len(HOMES),
        "layout": Source.PACKED,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "postings_lost"), parameters)
        return [row[0] for row in cursor.fetchall()]


def pack_again(source_ids: list[int]) -> int:
    """Let the sweep have the postings of these sources packed anew; how many."""
    return Source.objects.filter(pk__in=source_ids).update(layout=0)
