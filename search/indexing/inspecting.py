"""Reads what staff inspect of a stored vector: its text, its nearest neighbours and their texts."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection

from convmemory.core.sql import load_sql
from search.indexing.batches import read_items
from search.models import ItemEmbedding, Source
from search.vectors.texts import item_texts


def embedded_text(row: ItemEmbedding) -> tuple[str, str]:
    """Return the text of the vector's item, and a note if the vector is that of another text or of a chunk of it.

    The caller has checked that the reader may see it.
    """
    items = read_items(row.source, row.item_number, row.item_number)
    if not items:
        return "", "The turn is gone; the next sweep removes this vector."
    item = item_texts(items[0])
    note = "" if item.content_hash == bytes(row.content_hash) else "The turn has changed since: this is its text now."
    of_item = ItemEmbedding.objects.filter(source_id=row.source_id, space_id=row.space_id, item_number=row.item_number)
    if (count := of_item.count()) > 1:
        note = f"{note} This is the whole turn; the vector is that of one of its {count} chunks.".strip()
    return item.embedded, note


NEIGHBOURS = 10
# At most this many vectors of the owner are compared.
SCANNED = 50_000


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another vector of the same owner and space; `similarity` is the cosine."""

    pk: int
    kind: str
    object_id: int
    item_number: int
    number: int  # of the chunk
    similarity: float

    @property
    def item(self) -> tuple[str, int, int]:
        """Return its item: kind, object and number."""
        return self.kind, self.object_id, self.item_number


def item_neighbours(embedding_id: int) -> tuple[float, list[Neighbour]]:
    """Return the norm of an item's vector and its neighbours, nearest first.

    One query, an exact scan of `SCANNED` rows at most.
    """
    with connection.cursor() as cursor:
        parameters = {"id": embedding_id, "scanned": SCANNED, "limit": NEIGHBOURS}
        cursor.execute(load_sql("search.vectors", "nearest_vectors"), parameters)
        rows = cursor.fetchall()
    return float(rows[0][0]) if rows else 0.0, [Neighbour(*row[1:]) for row in rows if row[1] is not None]


def texts_of_items(items: Iterable[tuple[str, int, int]]) -> dict[tuple[str, int, int], str]:
    """Return the texts of some items (kind, object, number); the caller has checked the permission to read them."""
    texts = {}
    for kind, object_id, number in items:
        source = Source.objects.filter(kind=kind, object_id=object_id).first()
        read = read_items(source, number, number) if source else []
        texts[kind, object_id, number] = item_texts(read[0]).embedded if read else ""
    return texts
