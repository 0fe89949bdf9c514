"""Derives the vectors of items from those of their passages, without the model.

An item's vector is the mean of the vectors of what was said in it, each weighed by its tokens. A longer item has
several, each of a chunk of it, and the best counts (docs/adr/0116-vectors-of-items-from-passages.md).
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from django.db import connection

from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.models import ItemEmbedding, Source, SourceIndex
from search.sources import ItemText

ITEM_TOKENS = 192
"""One vector is the mean of about this many tokens at most; a longer item is divided into equal chunks."""


def store_item_vectors(
    source: Source,
    space: EmbeddingSpace,
    items: Sequence[ItemText],
    hashes: Mapping[int, bytes],
    *,
    without: Container[int] = (),
) -> None:
    """Replace the vectors of the items, whose passages are stored; those of the numbers `without` are only deleted.

    `hashes` are the items' content hashes by number. Call it in a transaction that has locked the vectors.
    """
    kept = [item for item in items if item.number not in without]
    said = [
        (item.number, element.element_id, part.index)
        for item in kept
        for element in item.elements
        for part in element.parts
        if part.in_vector
    ]
    parameters: dict[str, Any] = {
        "owner": source.archive_id,
        "source": source.pk,
        "space": space.pk,
        "dimensions": space.dimensions,
        "tokens": ITEM_TOKENS,
        "numbers": [item.number for item in kept],
        "hashes": [hashes[item.number] for item in kept],
        "items": [item for item, _, _ in said],
        "elements": [element for _, element, _ in said],
        "parts": [part for _, _, part in said],
    }
    with connection.cursor() as cursor:
        numbers = [item.number for item in items]
        ItemEmbedding.objects.filter(source=source, space=space, item_number__in=numbers).delete()
        cursor.execute(load_sql("search.vectors", "insert_item_vectors"), parameters)
        (newest,) = cursor.fetchone()
        if newest is not None:
            SourceIndex.objects.filter(source=source, space=space).update(newest_vector=newest)
