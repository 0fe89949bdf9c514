"""The nearest neighbours of one stored vector, a passage's or an item's, for inspection."""

from dataclasses import dataclass

from django.db import connection

from convmemory.core.sql import load_sql

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
    number: int  # the kind of a passage, the chunk of an item vector
    similarity: float

    @property
    def item(self) -> tuple[str, int, int]:
        """Return its item: kind, object and number."""
        return self.kind, self.object_id, self.item_number


def passage_neighbours(passage_id: int) -> tuple[float, list[Neighbour]]:
    """Return the vector's norm and its neighbours, nearest first.

    One query, an exact scan of `SCANNED` rows at most.
    """
    return _nearest(passage_id, table="search_passage", number="kind")


def item_neighbours(embedding_id: int) -> tuple[float, list[Neighbour]]:
    """Return the same for an item's vector."""
    return _nearest(embedding_id, table="search_itemembedding", number="chunk_number")


def _nearest(pk: int, *, table: str, number: str) -> tuple[float, list[Neighbour]]:
    statement = load_sql("search.vectors", "nearest_vectors").replace("{table}", table).replace("{number}", number)
    with connection.cursor() as cursor:
        cursor.execute(statement, {"id": pk, "scanned": SCANNED, "limit": NEIGHBOURS})
        rows = cursor.fetchall()
    return float(rows[0][0]) if rows else 0.0, [Neighbour(*row[1:]) for row in rows if row[1] is not None]
