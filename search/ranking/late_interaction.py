"""Late interaction: each token of the query finds its best token in the item (MaxSim), weighted by idf.

Reads the binary token vectors of the best items of the first stage. Source: ColBERT's operator; measurements in
docs/adr/0008-late-interaction.md.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.core.text import Span
from convmemory.embeddings.embedder import TokenEmbedder, Vector
from convmemory.embeddings.spaces import embedder_for
from convmemory.embeddings.token_codes import best_similarities
from search.retrieval.candidates import ITEM_BITS, Feature, Ints, ItemKeys, Scores, group_starts
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import SearchState
from search.vectors.blocks import PendingTokens

# The five nearest to the query (ADR 10).
PASSAGES_PER_ITEM = 5
# Below 1, so that the rarest word does not decide alone.
WEIGHT_POWER = 0.5
# Of a longer query, only the tokens with the largest weights are compared.
QUERY_TOKENS = 32

_WORD = re.compile(r"\w+")

Chosen = NDArray[np.bool_] | slice
EVERY = slice(None)


@dataclass(frozen=True, slots=True)
class PassageMatches:
    """Matches of the query's tokens with some passages: `best` (q, p) cosines, and the weights of the tokens, (q,).

    `items` (p,) are places among the requested keys, `elements` (p,) the elements of the passages; `asks` (p,) says
    which passages are questions. The methods take the `chosen` passages alone, and group them by `places` (p,) among a
    number of items.
    """

    best: NDArray[np.float32]
    weights: Scores
    items: NDArray[np.int64]
    elements: NDArray[np.int64]
    asks: NDArray[np.bool_]

    @classmethod
    def of_tokens(
        cls,
        coded: bytes,
        sizes: Sequence[int] | NDArray[np.int64],
        question: Vector,
        weights: Scores,
        *,
        items: Sequence[int] | NDArray[np.int64],
        elements: Sequence[int] | NDArray[np.int64],
        asks: Sequence[bool] | NDArray[np.bool_],
    ) -> "PassageMatches":
        """Compare the query with the coded token vectors of the passages.

        `coded` joins them in the order of the other arguments; `sizes` are the bytes of each passage (p,). Passages
        without token vectors are left out.
        """
        token_counts = np.asarray(sizes, np.int64) * 8 // question.shape[1]
        filled = token_counts > 0
        starts = (np.cumsum(token_counts) - token_counts)[filled]
        best = best_similarities(question, coded, starts)
        return cls(
            best, weights, np.asarray(items, np.int64)[filled], np.asarray(elements, np.int64)[filled],
            np.asarray(asks, np.bool_)[filled],
        )  # fmt: skip

    def best_at(self, places: Ints, count: int, chosen: Chosen = EVERY) -> NDArray[np.float32]:
        """Return the best cosine of each token in each item (q, count), 0 if it has no passage."""
        best = np.zeros((len(self.best), count), np.float32)
        rows = np.arange(len(places))[chosen]
        if len(rows):
            rows = rows[np.argsort(places[rows], kind="stable")]
            ordered = places[rows]
            starts = group_starts(ordered)
            best[:, ordered[starts]] = np.maximum.reduceat(self.best[:, rows], starts, axis=1).clip(min=0)
        return best

    def max_sim(self, places: Ints, count: int, chosen: Chosen = EVERY) -> Scores:
        """Return MaxSim of each item, 0 if it has no passage."""
        return weighted(self.weights, self.best_at(places, count, chosen))

    def single(self, places: Ints, count: int, chosen: Chosen = EVERY) -> Scores:
        """Return MaxSim of the best single passage of each item."""
        single = np.zeros(count, np.float32)
        np.maximum.at(single, places[chosen], weighted(self.weights, self.best[:, chosen]))
        return single


@dataclass(frozen=True, slots=True)
class LatePassages:
    """The query's tokens with their weights, and passages near it (p,): the places of their items among the requested
    keys, their coded token vectors, their entries in blocks of codes, and the kinds of their sources.

    Comparing them takes a while, during which PostgreSQL can look up their elements.
    """

    tokens: Vector
    weights: Scores
    items: NDArray[np.int64]
    coded: Sequence[bytes]
    entries: NDArray[Any]
    kinds: Sequence[str]

    def elements_by_kind(self) -> dict[str, set[int]]:
        """Return the elements of the passages, by the kind of their sources."""
        by_kind: dict[str, set[int]] = {}
        for kind, element in zip(self.kinds, self.entries["element"].tolist(), strict=True):
            by_kind.setdefault(kind, set()).add(element)
        return by_kind

    def matched(self) -> PassageMatches:
        """Compare the query's tokens with the passages."""
        return PassageMatches.of_tokens(
            b"".join(self.coded),
            [len(tokens) for tokens in self.coded],
            self.tokens,
            self.weights,
            items=self.items,
            elements=self.entries["element"],
            asks=self.entries["asks"] != 0,
        )


