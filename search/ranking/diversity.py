"""Makes the best items diverse: an item similar to a better one comes later. Reads the vectors of items."""

import numpy as np

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.embedder import Vector, unit_rows
from search.ranking.fusion import Order, diversify
from search.retrieval.candidates import ItemKeys, Scores, split_keys
from search.retrieval.prepared import PreparedQuery

# The number of best items that are reordered.
TOP_K = 30
HALF = np.dtype(">f2")  # as PostgreSQL sends half precision


class PendingItemVectors:
    """A query for the vectors of the items `keys` that has been sent."""

    def __init__(self, query: PreparedQuery, keys: ItemKeys) -> None:
        sources, items = split_keys(keys)
        parameters = {
            "owner": query.owner_id,
            "space": query.active_space.pk,
            "sources": sources,
            "items": items,
        }
        self._pending = PendingQuery(load_sql("search.ranking", "item_vectors"), parameters, keeps_plan=True)
        self._shape = len(keys), query.active_space.dimensions

    def read(self) -> Vector:
        """Return (n, dim) of unit length, in the order of the keys; zeros for an item without a vector."""
        ((places, data),) = self._pending.rows()
        vectors = np.zeros(self._shape, np.float32)
        if places:
            vectors[np.asarray(places) - 1] = np.frombuffer(data, HALF).reshape(-1, self._shape[1])
        return unit_rows(vectors)


def with_diverse_top(order: Order, scores: Scores, best: Order, vectors: Vector, *, relevance: float) -> Order:
    """Return `order` with its first items made diverse; `relevance` is the weight of their scores, 0 to 1.

    `vectors` (n, dim) belong to the items at `best` (sorted); other items count as similar to none.
    """
    top = order[:TOP_K]
    places = np.searchsorted(best, top).clip(max=len(best) - 1)
    own = np.where((best[places] == top)[:, None], vectors[places], 0)
    similarity = own @ own.T
    np.fill_diagonal(similarity, 0)
    return np.concatenate([top[diversify(scores[top], similarity, relevance=relevance)], order[len(top) :]])
