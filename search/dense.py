"""The semantic legs: cosine similarity of passages and of turns to the query, filters inside the query."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from convmemory.conversations.reading import Filters
from convmemory.core.sql import Asked, load_sql
from convmemory.embeddings.cache import QUERY_CACHE_SIZE, query_vector
from convmemory.embeddings.embedder import Vector, unit_rows
from convmemory.embeddings.models import EmbeddingSpace
from search import vector_index
from search.candidates import TurnKeys, split_keys, turn_keys
from search.filters import filter_sql
from search.query import kinds_in
from search.query_text import QueryText
from search.ranking import Scores
from search.sign_scan import nearest_by_signs
from search.vectors.passages import KINDS, vector_text

LIMITS = {  # how many vectors each leg keeps; of passages, turns are fewer
    "passages_exact": 3_000,
    "passages_named": 1_000,
    "passages_indexed": vector_index.EF_SEARCH,
    "turns_exact": 1_000,
    "turns_signs": 500,
}
SPOKEN = frozenset({"user", "assistant"})
HALF = np.dtype(">f2")  # as PostgreSQL sends half precision


@dataclass(frozen=True, slots=True)
class DenseMatches:
    """Turns by similarity: keys sorted, the cosine of the best vector each."""

    keys: TurnKeys
    scores: Scores


def vector_parameter(space: EmbeddingSpace, text: str) -> str:
    """The query's vector as a SQL parameter. Raises: EmbedderUnavailable."""
    return _as_text(query_vector(space, text).tobytes())


@lru_cache(maxsize=QUERY_CACHE_SIZE)
def _as_text(vector: bytes) -> str:
    return vector_text(np.frombuffer(vector, np.float32))


def kinds_of(scope: frozenset[str]) -> list[int]:
    """The scope as passage kinds, as they are stored."""
    return [KINDS[kind] for kind in kinds_in(scope)]


def ask_passages(
    *, owner_id: int, space: EmbeddingSpace, text: QueryText, scope: frozenset[str], filters: Filters, passages: int
) -> Asked:
    """Send what finds the nearest passages in scope; `passages` is how many the owner has.

    Raises: EmbedderUnavailable.
    """
    name, question = vector_index.passage_statement(space, passages), query_vector(space, text.text)
    return Asked(*passages_statement(name, owner_id, space, question, text, filters, kinds_of(scope)))


def ask_turns(*, owner_id: int, space: EmbeddingSpace, text: QueryText, filters: Filters, turns: int) -> Asked:
    """Send what finds the nearest turns by their own vector; `turns` is how many the owner has.

    Raises: EmbedderUnavailable.
    """
    name, question = vector_index.turn_statement(turns), query_vector(space, text.text)
    return Asked(*dense_statement(name, owner_id, space, question, text, filters))


def dense_matches(asked: Asked) -> DenseMatches:
    """The turns of the passages, or the turns, that were found."""
    ((conversations, turns, scores),) = asked.rows()
    return _best_by_turn(conversations, turns, scores)


def ask_turn_vectors(*, owner_id: int, space: EmbeddingSpace, keys: TurnKeys) -> Asked:
    """Send what reads the vectors of some turns."""
    conversations, turns = split_keys(keys)
    parameters = {"owner": owner_id, "space": space.pk, "conversations": conversations, "turns": turns}
    return Asked(load_sql("search", "turn_vectors"), parameters)


def turn_vectors(asked: Asked, keys: TurnKeys, dimensions: int) -> Vector:
    """The vectors of the turns `keys` that were asked for, of unit length (n, dim); zeros where there is none."""
    ((places, data),) = asked.rows()
    vectors = np.zeros((len(keys), dimensions), np.float32)
    if places:
        vectors[np.asarray(places) - 1] = np.frombuffer(data, HALF).reshape(-1, dimensions)
    return unit_rows(vectors)


def passages_statement(
    name: str,
    owner_id: int,
    space: EmbeddingSpace,
    question: Vector,
    text: QueryText,
    filters: Filters,
    kinds: Sequence[int],
) -> tuple[str, dict[str, Any]]:
    """The SQL of a leg over passages and its parameters; the ids that it names, if any, are looked for here."""
    statement, parameters = dense_statement(name, owner_id, space, question, text, filters)
    if name == "passages_indexed":
        vector_index.scan_widely()
    if name == "passages_named":
        parameters["ids"] = nearest_by_signs(
            owner_id=owner_id,
            space=space,
            question=question,
            kinds=kinds,
            filters=filters,
            text=text,
            limit=LIMITS[name],
        )
    return statement, parameters | {"kinds": list(kinds)}


def dense_statement(
    name: str, owner_id: int, space: EmbeddingSpace, question: Vector, text: QueryText, filters: Filters
) -> tuple[str, dict[str, Any]]:
    """A dense leg's SQL and its parameters."""
    condition, parameters = filter_sql(filters, text, document=None)
    statement = load_sql("search", name).replace("{filters}", condition)
    statement = statement.replace("{space}", str(space.pk)).replace("{dimensions}", str(space.dimensions))
    return statement, parameters | {
        "owner": owner_id,
        "space": space.pk,
        "vector": _as_text(question.tobytes()),
        "limit": LIMITS[name],
    }


def _best_by_turn(
    conversations: Sequence[int] | None, turns: Sequence[int] | None, scores: Sequence[float] | None
) -> DenseMatches:
    keys, inverse = np.unique(turn_keys(conversations or [], turns or []), return_inverse=True)
    best = np.full(len(keys), -np.inf, np.float32)
    np.maximum.at(best, inverse, np.asarray(scores or [], np.float32))
    return DenseMatches(keys, best)
