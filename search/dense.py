"""The semantic leg: cosine similarity of turns to the query, owner and filters inside the query."""

from dataclasses import dataclass

import numpy as np
from django.db import connection

from convmemory.conversations.reading import Filters
from convmemory.core.sql import load_sql
from convmemory.embeddings.cache import query_vector
from convmemory.embeddings.models import EmbeddingSpace
from search.candidates import TurnKeys, turn_keys
from search.filters import filter_sql
from search.ranking import Scores

CANDIDATES = 2_000


@dataclass(frozen=True, slots=True)
class DenseMatches:
    """Turns by similarity: keys sorted, cosine of the best chunk each."""

    keys: TurnKeys
    scores: Scores


def dense_matches(*, owner_id: int, space: EmbeddingSpace, text: str, filters: Filters) -> DenseMatches:
    """One SQL query. Raises: EmbedderUnavailable."""
    condition, parameters = filter_sql(filters, turn_date="c.created_at")
    vector = "[" + ",".join(f"{value:.6g}" for value in query_vector(space, text)) + "]"
    parameters |= {"owner": owner_id, "space": space.pk, "vector": vector, "limit": CANDIDATES}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "turn_similarities").replace("{filters}", condition), parameters)
        conversations, turns, similarities = cursor.fetchone()
    keys = turn_keys(conversations or [], turns or [])
    order = np.argsort(keys)
    return DenseMatches(keys[order], np.asarray(similarities or [], np.float32)[order])
