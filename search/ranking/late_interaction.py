"""Late interaction: every token of the question finds its best token in the turn (MaxSim), weighed by idf.

Reads the coded token vectors of the best turns of the first stage. Source: ColBERT's operator;
measurements in docs/adr/0008-late-interaction.md.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import Asked, load_sql
from convmemory.embeddings.cache import query_tokens
from convmemory.embeddings.embedder import Span, TokenEmbedder, TokenEmbedding, Vector
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import embedder_for
from convmemory.embeddings.token_codes import similarities
from search.ranking.fusion import Scores
from search.retrieval.candidates import TurnKeys, split_keys
from search.retrieval.dense import kinds_of, vector_parameter

TURNS = 80
PASSAGES_PER_TURN = 5
WEIGHT_POWER = 0.5  # below 1: the rarest word must not decide alone
QUESTION_TOKENS = 32  # of a longer question, the ones that weigh most

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class LateScores:
    """MaxSim of turns (keys sorted): over the turn, with its neighbours, and of its best single passage."""

    keys: TurnKeys
    turn: Scores
    neighbours: Scores
    passage: Scores


def late_scores(
    *,
    owner_id: int,
    space: EmbeddingSpace,
    text: str,
    scope: frozenset[str],
    keys: TurnKeys,
    word_weights: Mapping[str, float],
) -> LateScores | None:
    """Scores of the turns `keys` (sorted), 0 to 1; None where the space has no token vectors. One query."""
    question = query_tokens(space, text)
    if question is None or not len(keys):
        return None
    vectors, weights = weighted_question(space, text, question, word_weights)
    conversations, turns = split_keys(keys)
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "space": space.pk,
        "vector": vector_parameter(space, text),
        "kinds": kinds_of(scope),
        "conversations": conversations,
        "turns": turns,
        "passages": PASSAGES_PER_TURN,
    }
    rows = Asked(load_sql("search", "late_passages"), parameters).rows()
    coded = {place - 1: list(_cut(data, sizes)) for place, data, sizes in rows}
    return max_sim(keys, coded, vectors, weights, space.dimensions) if coded else None


def _cut(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """The pieces of `data` that have these sizes, in order."""
    start = 0
    for size in sizes:
        yield data[start : start + size]
        start += size


def weighted_question(
    space: EmbeddingSpace, text: str, question: TokenEmbedding, word_weights: Mapping[str, float]
) -> tuple[Vector, Scores]:
    """The question's weightiest token vectors (q, dim) and their weights (q,), which sum to 1."""
    embedder = embedder_for(space)
    assert isinstance(embedder, TokenEmbedder)
    weights = token_weights(text, embedder.token_spans(text)[: len(question.token_ids)], word_weights)
    kept = np.sort(np.argsort(-weights, kind="stable")[:QUESTION_TOKENS])
    chosen = weights[kept] ** WEIGHT_POWER
    return question.token_vectors[kept], chosen / max(float(chosen.sum()), 1e-6)


def token_weights(text: str, spans: Sequence[Span], word_weights: Mapping[str, float]) -> Scores:
    """The idf of the word that each token is a piece of; punctuation weighs nothing."""
    words = {position: match.group().lower() for match in _WORD.finditer(text) for position in range(*match.span())}
    rarest = max(word_weights.values(), default=1.0)
    weights = [word_weights.get(words[start], rarest) if start in words else 0.0 for start, _ in spans]
    result = np.asarray(weights, np.float32)
    return result if result.sum() > 0 else np.ones_like(result)


def max_sim(
    keys: TurnKeys, coded: Mapping[int, list[bytes]], question: Vector, weights: Scores, dimensions: int
) -> LateScores:
    """Scores of the turns, or messages, `keys` (sorted) by the coded passages of each place among the keys.

    Neighbours are those whose keys follow each other.
    """
    order = sorted(coded)
    passages = [data for place in order for data in coded[place]]
    cosines = similarities(question, b"".join(passages))
    token_counts = np.array([len(data) * 8 // dimensions for data in passages])
    filled = np.flatnonzero(token_counts)
    starts = np.concatenate([[0], np.cumsum(token_counts)[:-1]])[filled]
    by_passage = np.maximum.reduceat(cosines, starts, axis=1)  # (q, passages)
    turn_of = np.repeat(order, [len(coded[place]) for place in order])[filled]
    best = np.zeros((len(question), len(keys)), np.float32)
    np.maximum.at(best.T, turn_of, by_passage.T)
    single = np.zeros(len(keys), np.float32)
    np.maximum.at(single, turn_of, weights @ by_passage)
    return LateScores(keys, weights @ best, weights @ _with_neighbours(keys, best), single)


def _with_neighbours(keys: TurnKeys, best: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each token's best cosine in the turn or in the turn beside it, as far as those are among the turns."""
    wide = best.copy()
    adjacent = np.flatnonzero(np.diff(keys) == 1)
    wide[:, adjacent] = np.maximum(wide[:, adjacent], best[:, adjacent + 1])
    wide[:, adjacent + 1] = np.maximum(wide[:, adjacent + 1], best[:, adjacent])
    return wide
