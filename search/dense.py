"""The semantic legs: cosine similarity of passages and of turns to the query, filters inside the query."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection

from convmemory.conversations.reading import Filters
from convmemory.core.sql import load_sql
from convmemory.embeddings.cache import query_vector
from convmemory.embeddings.models import EmbeddingSpace
from memory.passages import KINDS, vector_text
from search.candidates import TurnKeys, turn_keys
from search.filters import filter_sql
from search.query_text import QueryText
from search.ranking import Scores

CANDIDATES = 2_000
SPOKEN = frozenset({"user", "assistant"})


@dataclass(frozen=True, slots=True)
class DenseMatches:
    """Turns by similarity: keys sorted, the cosine of the best vector each."""

    keys: TurnKeys
    scores: Scores


def vector_parameter(space: EmbeddingSpace, text: str) -> str:
    """The query's vector as a SQL parameter. Raises: EmbedderUnavailable."""
    return vector_text(query_vector(space, text))


def kinds_of(scope: frozenset[str]) -> list[int]:
    """The scope as passage kinds."""
    return [number for name, number in KINDS.items() if name in scope]


def passage_matches(
    *, owner_id: int, space: EmbeddingSpace, text: QueryText, scope: frozenset[str], filters: Filters
) -> DenseMatches:
    """Turns by their best passage in scope. One query. Raises: EmbedderUnavailable."""
    return _matches("passage_similarities", owner_id, space, text, filters, {"kinds": kinds_of(scope)})


def turn_matches(*, owner_id: int, space: EmbeddingSpace, text: QueryText, filters: Filters) -> DenseMatches:
    """Turns by their own vector (what was said, all of it). One query. Raises: EmbedderUnavailable."""
    return _matches("turn_similarities", owner_id, space, text, filters, {})


def _matches(
    statement: str,
    owner_id: int,
    space: EmbeddingSpace,
    text: QueryText,
    filters: Filters,
    more: dict[str, Any],
) -> DenseMatches:
    condition, parameters = filter_sql(filters, text, document=None)
    parameters |= more | {
        "owner": owner_id,
        "space": space.pk,
        "vector": vector_parameter(space, text.text),
        "limit": CANDIDATES,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", statement).replace("{filters}", condition), parameters)
        return _sorted(*cursor.fetchone())


def _sorted(
    conversations: Sequence[int] | None, turns: Sequence[int] | None, scores: Sequence[float] | None
) -> DenseMatches:
    keys = turn_keys(conversations or [], turns or [])
    order = np.argsort(keys)
    return DenseMatches(keys[order], np.asarray(scores or [], np.float32)[order])