def find_passages(state: SearchState, keys: ItemKeys, for_questions: NDArray[np.bool_]) -> LatePassages | None:
    """Return the nearest passages of the items `keys`; for some items, only those that ask. One query.

    None if the space has no token vectors.
    """
    query = state.query
    if query.embedding is None or not len(query.embedding.token_ids) or not len(keys):
        return None
    if state.compared is None:
        return None
    near = state.compared.nearest_of_items(keys, query.passage_kinds, PASSAGES_PER_ITEM, asking_alone=for_questions)
    blocks = state.compared.blocks
    pending = PendingTokens(query.archive_id, blocks, near.places)
    tokens, weights = weighted_query_tokens(query, state.word_weights)
    coded = pending.read()
    kinds = [blocks.source_kinds[source] for source in (keys[near.of_item] >> ITEM_BITS).tolist()]
    return LatePassages(tokens, weights, near.of_item, coded, near.entries, kinds) if any(coded) else None


def weighted(weights: Scores, cosines: Vector) -> Scores:
    """Return the weighted sums of the tokens' cosines (q, p) as (p,).

    OpenBLAS may set the flag of an invalid value although all values are finite: it computes lanes that it drops.
    """
    with np.errstate(invalid="ignore"):
        sums: Scores = weights @ cosines
    return sums


def weighted_query_tokens(query: PreparedQuery, word_weights: Mapping[str, float]) -> tuple[Vector, Scores]:
    """Return the query's token vectors with the largest weights (q, dim) and these weights (q,), which sum to 1."""
    embedder = embedder_for(query.active_space)
    assert isinstance(embedder, TokenEmbedder)
    assert query.embedding is not None
    text, tokens = query.text.text, query.embedding
    weights = token_weights(text, embedder.tokenize_query(text).spans[: len(tokens.token_ids)], word_weights)
    kept = np.sort(np.argsort(-weights, kind="stable")[:QUERY_TOKENS])
    chosen = weights[kept] ** WEIGHT_POWER
    return tokens.token_vectors[kept], chosen / max(float(chosen.sum()), 1e-6)


def token_weights(text: str, spans: Sequence[Span], word_weights: Mapping[str, float]) -> Scores:
    """Return the idf of the word that each token belongs to; punctuation has weight 0."""
    words: dict[int, str] = {}
    for match in _WORD.finditer(text):
        words |= dict.fromkeys(range(*match.span()), match.group().lower())
    rarest = max(word_weights.values(), default=1.0)
    weights = [word_weights.get(words[start], rarest) if start in words else 0.0 for start, _ in spans]
    result = np.asarray(weights, np.float32)
    return result if result.sum() > 0 else np.ones_like(result)


def max_sim_features(
    keys: ItemKeys, matches: PassageMatches, places: Ints, chosen: Chosen = EVERY
) -> dict[str, Scores]:
    """Return features, 0 to 1, of the items, or messages, `keys` (sorted), by the chosen passages at these places.

    Neighbours have consecutive keys.
    """
    best = matches.best_at(places, len(keys), chosen)
    # Each token's best cosine in the item or in its neighbours, as far as these are among the keys.
    nearby = best.copy()
    adjacent = np.flatnonzero(np.diff(keys) == 1)
    nearby[:, adjacent] = np.maximum(nearby[:, adjacent], best[:, adjacent + 1])
    nearby[:, adjacent + 1] = np.maximum(nearby[:, adjacent + 1], best[:, adjacent])
    return {
        Feature.MAX_SIM: weighted(matches.weights, best),
        Feature.NEIGHBOUR_MAX_SIM: weighted(matches.weights, nearby),
        Feature.PASSAGE_MAX_SIM: matches.single(places, len(keys), chosen),
    }
