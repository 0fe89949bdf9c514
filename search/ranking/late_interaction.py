"""Late interaction: every token of the query finds its best token in the item (MaxSim), weighed by idf.

Reads the binary token vectors of the best items of the first stage. Source: ColBERT's operator;
measurements in docs/adr/0008-late-interaction.md.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.embedder import Span, TokenEmbedder, Vector
from convmemory.embeddings.spaces import embedder_for
from convmemory.embeddings.token_codes import similarities
from search.retrieval.candidates import ItemKeys, Scores
from search.retrieval.features import Feature
from search.retrieval.prepared import PreparedQuery

PASSAGES_PER_ITEM = 5
WEIGHT_POWER = 0.5  # below 1: the rarest word must not decide alone
QUERY_TOKENS = 32  # of a longer query, the ones that weigh most

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class MaxSim:
    """MaxSim (n,) over each item, over it and the items beside it, and of its best single passage."""

    item: Scores
    neighbours: Scores
    passage: Scores


def late_interaction_features(
    query: PreparedQuery, keys: ItemKeys, word_weights: Mapping[str, float]
) -> dict[str, Scores]:
    """Features of the items `keys` (sorted), 0 to 1; none where the space has no token vectors. One query."""
    if query.embedding is None or not len(query.embedding.token_ids) or not len(keys):
        return {}
    vectors, weights = weighted_query_tokens(query, word_weights)
    parameters = query.nearest_passages_of(keys) | {"passages": PASSAGES_PER_ITEM}
    rows = PendingQuery(load_sql("search", "late_passages"), parameters).rows()
    coded = {place - 1: list(_cut(data, sizes)) for place, data, sizes in rows}
    if not coded:
        return {}
    found = max_sim(keys, coded, vectors, weights, query.active_space.dimensions)
    return {
        Feature.MAX_SIM: found.item,
        Feature.NEIGHBOUR_MAX_SIM: found.neighbours,
        Feature.PASSAGE_MAX_SIM: found.passage,
    }


def _cut(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """The pieces of `data` that have these sizes, in order."""
    start = 0
    for size in sizes:
        yield data[start : start + size]
        start += size


def weighted_query_tokens(query: PreparedQuery, word_weights: Mapping[str, float]) -> tuple[Vector, Scores]:
    """The query's weightiest token vectors (q, dim) and their weights (q,), which sum to 1."""
    embedder = embedder_for(query.active_space)
    assert isinstance(embedder, TokenEmbedder)
    assert query.embedding is not None
    text, tokens = query.text.text, query.embedding
    weights = token_weights(text, embedder.token_spans(text)[: len(tokens.token_ids)], word_weights)
    kept = np.sort(np.argsort(-weights, kind="stable")[:QUERY_TOKENS])
    chosen = weights[kept] ** WEIGHT_POWER
    return tokens.token_vectors[kept], chosen / max(float(chosen.sum()), 1e-6)


def token_weights(text: str, spans: Sequence[Span], word_weights: Mapping[str, float]) -> Scores:
    """The idf of the word that each token is a piece of; punctuation weighs nothing."""
    words: dict[int, str] = {}
    for match in _WORD.finditer(text):
        words |= dict.fromkeys(range(*match.span()), match.group().lower())
    rarest = max(word_weights.values(), default=1.0)
    weights = [word_weights.get(words[start], rarest) if start in words else 0.0 for start, _ in spans]
    result = np.asarray(weights, np.float32)
    return result if result.sum() > 0 else np.ones_like(result)


def max_sim(
    keys: ItemKeys, coded: Mapping[int, list[bytes]], question: Vector, weights: Scores, dimensions: int
) -> MaxSim:
    """MaxSim of the items, or messages, `keys` (sorted) by the coded passages of each place among the keys.

    Neighbours are those whose keys follow each other.
    """
    order = sorted(coded)
    passages = [data for place in order for data in coded[place]]
    cosines = similarities(question, b"".join(passages))
    token_counts = np.array([len(data) * 8 // dimensions for data in passages])
    filled = np.flatnonzero(token_counts)
    starts = np.concatenate([[0], np.cumsum(token_counts)[:-1]])[filled]
    by_passage = np.maximum.reduceat(cosines, starts, axis=1)  # (q, passages)
    item_of = np.repeat(order, [len(coded[place]) for place in order])[filled]
    best = np.zeros((len(question), len(keys)), np.float32)
    np.maximum.at(best.T, item_of, by_passage.T)
    single = np.zeros(len(keys), np.float32)
    np.maximum.at(single, item_of, weights @ by_passage)
    return MaxSim(weights @ best, weights @ _with_neighbours(keys, best), single)


def _with_neighbours(keys: ItemKeys, best: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each token's best cosine in the item or in the items beside it, as far as those are among the keys."""
    wide = best.copy()
    adjacent = np.flatnonzero(np.diff(keys) == 1)
    wide[:, adjacent] = np.maximum(wide[:, adjacent], best[:, adjacent + 1])
    wide[:, adjacent + 1] = np.maximum(wide[:, adjacent + 1], best[:, adjacent])
    return wide
