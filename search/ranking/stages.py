"""From candidates to one order: a first score for all, late interaction and a second score for the best, diversity.

Reads dates, vectors and token vectors of candidates; the scores themselves are the rankers'.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql, pipelined
from convmemory.embeddings.embedder import Vector
from search.options import SearchOptions
from search.ranking.dates import closeness, named_period
from search.ranking.fusion import best_first, diversify
from search.ranking.late_interaction import late_interaction_features
from search.ranking.rankers import LengthBlendedRanker, LinearRanker, Ranker
from search.ranking.weights import weights_of
from search.retrieval.candidates import Scores, item_keys, split_keys, spread
from search.retrieval.dense import PendingItemVectors
from search.retrieval.features import LATE_INTERACTION, Feature, FeatureTable
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import Retrieved

RESCORED = 80  # how many of the best items by the first score get late interaction and a second score
TOP_K = 30  # how many of the best items are made diverse

Order = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rankers:
    """Which ranker scores when. Late interaction's features are there for `hybrid` and `semantic` alone."""

    first_stage: Ranker
    hybrid: Ranker
    semantic: Ranker
    full_text: Ranker
    sections: Ranker  # for `hybrid` where documents alone are searched

    @property
    def features(self) -> frozenset[str]:
        """Every feature that any of them weighs."""
        rankers = (self.first_stage, self.hybrid, self.semantic, self.full_text, self.sections)
        return frozenset(name for ranker in rankers for name in ranker.features)

    @classmethod
    def fitted(cls) -> "Rankers":
        """Those with the product's own weights."""
        return cls(
            first_stage=LinearRanker(weights_of("first_stage")),
            hybrid=LengthBlendedRanker(weights_of("hybrid"), weights_of("hybrid_long_items")),
            semantic=LinearRanker(weights_of("semantic")),
            full_text=LinearRanker(weights_of("full_text")),
            sections=LinearRanker(weights_of("sections")),
        )


MADE_BY_RANKING: frozenset[str] = frozenset({Feature.DATE}) | LATE_INTERACTION
"""The features that no retriever makes but ranking itself."""


@dataclass(frozen=True, slots=True)
class RankedItems:
    """Candidates with their features and scores, and `order`: indices into the table's keys, best first."""

    query: PreparedQuery
    table: FeatureTable = field(default_factory=FeatureTable)
    scores: Scores = field(default_factory=lambda: np.empty(0, np.float32))
    order: Order = field(default_factory=lambda: np.empty(0, np.int64))
    word_weights: Mapping[str, float] = field(default_factory=dict)


def rank_candidates(retrieved: Retrieved, *, rankers: Rankers, options: SearchOptions) -> RankedItems:
    """The candidates in the order of the query's mode. At most three queries, whatever the owner has."""
    query, table = retrieved.query, retrieved.table
    if not len(table.keys):
        return RankedItems(query, table, word_weights=retrieved.word_weights)
    table = table.with_columns(_date_features(query, table), of={Feature.DATE})
    if query.space is None:
        scores = rankers.full_text.score(table)
        return RankedItems(query, table, scores, best_first(scores, table.keys), retrieved.word_weights)
    if query.by_distance:
        scores = table.similarities
        return RankedItems(query, table, scores, best_first(scores, table.keys), retrieved.word_weights)
    scores = rankers.first_stage.score(table)
    best = np.sort(best_first(scores, table.keys)[:RESCORED])
    with pipelined():
        vectors = PendingItemVectors(query, table.keys[best]) if options.diversity_lambda < 1 else None
        if options.late_interaction:
            table = table.with_columns(_late_features(retrieved, table, best), of=LATE_INTERACTION)
            if Feature.MAX_SIM in table.columns:
                scores = second_ranker(query, rankers).score(table)
        order = best_first(scores, table.keys)
        if vectors is not None:
            order = _with_diverse_top(order, scores, best, vectors.read(), options.diversity_lambda)
    return RankedItems(query, table, scores, order, retrieved.word_weights)


def second_ranker(query: PreparedQuery, rankers: Rankers) -> Ranker:
    """The ranker of the best candidates, once late interaction has seen them."""
    if query.mode != "hybrid":
        return rankers.semantic
    return rankers.sections if query.is_of_documents_alone else rankers.hybrid


def _date_features(query: PreparedQuery, table: FeatureTable) -> dict[str, Scores]:
    """Where the query names a date, how near to it each item was written. One query or none."""
    period = named_period(query.text.text)
    if period is None:
        return {}
    sources, items = split_keys(table.keys)
    parameters: dict[str, Any] = {"owner": query.owner_id, "sources": sources, "items": items}
    ((found, numbers, days),) = PendingQuery(load_sql("search", "item_days"), parameters).rows()
    near = closeness(period, np.asarray(days or [], np.int64))
    return {Feature.DATE: np.nan_to_num(spread(table.keys, item_keys(found or [], numbers or []), near))}


def _late_features(retrieved: Retrieved, table: FeatureTable, best: Order) -> dict[str, Scores]:
    keys = table.keys[best]
    found = late_interaction_features(retrieved.query, keys, retrieved.word_weights)
    return {name: spread(table.keys, keys, scores) for name, scores in found.items()}


def _with_diverse_top(order: Order, scores: Scores, best: Order, vectors: Vector, relevance: float) -> Order:
    """`vectors` (n, dim) are those of the items at `best` (sorted); another item of the top is like none."""
    top = order[:TOP_K]
    places = np.searchsorted(best, top).clip(max=len(best) - 1)
    own = np.where((best[places] == top)[:, None], vectors[places], 0)
    similarity = own @ own.T
    np.fill_diagonal(similarity, 0)
    return np.concatenate([top[diversify(scores[top], similarity, relevance=relevance)], order[len(top) :]])
